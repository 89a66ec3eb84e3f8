"""What this process believes to be stored, so that a put need not send it; never relied on."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

_LIMIT = 200_000


class Hint(NamedTuple):
    """The elements of a list channel in the checkpoint where it was last seen."""

    checkpoint_id: str = ""
    digests: frozenset[bytes] = frozenset()


class StoredHints:
    """One hint a list channel, at most `limit` digests in all; the oldest go first."""

    def __init__(self, *, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._count = 0
        self._hints: OrderedDict[tuple[str, str, str], Hint] = OrderedDict()

    def get(self, thread: str, namespace: str, channel: str) -> Hint:
        """Return what is believed to be stored of a channel."""
        return self._hints.get((thread, namespace, channel), Hint())

    def set(self, thread: str, namespace: str, channel: str, hint: Hint) -> None:
        """Remember a channel's hint in place of the one before."""
        key = (thread, namespace, channel)
        self._count += len(hint.digests) - len(self._hints.pop(key, Hint()).digests)
        self._hints[key] = hint
        while self._count > self._limit:
            self._count -= len(self._hints.popitem(last=False)[1].digests)
