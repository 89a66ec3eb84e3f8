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

    def __init__(self, connection: Connection, *, owner: str, fleet: str = "") -> None:
        self._c = connection
        self._owner = owner
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
        return wake_ups(reply), [run.decode() for run in reply[1]]

    async def leave(self) -> None:
        """Take this worker off the list of those that are alive."""
        pipeline = self._c.redis.pipeline(transaction=True)
        pipeline.zrem(self._c.keys("workers"), self._owner)
        pipeline.delete(self._c.keys("worker", self._owner))
        await self._c.read(pipeline.execute())
