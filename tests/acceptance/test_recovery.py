"""Attempts, leases that were lost, failures: what a run comes to when its workers or its agent fail."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from brokers import on_both_brokers

from fleet import PATIENCE, human, wait_until

if TYPE_CHECKING:
    from fleet import Fleet
    from placet import Placet


@pytest.mark.settings(lease_seconds=2, max_attempts=3)
async def test_attempts_end(fleet: Fleet, placet: Placet) -> None:
    """A run that kills its worker ends as an error after the attempts that are set, and can be retried."""
    run = await placet.enqueue("slow_model", human("m"))
    await fleet.start(3)
    for attempt in (1, 2, 3):
        seen = await fleet.started("model", attempt)
        fleet.by_pid(seen[-1].pid).kill()
    await fleet.start()
    run = await placet.wait(run.id, timeout=PATIENCE)
    assert run.status == "error"
    assert run.error is not None
    assert run.error["type"] == "TooManyAttempts"
    assert len(fleet.effects("model")) == 3
    fleet.open_barrier("m")
    await placet.retry(run.id)
    run = await placet.wait(run.id, timeout=PATIENCE)
    assert (run.status, run.error) == ("success", None)
    assert [message["type"] for message in run.result["messages"]] == ["human", "ai"]


@pytest.mark.settings(lease_seconds=2, max_attempts=2)
async def test_progress_counts_anew(fleet: Fleet, placet: Placet) -> None:
    """Two attempts are allowed at each checkpoint, not in all."""
    await fleet.start(3)
    run = await placet.enqueue("slow_twice", human("s"))
    first = (await fleet.started("model"))[0]
    fleet.by_pid(first.pid).kill()  # attempt 1 at the start
    await fleet.started("model", 2)
    fleet.open_barrier("s")
    second = (await fleet.started("slow"))[0]
    fleet.by_pid(second.pid).kill()  # attempt 2, which got further
    await fleet.started("slow", 2)
    fleet.open_barrier("s-tool")
    run = await placet.wait(run.id, timeout=PATIENCE)
    assert run.status == "success", run.error
    events = [event async for event in placet.stream(run.id)]
    assert [event.type for event in events].count("run.recovered") == 2


@on_both_brokers
@pytest.mark.settings(lease_seconds=1)
async def test_a_zombie_writes_nothing(fleet: Fleet, placet: Placet) -> None:
    """A worker that was stopped for longer than its lease finds the run taken over."""
    await fleet.start(2)
    run = await placet.enqueue("slow_tool", human("z"))
    zombie = fleet.by_pid((await fleet.started("slow"))[0].pid)
    zombie.send(signal.SIGSTOP)
    await fleet.started("slow", 2)
    fleet.open_barrier("z")
    run = await placet.wait(run.id, timeout=PATIENCE)
    before, state = run.last_event, await placet.state(run.thread_id)
    zombie.send(signal.SIGCONT)

    async def lost() -> bool:
        return "run.lost" in zombie.log

    await wait_until(lost)
    run = await placet.get(run.id)
    assert (run.status, run.last_event) == ("success", before)
    assert await placet.state(run.thread_id) == state
    events = [event async for event in placet.stream(run.id)]
    taken_over = next(event.id for event in events if event.type == "run.recovered")
    assert zombie.pid not in {event.pid for event in events if event.id > taken_over}
    # it is as good as any other afterwards
    next(worker for worker in fleet.workers if worker is not zombie).kill()
    run = await placet.wait((await placet.enqueue("plain", human("a"))).id, timeout=PATIENCE)
    assert run.status == "success"


async def test_failing_agents(fleet: Fleet, placet: Placet) -> None:
    """Errors are data; a retry goes on from the checkpoint."""
    await fleet.start()
    tool = await placet.enqueue("failing_tool", human("go"))
    model = await placet.enqueue("failing_model", human("go"))
    tool = await placet.wait(tool.id, timeout=PATIENCE)
    assert (tool.status, tool.error) == (
        "error",
        {"type": "RuntimeError", "message": "boom", "node": "tools"},
    )
    model = await placet.wait(model.id, timeout=PATIENCE)
    assert model.status == "error"
    assert model.error == {"type": "ConnectionError", "message": "no model", "node": "model"}
    unknown = await placet.wait((await placet.enqueue("nobody", {})).id, timeout=PATIENCE)
    assert unknown.error is not None
    assert unknown.error["type"] == "UnknownAgent"
    await placet.retry(tool.id)
    assert (await placet.wait(tool.id, timeout=PATIENCE)).status == "error"
    assert len(fleet.effects("explode")) == 2
    messages = (await placet.state(tool.thread_id))["values"]["messages"]
    assert [message["type"] for message in messages] == ["human", "ai"]
    # the next message finds the call answered
    after = await placet.enqueue("plain", human("again"), thread_id=tool.thread_id)
    after = await placet.wait(after.id, timeout=PATIENCE)
    assert after.status == "success", after.error
    kinds = [message["type"] for message in after.result["messages"]]
    assert kinds == ["human", "ai", "tool", "human", "ai", "tool", "ai"]


async def test_agents_that_quit_end_their_run_and_not_the_worker(fleet: Fleet, placet: Placet) -> None:
    (worker,) = await fleet.start()
    expected = {
        ("quits_async", "exit"): "SystemExit",
        ("quits_async", "interrupt"): "KeyboardInterrupt",
        ("quits_async", "own"): "OwnSignal",
        ("quits_sync", "3"): "SystemExit",
    }
    for (agent, how), name in expected.items():
        run = await placet.enqueue(agent, {"how": how})
        run = await placet.wait(run.id, timeout=PATIENCE)
        assert run.status == "error"
        assert run.error is not None
        assert (run.error["type"], run.attempt) == (name, 1)
    run = await placet.enqueue("plain", human("go"))
    assert (await placet.wait(run.id, timeout=PATIENCE)).status == "success"
    worker.send(signal.SIGTERM)
    assert await worker.ended() == 0
