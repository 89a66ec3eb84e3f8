"""Looks, in every worker, for what crashes leave: ended leases, due timers, wake-ups that went astray."""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING, Any

import structlog

from ..errors import RetryableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langgraph.checkpoint.base import BaseCheckpointSaver

    from ..dispatch import Dispatcher
    from ..settings import Settings
    from ..state.timers import Timers
    from .engine import Engine

log = structlog.get_logger("placet")
MOST_SECONDS_AWAY = 10.0
SWEEP_LOOKS = 10
"""How many looks lie between two sweeps, unless the first has left something."""


class Reconciler:
    """One look a second or so; any number of workers may look at once."""

    def __init__(
        self,
        *,
        timers: Timers,
        engine: Engine,
        dispatcher: Dispatcher,
        settings: Settings,
        facts: Mapping[str, Any],
        checkpoints: BaseCheckpointSaver[Any],
    ) -> None:
        self._timers = timers
        self._engine = engine
        self._dispatcher = dispatcher
        self._settings = settings
        self._facts = facts
        self._checkpoints = checkpoints
        self._started = 0
        self._until_sweep = 0
        self._deleted: list[str] = []
        self._executing: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Look, again and again; backs off while the store is away. Never ends."""
        pause = self._settings.reconcile_seconds
        failing = False
        while True:
            try:
                await self.look()
            except Exception as error:
                if not failing:
                    known = isinstance(error, RetryableError)
                    log.warning("reconciler.failed", error=str(error), exc_info=not known)
                failing = True
                pause = min(pause * 2, MOST_SECONDS_AWAY)
            else:
                if failing:
                    log.info("reconciler.recovered")
                failing = False
                pause = self._settings.reconcile_seconds
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311 - spreads the workers

    async def leave(self) -> None:
        """Say that this worker is gone, once `run` has been ended."""
        await self._timers.leave()

    async def look(self) -> None:
        """Look once and send what is to be sent."""
        now = {"active": self._engine.active, "writes_lost": self._timers.losses}
        wake_ups, asked = await self._timers.look(
            facts=json.dumps({**self._facts, **now}),
            limit=self._room(),
            queues=self._settings.queue_names,
            slots=self._settings.concurrency - self._engine.active,
        )
        self._dispatcher.send(wake_ups)
        for run_id in asked:
            # not by a message: any worker might take that, and the others have refused this run
            task = asyncio.create_task(self._execute(run_id))
            self._executing.add(task)
            task.add_done_callback(self._executing.discard)
        self._until_sweep -= 1
        if self._until_sweep <= 0:
            await self._sweep()

    async def _execute(self, run_id: str) -> None:
        try:
            await self._engine.execute(run_id)
        except RetryableError as error:
            log.warning("run.left", run_id=run_id, error=str(error))

    async def _sweep(self) -> None:
        """Remove what has outlived its lifetime."""
        more, threads = await self._timers.sweep(deleted=self._deleted)
        self._until_sweep = 0 if more else SWEEP_LOOKS
        self._deleted = []
        for thread_id in threads:  # of another checkpointer than our own
            await self._checkpoints.adelete_thread(thread_id)
            self._deleted.append(thread_id)

    def _room(self) -> int:
        """How many astray wake-ups to send again: never more than there are free slots.

        While messages arrive anyway, the oldest one only: what waits in the broker is not lost, and
        sending it again would make the queue longer.
        """
        free = self._settings.concurrency - self._engine.active
        flowing = self._engine.started > self._started
        self._started = self._engine.started
        return min(free, 1) if flowing else free
