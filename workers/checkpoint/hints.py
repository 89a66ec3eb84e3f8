"""What this process believes to be stored, so that a put need not send it; never relied on."""

from __future__ import annotations

from collections import OrderedDict

_LIMIT = 200_000


class StoredHints:
    """Digests of the elements last seen in each list channel, at most `limit` in all; the oldest go first."""

    def __init__(self, *, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._count = 0
        self._digests: OrderedDict[tuple[str, str, str], frozenset[bytes]] = OrderedDict()

    def get(self, thread: str, namespace: str, channel: str) -> frozenset[bytes]:
        """Return what is believed to be stored of a channel."""
        return self._digests.get((thread, namespace, channel), frozenset())

    def set(self, thread: str, namespace: str, channel: str, digests: frozenset[bytes]) -> None:
        """Remember a channel's digests in place of those before."""
        key = (thread, namespace, channel)
        self._count += len(digests) - len(self._digests.pop(key, ()))
        self._digests[key] = digests
        while self._count > self._limit:
            self._count -= len(self._digests.popitem(last=False)[1])
