"""`kill -9` at every point of a run: it ends right elsewhere, within two leases."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fleet import PATIENCE, paused

if TYPE_CHECKING:
    from fleet import Fleet
    from placet import Placet, Run
    from placet.state.events import Event

PLUGINS = str(Path(__file__).parent / "plugins")
CLAIM, PAUSE, FINISH = (f"placet.state.leases:Leases.{name}" for name in ("claim", "pause", "finish"))
pytestmark = pytest.mark.settings(lease_seconds=2)


def human(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


async def start_two(fleet: Fleet, *, kill: str) -> None:
    await fleet.start(2, PYTHONPATH=PLUGINS, PLACET_TEST_KILL=kill)


async def kill_first(fleet: Fleet, name: str) -> None:
    """Kill the process in which a tool or model is under way; wait for it to be started in the other."""
    fleet.by_pid((await fleet.started(name))[0].pid).kill()
    first, second = await fleet.started(name, 2)
    assert first.pid != second.pid


async def ended(placet: Placet, run: Run) -> Run:
    run = await placet.wait(run.id, timeout=PATIENCE)
    assert run.status == "success", run.error
    types = [message["type"] for message in run.result["messages"]] if "messages" in run.result else []
    assert types.count("human") <= 1, types
    return run


async def recovered(placet: Placet, run: Run) -> list[Event]:
    """What the events say of the crash: one recovery."""
    events = [event async for event in placet.stream(run.id)]
    assert events[-1].type == "run.ended"
    assert [event.id for event in events] == list(range(1, len(events) + 1))
    return [event for event in events if event.type == "run.recovered"]


def dead(fleet: Fleet) -> int:
    return sum(worker.process.poll() == -9 for worker in fleet.workers)


async def test_while_the_model_answers(fleet: Fleet, placet: Placet) -> None:
    await fleet.start(2)
    run = await placet.enqueue("slow_model", human("m"))
    await kill_first(fleet, "model")
    fleet.open_barrier("m")
    run = await ended(placet, run)
    assert run.result["messages"][-1]["content"] == "done: m"
    (event,) = await recovered(placet, run)
    assert "may_run_again" not in event.data


async def test_while_a_tool_runs(fleet: Fleet, placet: Placet) -> None:
    await fleet.start(2)
    run = await placet.enqueue("slow_tool", human("t"))
    await kill_first(fleet, "slow")
    fleet.open_barrier("t")
    run = await ended(placet, run)
    assert run.result["messages"][-1]["content"] == "done: passed t"
    assert len(await recovered(placet, run)) == 1


async def test_while_an_approved_tool_runs(fleet: Fleet, placet: Placet) -> None:
    await fleet.start(2)
    run = await placet.enqueue("gated_slow_tool", human("g"))
    (approval,) = await paused(placet, run)
    await placet.decide(approval.id, {"type": "approve"}, reviewer="ann")
    await kill_first(fleet, "slow")
    fleet.open_barrier("g")
    await ended(placet, run)
    (event,) = await recovered(placet, run)
    assert event.data["may_run_again"] == [approval.id]
    assert [one.id for one in await placet.approvals(run_id=run.id, status=None)] == [approval.id]
    assert (await placet.approval(approval.id)).outcome == "succeeded"
    assert len(fleet.effects("slow")) == 2


async def test_between_claim_and_first_checkpoint(fleet: Fleet, placet: Placet) -> None:
    await start_two(fleet, kill=f"after {CLAIM}")
    fleet.open_barrier("kill")
    run = await ended(placet, await placet.enqueue("plain", human("hello")))
    assert run.result["messages"][-1]["content"] == "done: found a"
    assert len(fleet.effects("look_up")) == dead(fleet) == len(await recovered(placet, run)) == 1


async def test_between_checkpoint_and_pause(fleet: Fleet, placet: Placet) -> None:
    await start_two(fleet, kill=f"before {PAUSE}")
    fleet.open_barrier("kill")
    run = await placet.enqueue("batched", human("go"))
    pay, mail = await paused(placet, run)
    assert dead(fleet) == 1
    await placet.decide_many({pay.id: {"type": "approve"}, mail.id: {"type": "approve"}}, reviewer="ann")
    run = await ended(placet, run)
    assert [effect.name for effect in fleet.effects()].count("pay") == 1
    assert len(fleet.effects()) == 3
    assert len(await placet.approvals(run_id=run.id, status=None)) == 2
    assert len(await recovered(placet, run)) == 1


@pytest.mark.parametrize("agent", ["batched", "per_call", "questions", "subgraph", "parallel"])
async def test_between_decision_and_resume(fleet: Fleet, placet: Placet, agent: str) -> None:
    await start_two(fleet, kill=f"after {CLAIM}")
    run = await placet.enqueue(agent, human("go") if agent in ("batched", "per_call") else {})
    asked = await paused(placet, run)
    fleet.open_barrier("kill")
    answers = {one.id: answer_to(one.kind) for one in asked}
    await placet.decide_many(answers, reviewer="ann")
    if agent == "questions":
        (second,) = await paused(placet, run)
        await placet.decide(second.id, answer_to("question"), reviewer="ann")
    run = await ended(placet, run)
    assert dead(fleet) == len(await recovered(placet, run)) == 1
    names = [effect.name for effect in fleet.effects()]
    assert len(names) == len(set(names)), names
    assert len(await placet.approvals(run_id=run.id, status=None)) == len(asked) + (agent == "questions")


def answer_to(kind: str) -> dict[str, Any]:
    return {"type": "answer", "value": "yes"} if kind == "question" else {"type": "approve"}


async def test_between_the_end_and_its_commit(fleet: Fleet, placet: Placet) -> None:
    await start_two(fleet, kill=f"before {FINISH}")
    fleet.open_barrier("kill")
    run = await ended(placet, await placet.enqueue("plain", human("hello")))
    assert run.result["messages"][-1]["content"] == "done: found a"
    assert len(fleet.effects("look_up")) == dead(fleet) == len(await recovered(placet, run)) == 1


@pytest.mark.parametrize(("agent", "acted"), [("before", 0), ("after", 1)])
@pytest.mark.parametrize("kill", [f"before {PAUSE}", f"after {CLAIM}"])
async def test_at_a_static_breakpoint(
    fleet: Fleet, placet: Placet, agent: str, acted: int, kill: str
) -> None:
    """A breakpoint that is due is never walked through, one that was approved is not asked again."""
    await start_two(fleet, kill=kill)
    at_pause = PAUSE in kill
    if at_pause:
        fleet.open_barrier("kill")
    run = await placet.enqueue(agent, {})
    (approval,) = await paused(placet, run)
    assert len(fleet.effects("act")) == acted
    if not at_pause:
        fleet.open_barrier("kill")
    await placet.decide(approval.id, {"type": "approve"}, reviewer="ann")
    run = await ended(placet, run)
    assert run.result == {"steps": ["plan", "act", "finish"]}
    assert len(fleet.effects("act")) == dead(fleet) == len(await recovered(placet, run)) == 1
    assert len(await placet.approvals(run_id=run.id, status=None)) == 1
