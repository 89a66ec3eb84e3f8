"""Writes a segment's events to its run's stream while the graph goes on."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from ..encoding import dump_shown, size_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..state.leases import Claim, Leases

BATCH = 200
_BEGINS = 200
"""Characters of an event that was cut which are kept."""
GATHER_SECONDS = 0.05
"""How long an event waits for others: what nobody who watches sees, and a fast segment's are one write."""
PROGRESS_SECONDS = 0.005
"""How long progress waits, so that what is about to begin is not held up."""


class EventWriter:
    """What is added within a moment, or while a write is under way, is written together, in order.

    `async with` waits at its end until all is written; an error of the store comes up there.
    """

    def __init__(self, *, claim: Claim, leases: Leases) -> None:
        self._claim = claim
        self._leases = leases
        self._most_bytes = leases.settings.max_event_bytes
        self._waiting: list[tuple[str, str, str]] = []
        self._writing: asyncio.Task[None] | None = None
        self._closing = False
        self._hurry = asyncio.Event()
        self._progressed = self._told_progress = False
        self._batches = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self._closing = True
        self._hurry.set()
        if self._writing is not None:
            await self._writing

    def add(self, kind: str, ns: Sequence[str], data: Any) -> None:
        """Take an event; it will be on its way in a moment."""
        text = dump_shown(data)
        if (size := size_of(text)) > self._most_bytes:
            kind, text = "cut", dump_shown(cut(kind, text, size=size, most_bytes=self._most_bytes))
        self._waiting.append((kind, "|".join(ns), text))
        self._start()

    def progressed(self) -> None:
        """Say that the segment has got past what it began with: attempts count anew from here."""
        if not self._progressed:
            self._progressed = True
            # a worker that dies soon is not to take it along; a tool that kills it says itself that it began
            asyncio.get_running_loop().call_later(PROGRESS_SECONDS, self._hurry.set)
            self._start()

    def _start(self) -> None:
        if self._writing is None or self._writing.done():
            if self._writing is not None:
                self._writing.result()
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        while self._waiting or self._progressed != self._told_progress:
            await self._gather()
            batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
            progressed = self._progressed
            self._batches += 1
            await self._leases.append(self._claim, batch, batch=self._batches, progressed=progressed)
            self._told_progress = progressed

    async def _gather(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(GATHER_SECONDS):
                await self._hurry.wait()
        if not self._closing:
            self._hurry.clear()


def cut(kind: str, text: str, *, size: int, most_bytes: int) -> dict[str, Any]:
    """What stands in the place of an event that is too large."""
    return {"type": kind, "bytes": size, "most": most_bytes, "begins": text[:_BEGINS]}
