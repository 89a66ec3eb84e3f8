"""What the system itself has to wake: due timers, leases that ran out, wake-ups that went astray."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from .connection import wake_ups

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .connection import Connection, WakeUp

log = structlog.get_logger("placet")


class Timers:
    """One look at all clocks, by any worker, as often as it likes."""

    def __init__(self, connection: Connection, *, owner: str) -> None:
        self._c = connection
        self._owner = owner

    async def look(self, *, facts: str, limit: int, queues: Iterable[str]) -> list[WakeUp]:
        """Recover, wake and list what is to be sent, at most `limit` of the lost ones, oldest first.

        `facts` is a JSON object that the worker tells of itself; saying it is its sign of life.
        """
        reply = await self._c.run("reconcile", self._owner, facts, limit, *queues)
        for record in reply[0]:
            log.error("record.unreadable", id=record.decode(errors="replace"))
        return wake_ups(reply)

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
