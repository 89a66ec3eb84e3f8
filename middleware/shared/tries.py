"""Attempts at calls that are tried again: what middleware of all processes shares of them, and in memory."""

from __future__ import annotations

import time
from typing import NamedTuple, Protocol


class TryRecord(NamedTuple):
    """What is known of a call's attempts."""

    number: int
    """Of the attempt that has been started, or of the last one if the next is not due; from 1."""
    wait_ms: int = 0
    """Until the next attempt is due; 0: it has been started."""
    due_ms: int = 0
    """When it is due, milliseconds since 1970 by the shared state's clock."""
    waited_ms: int = 0
    """What all waits of the call come to."""
    passed: int = 0
    """The ledger's attempts at the call that failed."""


class Tries(Protocol):
    """Attempts, counted for a run under a key."""

    async def start_try(self, run_id: str, key: str, *, deaths_count: bool) -> TryRecord:
        """Count and start the next attempt if it is due.

        An attempt that was started and came to no end is started anew, unless `deaths_count`.
        """

    async def fail_try(self, run_id: str, key: str, *, number: int, wait_ms: int, passed: int) -> TryRecord:
        """Note that an attempt failed, and when the next one is due."""

    async def withdraw_try(self, run_id: str, key: str, *, number: int) -> None:
        """Take a start back: the attempt paused or was stopped, which is no failure."""


class _Try:
    """The record of one key."""

    def __init__(self) -> None:
        self.number = self.due_ms = self.waited_ms = self.passed = 0
        self.running = False

    def told(self, now_ms: int) -> TryRecord:
        wait_ms = max(0, self.due_ms - now_ms)
        return TryRecord(self.number, wait_ms, self.due_ms, self.waited_ms, self.passed)


class InMemoryTries:
    """Attempts in this process."""

    def __init__(self) -> None:
        self._tries: dict[str, dict[str, _Try]] = {}

    def _try(self, run_id: str, key: str) -> _Try:
        return self._tries.setdefault(run_id, {}).setdefault(key, _Try())

    async def start_try(self, run_id: str, key: str, *, deaths_count: bool) -> TryRecord:
        """See `Tries`."""
        known, now = self._try(run_id, key), now_ms()
        if known.due_ms <= now:
            if deaths_count or not known.running:
                known.number += 1
            known.running, known.due_ms = True, 0
        return known.told(now)

    async def fail_try(self, run_id: str, key: str, *, number: int, wait_ms: int, passed: int) -> TryRecord:
        """See `Tries`."""
        known, now = self._try(run_id, key), now_ms()
        if known.running and known.number == number:
            known.running, known.passed, known.due_ms = False, passed, now + wait_ms
            known.waited_ms += wait_ms
        return known.told(now)

    async def withdraw_try(self, run_id: str, key: str, *, number: int) -> None:
        """See `Tries`."""
        known = self._try(run_id, key)
        if known.running and known.number == number:
            known.running, known.number = False, number - 1

    async def forget_failures(self, run_id: str) -> None:
        """Begin all counts of a run again, because somebody has it retried."""
        self._tries.pop(run_id, None)


def now_ms() -> int:
    """Milliseconds since 1970, by this machine's clock."""
    return int(time.time() * 1000)
