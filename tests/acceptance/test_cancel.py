"""A run that is cancelled, in whatever state, never ends as anything else, and frees its thread."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from fleet import PATIENCE, human, paused, wait_until
from placet.errors import Conflict

if TYPE_CHECKING:
    from fleet import Fleet
    from placet import Placet, Run

TIMES = 50
STATES = ("pending", "behind", "asleep", "waiting", "in_tool", "in_thread", "in_model", "deaf")
AGENTS = {
    "waiting": "batched",
    "in_tool": "slow_tool",
    "in_thread": "slow_thread_tool",
    "in_model": "slow_model",
    "deaf": "stubborn_tool",
}
EFFECTS = {"in_tool": "slow", "in_thread": "slow_thread", "in_model": "model", "deaf": "stubborn"}


async def in_state(fleet: Fleet, placet: Placet, state: str) -> list[Run]:
    """Runs, each on a thread of its own, that are in that state."""
    options: dict[str, Any] = {"start_at": timedelta(hours=1)} if state == "asleep" else {}
    if state == "pending":
        options["queue"] = "nobody"
    runs = []
    for n in range(TIMES):
        thread = f"{state}-{n}"
        if state == "behind":
            await placet.enqueue("per_call", human(thread), thread_id=thread)
        agent = AGENTS.get(state, "plain")
        runs.append(await placet.enqueue(agent, human(thread), thread_id=thread, **options))
    if state == "waiting":
        for run in runs:
            pay, _ = await paused(placet, run)
            await placet.decide(pay.id, {"type": "approve"}, reviewer="ann")
    if state in EFFECTS:
        await fleet.started(EFFECTS[state], TIMES)
    return runs


@pytest.mark.settings(concurrency=150)
async def test_in_each_state_fifty_times(fleet: Fleet, placet: Placet) -> None:
    await fleet.start(2)
    in_states = [await in_state(fleet, placet, state) for state in STATES]
    runs = [run for some in in_states for run in some]
    await asyncio.gather(*(placet.cancel(run.id, reason="not needed") for run in runs))
    ended = [await placet.wait(run.id, timeout=PATIENCE) for run in runs]
    assert {(run.status, run.reason) for run in ended} == {("cancelled", "not needed")}
    waited = [one for one in await placet.approvals(status=None, limit=1_000) if one.agent == "batched"]
    assert {one.status for one in waited} == {"cancelled", "decided"}
    assert {one.outcome for one in waited} == {"not_run"}
    with pytest.raises(Conflict):
        await placet.decide(waited[0].id, {"type": "approve"}, reviewer="eve")

    # what could not be stopped is told of, comes to its end, and changes nothing
    for what, state in (("slot", "deaf"), ("thread", "in_thread")):
        await wait_until(partial(logged, fleet, f"{what}.lost"))
        assert not fleet.effects(EFFECTS[state], "end")
    for run in runs:
        fleet.open_barrier(run.thread_id)
    for what in ("slot", "thread"):
        await wait_until(partial(logged, fleet, f"{what}.returned"))
    assert fleet.effects("slow", "end") == fleet.effects("model", "end") == fleet.effects("pay") == []
    assert [await placet.get(run.id) for run in runs] == ended
    for some in in_states:
        await goes_on(placet, some[0])


async def logged(fleet: Fleet, event: str) -> bool:
    return "".join(worker.log for worker in fleet.workers).count(event) == TIMES


async def goes_on(placet: Placet, run: Run) -> None:
    """The thread's next run succeeds on messages that are in order."""
    for other in await placet.runs(thread_id=run.thread_id):
        if not other.ended:  # what it was behind
            await placet.cancel(other.id)
    after = await placet.enqueue("plain", human("next"), thread_id=run.thread_id)
    after = await placet.wait(after.id, timeout=PATIENCE)
    assert after.status == "success", after.error
    messages = (await placet.state(run.thread_id))["values"]["messages"]
    calls = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    results = {m["tool_call_id"]: m["content"] for m in messages if m["type"] == "tool"}
    assert set(results) == set(calls)
    assert not any("passed" in text for text in results.values())


async def test_at_any_moment_of_a_run(fleet: Fleet, placet: Placet) -> None:
    """Between the graph's end and the commit, too: what the caller was told is what the run ends as."""
    await fleet.start()

    async def cancelled_at(n: int) -> str:
        run = await placet.enqueue("plain", human("go"))
        events = placet.stream(run.id)
        async for event in events:
            if event.id > n % 16:  # a run's events, up to its end
                break
        await events.aclose()
        try:
            await placet.cancel(run.id)
        except Conflict:
            return (await placet.get(run.id)).status
        assert (await placet.wait(run.id, timeout=PATIENCE)).status == "cancelled"
        return "cancelled"

    came_to = [
        status
        for n in range(0, TIMES, 10)
        for status in await asyncio.gather(*map(cancelled_at, range(n, n + 10)))
    ]
    assert set(came_to) <= {"cancelled", "success"}
    assert "cancelled" in came_to


@pytest.mark.settings(lease_seconds=600)
async def test_from_another_process_while_its_hints_are_cut_off(fleet: Fleet, placet: Placet) -> None:
    """aegra#132: with every client's connection killed meanwhile, it stops, though no renewal is near."""
    await fleet.start()
    runs = [await placet.enqueue("slow_tool", human(f"gate-{n}")) for n in range(3)]
    await fleet.started("slow", len(runs))
    redis = placet._connection.redis
    for run in runs:
        await redis.client_kill_filter(_type="pubsub")
        await redis.client_kill_filter(_type="normal", skipme=True)
        await placet.cancel(run.id)
        assert (await placet.wait(run.id, timeout=PATIENCE)).status == "cancelled"
    assert fleet.effects("slow", "end") == []


async def test_a_call_that_only_waited_for_a_person_was_never_started(fleet: Fleet, placet: Placet) -> None:
    await fleet.start()
    run = await placet.enqueue("batched", human("pay"))
    await paused(placet, run)
    await placet.cancel(run.id, reason="not needed")
    await paused(placet, await placet.enqueue("batched", human("again"), thread_id=run.thread_id))
    said = (await placet.state(run.thread_id))["values"]["messages"]
    results = [one for one in said if one["type"] == "tool"]
    assert [one["content"] for one in results] == [
        f"The call of `{one['name']}` was never started: not needed." for one in results
    ]
    assert len(results) == 3
