"""Runs, segments and tools that take too long: each ends in time, and the thread can go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fleet import PATIENCE, human, paused, wait_until

if TYPE_CHECKING:
    from fleet import Fleet
    from placet import Placet, Run

AGENTS = {"slow_tool": "slow", "slow_thread_tool": "slow_thread", "stubborn_tool": "stubborn"}


async def timed_out(placet: Placet, run: Run, kind: str) -> None:
    run = await placet.wait(run.id, timeout=PATIENCE)
    assert run.status == "timeout", (run.status, run.error)
    assert run.error is not None
    assert (run.error["type"], run.error["message"]) == (kind, run.reason)


async def goes_on(placet: Placet, run: Run) -> dict[str, Any]:
    """The thread's next run succeeds; gives the result of the call that was cut off."""
    after = await placet.enqueue("plain", human("next"), thread_id=run.thread_id)
    after = await placet.wait(after.id, timeout=PATIENCE)
    assert after.status == "success", after.error
    messages: list[dict[str, Any]] = (await placet.state(run.thread_id))["values"]["messages"]
    return next(message for message in messages if message["type"] == "tool")


async def logged(fleet: Fleet, event: str) -> bool:
    return event in fleet.workers[0].log


async def test_a_run(fleet: Fleet, placet: Placet) -> None:
    """Whether its tool listens, sits in a thread, is deaf, or died with its worker; a retry goes on."""
    (first,) = await fleet.start()
    runs = {agent: await placet.enqueue(agent, human(agent), timeout_seconds=2) for agent in AGENTS}
    later = await placet.enqueue("slow_tool", human("later"), timeout_seconds=600)
    for run in runs.values():
        await timed_out(placet, run, "RunTimeout")
    cut_off = await goes_on(placet, runs["stubborn_tool"])
    said = "The call of `stubborn` was cut off and may have taken effect: timed out: "
    assert cut_off["content"].startswith(said)
    assert cut_off["status"] == "error"

    dying = await placet.enqueue("slow_tool", human("dying"), timeout_seconds=2)
    await fleet.started("slow", 3)
    first.kill()
    await fleet.start()
    await timed_out(placet, dying, "RunTimeout")
    for name in ("dying", "later", *AGENTS):
        fleet.open_barrier(name)
    assert (await placet.wait(later.id, timeout=PATIENCE)).status == "success"
    retried = await placet.retry(dying.id)
    retried = await placet.wait(retried.id, timeout=PATIENCE)
    assert (retried.status, retried.error, retried.reason) == ("success", None, "")
    assert retried.result["messages"][-1]["content"] == "done: passed dying"


@pytest.mark.settings(segment_timeout_seconds=1.5)
async def test_a_segment(fleet: Fleet, placet: Placet) -> None:
    await fleet.start()
    runs = {agent: await placet.enqueue(agent, human(agent)) for agent in AGENTS}
    for run in runs.values():
        await timed_out(placet, run, "SegmentTimeout")
    assert fleet.effects(what="end") == []
    # the deaf one holds its slot, and that is told of, until it returns
    await wait_until(lambda: logged(fleet, "slot.lost"))
    assert not await logged(fleet, "slot.returned")
    for agent in runs:
        fleet.open_barrier(agent)
    await wait_until(lambda: logged(fleet, "slot.returned"))
    for run in runs.values():
        assert "a segment did not end within 1.5 s" in (await goes_on(placet, run))["content"]


async def test_a_tool(fleet: Fleet, placet: Placet) -> None:
    """The model is told, the run goes on, and of the approved call nobody claims that it was done or not."""
    await fleet.start()
    run = await placet.enqueue("gated_brief_tool", human("gate"))
    (asked,) = await paused(placet, run)
    await placet.decide(asked.id, {"type": "approve"}, reviewer="ann")
    run = await placet.wait(run.id, timeout=PATIENCE)
    assert run.status == "success", run.error
    assert run.result["messages"][-1]["content"] == (
        "done: The call of `slow` did not end within 0.2 s and was cancelled; it may have taken effect."
    )
    assert (await placet.approval(asked.id)).outcome == "unknown"
    assert (len(fleet.effects("slow")), fleet.effects("slow", "end")) == (1, [])
