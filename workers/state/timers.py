"""What the system itself has to wake: due timers, leases that ran out, wake-ups that went astray."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from .connection import moment, wake_ups

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .connection import Connection, WakeUp

log = structlog.get_logger("placet")
REMEMBERED_MS = 3_600_000
"""How long the store keeps a worker that says nothing."""
MOST_LOSSES = 5


class Timers:
    """One look at all clocks, by any worker, as often as it likes."""

    def __init__(self, connection: Connection, *, owner: str, fleet: str = "") -> None:
        self._c = connection
        self._owner = owner
        self._looked = 0
        """The server's time of the last look, in ms."""
        self.losses: list[tuple[str, str]] = []
        """The last spans (two ISO 8601 times, the first empty for always) whose writes the store has lost."""
        self._fleet = fleet

    async def look(
        self, *, facts: str, limit: int, queues: Iterable[str], slots: int = 0
    ) -> tuple[list[WakeUp], list[str]]:
        """Recover, wake and list what is to be sent, at most `limit` of the lost ones, oldest first.

        `facts` is a JSON object that the worker tells of itself; saying it is its sign of life. Also returns
        up to `slots` runs that other deployments could not take on: this one is asked to execute them.
        """
        own = (self._fleet, self._c.settings.build_id, slots)
        reply = await self._c.run("reconcile", self._owner, facts, limit, *own, *queues)
        for record in reply[0]:
            log.error("record.unreadable", id=record.decode(errors="replace"))
        self._note_losses(int(float(reply[2] or 0)), int(reply[3]))
        return wake_ups(reply), [run.decode() for run in reply[1]]

    def _note_losses(self, seen: int, now: int) -> None:
        """Compare what the store knows of the last look with what this worker does."""
        forgotten = not seen and now - self._looked >= REMEMBERED_MS
        if seen < self._looked and not forgotten:
            since = moment(str(seen)).isoformat() if seen else ""
            until = moment(str(self._looked)).isoformat()
            self.losses = [*self.losses[-MOST_LOSSES + 1 :], (since, until)]
            log.error("store.writes_lost", since=since, until=until)
        self._looked = now

    async def sweep(self, *, most: int = 100, deleted: Iterable[str] = ()) -> tuple[bool, list[str]]:
        """Remove what has outlived its lifetime, at most so many records; says whether there is more.

        Where the checkpointer is not Placet's own, it also returns the threads whose checkpoints are to be
        deleted there: again and again until they are `deleted`.
        """
        settings = self._c.settings
        lifetimes = (int(settings.runs_keep_seconds * 1000), int(settings.thread_ttl_seconds * 1000))
        elsewhere = "" if settings.checkpointer == "placet" else "1"
        more, threads = await self._c.run("sweep", *lifetimes, elsewhere, most, *deleted, again=True)
        return bool(more), [one.decode() for one in threads]

    async def leave(self) -> None:
        """Take this worker off the list of those that are alive."""
        pipeline = self._c.redis.pipeline(transaction=True)
        pipeline.zrem(self._c.keys("workers"), self._owner)
        pipeline.delete(self._c.keys("worker", self._owner))
        await self._c.read(pipeline.execute())
