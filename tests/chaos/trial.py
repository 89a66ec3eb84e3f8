"""One trial: a plan carried out on a world until all is quiet, then checked."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from placet.errors import PermanentError, RetryableError

from .checker import check
from .evidence import gather
from .faults import inject
from .mutations import made
from .settling import settle
from .world import open_world

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from placet import Placet

    from .checker import Report
    from .evidence import Evidence
    from .plan import Plan, PlannedRun
    from .world import World

CLIENT = "client"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What is to be tried, and where."""

    plan: Plan
    folder: Path
    """For logs and records; left as they are."""
    workers: int
    mutation: str = ""
    patience: float = 180.0
    """Seconds that runs have to end in, once everything has been asked for and broken."""
    say: Callable[[str], None] = print

    async def run(self) -> tuple[Report, Evidence]:
        """Carry the plan out and check what came of it."""
        opened = open_world(self.plan, self.folder, workers=self.workers, mutation=self.mutation)
        with made(self.mutation):
            async with opened as (world, placet):
                await self._carry_out(world, placet)
                evidence = await gather(self.plan, world, placet)
        return check(evidence), evidence

    async def _carry_out(self, world: World, placet: Placet) -> None:
        began = time.monotonic()
        faults = self.plan.faults

        def now() -> str:
            return f"{time.monotonic() - began:6.1f} s"

        async def at(seconds: float) -> None:
            await asyncio.sleep(max(0.0, began + seconds - time.monotonic()))

        async def break_at(number: int) -> None:
            await at(faults[number].at)
            self.say(f"{now()}  fault {number + 1} of {len(faults)}: {faults[number].kind}")
            await inject(world, faults[number])

        async def ask_at(run: PlannedRun) -> None:
            await at(run.at)
            await _ask(run, world, placet)

        async with asyncio.TaskGroup() as group:
            for run in self.plan.runs:
                group.create_task(ask_at(run))
            for number in range(len(faults)):
                group.create_task(break_at(number))
        self.say(f"{now()}  all asked for, all broken")
        await settle(world, placet, patience=self.patience)
        self.say(f"{now()}  quiet")


async def _ask(run: PlannedRun, world: World, placet: Placet) -> None:
    """Enqueue a run, and cancel it if that is planned."""
    given: dict[str, Any] = {
        "input": {"messages": [{"role": "user", "content": json.dumps(run.steps)}]},
        "thread_id": run.thread,
        "run_id": run.id,
        "multitask_strategy": run.strategy,
    }
    if run.start_after is not None:
        given["start_at"] = timedelta(seconds=run.start_after)
    await _until_told(world, "enqueue", run.id, lambda: placet.enqueue(run.agent, **given))
    if run.cancel_after is not None:
        await asyncio.sleep(run.cancel_after)
        await _until_told(world, "cancel", run.id, lambda: placet.cancel(run.id))


async def _until_told(world: World, call: str, run: str, ask: Callable[[], Awaitable[object]]) -> None:
    """Ask until the store answers; the witness is told of each attempt."""
    while True:
        row = await asyncio.to_thread(world.witness.asked, CLIENT, call, run=run)
        try:
            await ask()
        except (RetryableError, PermanentError) as error:
            said, detail = type(error).__name__, str(error)
        else:
            said, detail = "done", ""
        await asyncio.to_thread(world.witness.told, row, said, detail)
        if said != "StoreUnavailable":
            return
        await asyncio.sleep(0.2)
