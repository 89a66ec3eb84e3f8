"""Counts of calls that have limits: what middleware of all processes shares of them, and in memory."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

GRACE_MS = 60_000
"""How long a place in a window stays kept for who was told to come back for it."""


class CallCount(NamedTuple):
    """One count that a call adds to, and its limit."""

    scope: Literal["run", "thread", "window"]
    key: str
    """Its name in the run or thread; a window's is its own everywhere."""
    limit: int | None
    """None: it is only counted."""
    per_ms: int = 0
    """A window's length: no such time, wherever it begins, has more calls than the limit."""
    waits: bool = False
    """Whether a call that a window has no room for is to wait instead of being refused."""


class Counted(NamedTuple):
    """Whether a call was counted, which it is everywhere or nowhere."""

    state: Literal["counted", "refused", "waits"]
    values: tuple[int, ...]
    """What the counts were before it."""
    full: tuple[bool, ...]
    """Which of them have no room."""
    due_ms: int = 0
    """When one that waits is to ask again, milliseconds since 1970."""


class CallCounts(Protocol):
    """Counts of calls, each change atomic over all that it is about."""

    async def count_call(
        self, run_id: str, counts: Sequence[CallCount], *, thread_id: str, waiter: str
    ) -> Counted:
        """Count a call that is about to be made if every count has room for it.

        If only windows that let it wait have none, a place is kept for `waiter`, the call's name, the same
        one whenever it asks.
        """

    async def call_counts(
        self, run_id: str, counts: Sequence[CallCount], *, thread_id: str
    ) -> tuple[int, ...]:
        """Look at the counts."""


class _Window:
    """The calls of one window, and who waits for it."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.line: dict[str, int] = {}

    def used(self, per_ms: int, now: int) -> int:
        del self.calls[: bisect_right(self.calls, now - per_ms)]
        self.line = {waiter: due for waiter, due in self.line.items() if due > now - GRACE_MS}
        return len(self.calls)

    def is_full(self, limit: int, waiter: str, now: int) -> bool:
        mine = self.line.get(waiter)
        if mine is not None and mine > now:
            return True
        ahead = sum(due < mine if mine is not None else due <= now for due in self.line.values())
        return len(self.calls) + ahead >= limit

    def due(self, limit: int, per_ms: int, waiter: str, now: int) -> int:
        if self.line.get(waiter, 0) > now:
            return self.line[waiter]
        self.line.pop(waiter, None)
        place = len(self.line) - (limit - len(self.calls))
        opens = self.calls[place:] or sorted(self.line.values())[place - len(self.calls) :]
        self.line[waiter] = opens[0] + per_ms
        return self.line[waiter]


class InMemoryCallCounts:
    """Counts of calls in this process."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, str], int] = {}
        self._windows: dict[str, _Window] = {}
        self._lock = threading.Lock()

    async def count_call(
        self, run_id: str, counts: Sequence[CallCount], *, thread_id: str, waiter: str
    ) -> Counted:
        """See `CallCounts`."""
        owner = {"run": run_id, "thread": thread_id}
        with self._lock:
            now = time.time_ns() // 1_000_000
            values = tuple(self._value(one, owner, now) for one in counts)
            full = tuple(
                self._windows[one.key].is_full(one.limit or 0, waiter, now)
                if one.scope == "window"
                else one.limit is not None and value >= one.limit
                for one, value in zip(counts, values, strict=True)
            )
            without_room = [one for one, is_full in zip(counts, full, strict=True) if is_full]
            if not all(one.waits for one in without_room):
                return Counted("refused", values, full)
            if without_room:
                due = max(
                    self._windows[one.key].due(one.limit or 0, one.per_ms, waiter, now)
                    for one in without_room
                )
                return Counted("waits", values, full, due)
            for one in counts:
                if one.scope == "window":
                    self._windows[one.key].calls.append(now)
                    self._windows[one.key].line.pop(waiter, None)
                else:
                    key = (one.scope, owner[one.scope], one.key)
                    self._counts[key] = self._counts.get(key, 0) + 1
            return Counted("counted", values, full)

    async def call_counts(
        self, run_id: str, counts: Sequence[CallCount], *, thread_id: str
    ) -> tuple[int, ...]:
        """See `CallCounts`."""
        owner = {"run": run_id, "thread": thread_id}
        with self._lock:
            now = time.time_ns() // 1_000_000
            return tuple(self._value(one, owner, now) for one in counts)

    def _value(self, count: CallCount, owner: dict[str, str], now: int) -> int:
        if count.scope == "window":
            return self._windows.setdefault(count.key, _Window()).used(count.per_ms, now)
        return self._counts.get((count.scope, owner[count.scope], count.key), 0)
