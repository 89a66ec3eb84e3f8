"""Runs that kill their workers: they are parked, what they share a worker with is not."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from fleet import PATIENCE
from placet.worker.processes import Supervisor
from placet.worker.serve import worker_command

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fleet import Fleet
    from placet import Placet


@asynccontextmanager
async def supervised(fleet: Fleet, count: int) -> AsyncIterator[None]:
    """Workers that are started again when they die, as `placet worker --processes` does."""
    supervisor = Supervisor(
        commands=[worker_command(fleet.settings, number=number) for number in range(count)],
        env=fleet.env(),
        on_line=print,
        say=print,
        settled_seconds=1,
        delay_seconds=0.1,
    )
    running = asyncio.create_task(supervisor.run())
    try:
        yield
    finally:
        supervisor.end()
        await running


@pytest.mark.settings(lease_seconds=1, concurrency=30, max_attempts=3)
async def test_a_poison_run_is_parked_and_innocents_that_shared_its_workers_succeed(
    fleet: Fleet, placet: Placet
) -> None:
    innocents = [await placet.enqueue("brief", {"how": "none"}) for _ in range(25)]
    poison = await placet.enqueue("poison", {"how": "segfault"})
    innocents += [await placet.enqueue("brief", {"how": "none"}) for _ in range(25)]
    async with supervised(fleet, 2):
        run = await placet.wait(poison.id, timeout=2 * PATIENCE)  # workers start five times meanwhile
        assert run.status == "error"
        assert run.error is not None
        pids = [effect.pid for effect in fleet.effects("die")]
        assert run.error["type"] == "TooManyAttempts"
        assert "no progress in 3 attempts: 3 workers died while executing it" in run.error["message"]
        assert all(str(pid) in run.error["message"] for pid in pids)
        assert (len(set(pids)), run.deaths) == (3, 3)
        assert [one.id for one in await placet.runs(status="error")] == [poison.id]
        ended = [await placet.wait(one.id, timeout=2 * PATIENCE) for one in innocents]
        assert {one.status for one in ended} == {"success"}
        assert max(one.deaths for one in ended) > 0  # it did take others with it
        # whatever was wrong is put right, and it goes on
        fleet.open_barrier("healed")
        await placet.retry(poison.id)
        run = await placet.wait(poison.id, timeout=PATIENCE)
        assert (run.status, run.deaths) == ("success", 0)
