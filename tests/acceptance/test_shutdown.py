"""SIGTERM and SIGQUIT: what is under way goes on elsewhere, long before its lease has run out."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from brokers import on_both_brokers

from fleet import PATIENCE, human, wait_until

if TYPE_CHECKING:
    from fleet import Fleet, WorkerProcess
    from placet import Placet, Run

# only what is given back can go on within a test's patience
pytestmark = pytest.mark.settings(lease_seconds=600)


async def begun(fleet: Fleet, placet: Placet, agent: str, tool: str) -> tuple[Run, WorkerProcess]:
    """Start a run and see its tool blocked in one of two workers."""
    await fleet.start(2)
    run = await placet.enqueue(agent, human("gate"))
    (effect,) = await fleet.started(tool)
    return run, fleet.by_pid(effect.pid)


async def finished(placet: Placet, run: Run, first: WorkerProcess) -> None:
    """See the run end in the other worker; its events say that it was given back."""
    run = await placet.wait(run.id, timeout=PATIENCE)
    assert run.status == "success", run.error
    assert run.result["messages"][-1]["content"] == "done: passed gate"
    events = [event async for event in placet.stream(run.id)]
    assert [event.type for event in events].count("run.given_back") == 1
    assert "run.recovered" not in {event.type for event in events}
    assert events[-1].pid != first.pid
    assert run.attempt == 1


@on_both_brokers
@pytest.mark.settings(lease_seconds=600, grace_seconds=60)
async def test_warm_reaches_a_checkpoint(fleet: Fleet, placet: Placet) -> None:
    run, first = await begun(fleet, placet, "slow_tool", "slow")
    first.send(signal.SIGTERM)

    async def told() -> bool:
        return "Warm shutdown" in first.log

    await wait_until(told)
    fleet.open_barrier("gate")
    assert await first.ended() == 0
    await finished(placet, run, first)
    assert [effect.pid for effect in fleet.effects("slow")] == [first.pid]


@pytest.mark.settings(lease_seconds=600, grace_seconds=0.5)
async def test_warm_cancels_after_the_grace(fleet: Fleet, placet: Placet) -> None:
    run, first = await begun(fleet, placet, "slow_tool", "slow")
    first.send(signal.SIGTERM)
    await fleet.started("slow", 2)
    assert await first.ended() == 0
    fleet.open_barrier("gate")
    await finished(placet, run, first)
    assert len(fleet.effects("slow", "end")) == 1


@pytest.mark.settings(lease_seconds=600, grace_seconds=0.5)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGQUIT])
async def test_a_blocked_thread_does_not_keep_it(fleet: Fleet, placet: Placet, how: signal.Signals) -> None:
    run, first = await begun(fleet, placet, "slow_thread_tool", "slow_thread")
    first.send(how)
    await fleet.started("slow_thread", 2)
    assert await first.ended() == (0 if how is signal.SIGTERM else 1)
    fleet.open_barrier("gate")
    await finished(placet, run, first)


@on_both_brokers
@pytest.mark.settings(lease_seconds=600, grace_seconds=600)
async def test_cold_during_warm(fleet: Fleet, placet: Placet) -> None:
    run, first = await begun(fleet, placet, "slow_tool", "slow")
    first.send(signal.SIGTERM)
    first.send(signal.SIGQUIT)
    assert await first.ended() == 1
    await fleet.started("slow", 2)
    fleet.open_barrier("gate")
    await finished(placet, run, first)


async def test_idle(fleet: Fleet) -> None:
    workers = await fleet.start(2)
    for worker, how, status in zip(workers, (signal.SIGTERM, signal.SIGQUIT), (0, 1), strict=True):
        worker.send(how)
        assert await worker.ended() == status
        assert "Traceback" not in worker.log


async def test_a_worker_that_has_stopped_is_not_listed_as_alive(fleet: Fleet, placet: Placet) -> None:
    first, second = await fleet.start(2)
    listed = placet._connection.keys("workers")

    async def both() -> bool:
        return int(await placet._connection.redis.zcard(listed)) == 2

    await wait_until(both)
    first.send(signal.SIGTERM)
    assert await first.ended() == 0
    connection = placet._connection
    left = [name.decode() for name in await connection.read(connection.redis.zrange(listed, 0, -1))]
    assert [name.rpartition(":")[2] for name in left] == [str(second.pid)]
