"""Limits of calls over workers, pauses and `kill -9`: what was called is counted outside of Redis."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from fleet import PATIENCE, human, paused

if TYPE_CHECKING:
    from fleet import Fleet
    from placet import Placet, Run

pytestmark = pytest.mark.settings(lease_seconds=2)


async def end(placet: Placet, run: Run) -> str:
    run = await placet.wait(run.id, timeout=PATIENCE)
    assert run.status == "success", run.error
    return str(run.result["messages"][-1]["content"])


@pytest.mark.settings(lease_seconds=10, concurrency=20)
async def test_two_hundred_runs_of_a_tenant_on_four_workers(fleet: Fleet, placet: Placet) -> None:
    """Limit 100 an hour: exactly 100 paid calls; another tenant has its own."""
    await fleet.start(4)
    room = asyncio.Semaphore(20)

    async def run(tenant: str) -> tuple[str, str]:
        async with room:
            config = {"configurable": {"tenant": tenant}}
            enqueued = await placet.enqueue("tenant_limited", human("go"), config=config)
        return tenant, await end(placet, enqueued)

    came_to = Counter(await asyncio.gather(*(run(tenant) for tenant in ["acme"] * 200 + ["other"] * 10)))
    refused = "Model call limits exceeded: tenant limit (100/100 in 3600 s)"
    assert came_to == {("acme", "done"): 100, ("acme", refused): 100, ("other", "done"): 10}
    assert len(fleet.effects("model")) == 110
    assert len({effect.pid for effect in fleet.effects("model")}) == 4


async def test_a_full_window_parks_runs_until_it_opens(fleet: Fleet, placet: Placet) -> None:
    """Two a second: seven runs wait for one another, and nobody is asked."""
    await fleet.start(2)
    config = {"configurable": {"tenant": "acme"}}
    runs = [await placet.enqueue("tenant_parked", human("go"), config=config) for _ in range(7)]
    assert [await end(placet, run) for run in runs] == ["done"] * 7
    assert len(fleet.effects("model")) == 7
    told = [event for run in runs async for event in placet.stream(run.id)]
    why = {event.data["sleeps"] for event in told if event.type == "run.parked"}
    assert why == {"room for a call in tenants 2"}


async def test_calls_whose_worker_was_killed_were_made(fleet: Fleet, placet: Placet) -> None:
    """Of an agent's model (LangChain's: six paid calls, count three), of a tool, and of a subagent's model.

    The subagent has no limit of its own.
    """
    (worker,) = await fleet.start()
    agents = ("limited_model", "limited_slow_tool", "limited_search")
    model, tool, search = [await placet.enqueue(agent, human("go")) for agent in agents]
    for what in ("model", "slow", "inner"):
        await fleet.started(what)
    worker.kill()
    await fleet.start()
    fleet.open_barrier("go")
    assert await end(placet, model) == "Model call limits exceeded: run limit (3/3)"
    why = "ended by ModelCallLimitMiddleware: Model call limits exceeded: run limit (3/3)"
    assert (await placet.get(model.id)).reason == why
    assert len(fleet.effects("model")) == 3
    assert await end(placet, tool) == "done: Tool call limit exceeded. Do not call 'slow' again."
    assert len(fleet.effects("slow")) == 1
    assert await end(placet, search) == "Model call limits exceeded: run limit (5/5)"
    assert (len(fleet.effects("outer")), len(fleet.effects("inner"))) == (1, 4)


async def test_a_limit_is_for_a_run_with_all_its_pauses(fleet: Fleet, placet: Placet) -> None:
    """Another process goes on after a pause. LangChain's: run limit 2 of the model, five calls.

    agno#7962: tool limit 1; approved, the model calls again: blocked, and nobody is asked. What was rejected
    was not called.
    """
    (worker,) = await fleet.start()
    agents = ("limited_gate", "limited_tool", "limited_tool")
    gated, approved, rejected = [await placet.enqueue(agent, human("go")) for agent in agents]
    for round_ in range(2):
        asked = {run.id: (await paused(placet, run))[0] for run in (gated, rejected)}
        if not round_:
            asked[approved.id] = (await paused(placet, approved))[0]
            worker.kill()
            await fleet.start()
        for run_id, request in asked.items():
            kind = "reject" if run_id == rejected.id and not round_ else "approve"
            await placet.decide(request.id, {"type": kind}, reviewer="ann")
    assert await end(placet, gated) == "Model call limits exceeded: run limit (2/2)"
    assert len(fleet.effects("model")) == 2
    assert await end(placet, approved) == "done: Tool call limit exceeded. Do not make additional tool calls."
    assert len(await placet.approvals(status=None, run_id=approved.id)) == 1
    assert await end(placet, rejected) == "done: paid ann 10"
    assert len(fleet.effects("pay")) == 2 + 1 + 1
    fresh = await placet.enqueue("limited_gate", human("again"), thread_id=gated.thread_id)
    assert len(await paused(placet, fresh)) == 1


async def test_an_approved_call_for_which_there_is_no_room_any_more(fleet: Fleet, placet: Placet) -> None:
    """There was when each was asked about. The request says that it did not run."""
    await fleet.start()
    runs = [await placet.enqueue("limited_window", human("go")) for _ in range(2)]
    asked = [(await paused(placet, run))[0] for run in runs]
    texts = []
    for run, request in zip(runs, asked, strict=True):
        await placet.decide(request.id, {"type": "approve"}, reviewer="ann")
        texts.append(await end(placet, run))
    refused = "done: Tool call limit exceeded. Do not make additional tool calls."
    assert texts == ["done: paid ann 10", refused]
    found = [await placet.approval(request.id) for request in asked]
    assert [one.outcome for one in found] == ["succeeded", "not_run"]
    assert len(fleet.effects("pay")) == 1


async def test_errors_are_data(fleet: Fleet, placet: Placet) -> None:
    """A retry outside of the limit swallows none; a new message gets a fresh limit."""
    await fleet.start()
    thread = None
    for calls in (2, 4):
        run = await placet.enqueue("limited_error", human("go"), thread_id=thread)
        thread = run.thread_id
        ended = await placet.wait(run.id, timeout=PATIENCE)
        assert ended.error is not None
        assert (ended.status, ended.error["type"]) == ("error", "ModelCallLimitExceededError")
        assert ended.error["message"] == "Model call limits exceeded: run limit (2/2)"
        assert len(fleet.effects("model")) == calls
    ended = await placet.wait((await placet.enqueue("tenant_limited", human("go"))).id, timeout=PATIENCE)
    assert ended.error is not None
    assert (ended.status, ended.error["type"]) == ("error", "OwnerMissing")
    assert "config.configurable.tenant" in ended.error["message"]
    assert len(fleet.effects("model")) == 4
