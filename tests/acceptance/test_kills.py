"""`kill -9` at every point of a run: it ends right elsewhere, within two leases."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from brokers import on_both_brokers

from fleet import PATIENCE, human, paused, wait_until
from placet.checkpoint import checkpointer

if TYPE_CHECKING:
    from fleet import Fleet
    from placet import Approval, Placet, Run
    from placet.state.events import Event

PLUGINS = str(Path(__file__).parent / "plugins")
CLAIM, PAUSE, FINISH = (f"placet.state.leases:Leases.{name}" for name in ("claim", "pause", "finish"))
PAUSING = ("batched", "per_call", "tool_question", "questions", "parallel", "subgraph", "before", "after")
CHATS = ("plain", "slow_tool", "batched", "per_call", "tool_question")
ALL = ("plain", *PAUSING)
pytestmark = pytest.mark.settings(lease_seconds=2, concurrency=len(ALL))

# the calls of a run that had its answers: each agent's, once
CALLS = {
    "plain": ["look_up"],
    "batched": ["look_up", "mail", "pay"],
    "per_call": ["look_up", "mail", "pay"],
    "tool_question": ["paint"],
    "questions": ["ask"],
    "parallel": ["join"],
    "subgraph": ["inner"],
    "before": ["act"],
    "after": ["act"],
}


class Held:
    """Runs of several agents, held at one point in one worker, which is then killed."""

    def __init__(self, *, fleet: Fleet, placet: Placet, point: str) -> None:
        self._fleet, self._placet, self._point = fleet, placet, point
        self.runs: dict[str, Run] = {}

    async def enqueue(self, *agents: str) -> None:
        await self._fleet.start(PYTHONPATH=PLUGINS, PLACET_TEST_HOLD=self._point)
        for agent in agents:
            self.runs[agent] = await self._placet.enqueue(agent, human("go") if agent in CHATS else {})

    def hold(self) -> None:
        self._fleet.open_barrier("hold")

    async def kill(self) -> None:
        await self._fleet.started("held", len(self.runs))
        self._fleet.workers[0].kill()
        (self._fleet.barriers / "hold").unlink()
        await self._fleet.start()

    async def pauses(self) -> dict[str, list[Approval]]:
        asking = {agent: run for agent, run in self.runs.items() if agent != "plain"}
        found = await asyncio.gather(*(paused(self._placet, run) for run in asking.values()))
        return dict(zip(asking, found, strict=True))

    async def answer(self) -> None:
        for asked in (await self.pauses()).values():
            await self._placet.decide_many({one.id: answer_to(one) for one in asked}, reviewer="ann")

    async def end(self) -> None:
        """See each run to its end: right result, each call once, nothing asked twice, and one recovery."""
        if "questions" in self.runs:
            (asked,) = await paused(self._placet, self.runs["questions"])
            await self._placet.decide(asked.id, answer_to(asked), reviewer="ann")
        for agent, run in self.runs.items():
            await ended(self._placet, run)
            asked_in_all = await self._placet.approvals(run_id=run.id, status=None)
            assert len(asked_in_all) == ASKED.get(agent, 1), agent
            assert {one.status for one in asked_in_all} <= {"decided"}
            assert len(await recovered(self._placet, run)) == 1, agent
        calls = sorted(effect.name for effect in self._fleet.effects() if effect.name != "held")
        assert calls == sorted(call for agent in self.runs for call in CALLS[agent])


ASKED = {"plain": 0, "batched": 2, "per_call": 2, "questions": 2, "parallel": 2}


@pytest.fixture
def at(fleet: Fleet, placet: Placet) -> Any:
    return lambda point: Held(fleet=fleet, placet=placet, point=point)


def answer_to(approval: Approval) -> dict[str, Any]:
    return {"type": "answer", "value": "yes"} if approval.kind == "question" else {"type": "approve"}


async def ended(placet: Placet, run: Run) -> Run:
    run = await placet.wait(run.id, timeout=PATIENCE)
    assert run.status == "success", run.error
    types = [message["type"] for message in run.result.get("messages", ())]
    assert types.count("human") <= 1, types
    return run


async def recovered(placet: Placet, run: Run) -> list[Event]:
    events = [event async for event in placet.stream(run.id)]
    assert events[-1].type == "run.ended"
    assert [event.id for event in events] == list(range(1, len(events) + 1))
    return [event for event in events if event.type == "run.recovered"]


async def test_between_claim_and_first_checkpoint(at: Any) -> None:
    held: Held = at(f"after {CLAIM}")
    held.hold()
    await held.enqueue(*ALL)
    await held.kill()
    await held.answer()
    await held.end()


async def test_between_checkpoint_and_pause(at: Any) -> None:
    """A static breakpoint that is due is never walked through."""
    held: Held = at(f"before {PAUSE}")
    held.hold()
    await held.enqueue(*PAUSING)
    await held.kill()
    await held.pauses()
    calls = [effect.name for effect in held._fleet.effects() if effect.name != "held"]
    assert sorted(calls) == ["act", "look_up"]  # the agent that pauses after it, and one that asks per call
    await held.answer()
    await held.end()


@on_both_brokers
async def test_between_decision_and_resume(at: Any) -> None:
    """What was decided is not asked again, what was approved at a breakpoint neither."""
    held: Held = at(f"after {CLAIM}")
    await held.enqueue(*PAUSING)
    await held.pauses()
    held.hold()
    await held.answer()
    await held.kill()
    await held.end()


async def test_between_the_end_and_its_commit(at: Any) -> None:
    held: Held = at(f"before {FINISH}")
    held.hold()
    await held.enqueue(*(agent for agent in ALL if agent != "questions"))
    await held.answer()
    await held.kill()
    await held.end()


@on_both_brokers
async def test_while_work_is_under_way(fleet: Fleet, placet: Placet) -> None:
    """A model, a tool, an approved tool: they run again, and for the approved one the events say so."""
    (first,) = await fleet.start()
    model = await placet.enqueue("slow_model", human("model"))
    tool = await placet.enqueue("slow_tool", human("tool"))
    gated = await placet.enqueue("gated_slow_tool", human("gated"))
    (approval,) = await paused(placet, gated)
    await placet.decide(approval.id, {"type": "approve"}, reviewer="ann")
    await fleet.started("slow", 2)
    await fleet.started("model")
    first.kill()
    (second,) = await fleet.start()
    await fleet.started("slow", 4)
    await fleet.started("model", 2)
    for name in ("model", "tool", "gated"):
        fleet.open_barrier(name)
    assert (await ended(placet, model)).result["messages"][-1]["content"] == "done: model"
    assert (await ended(placet, tool)).result["messages"][-1]["content"] == "done: passed tool"
    assert (await ended(placet, gated)).result["messages"][-1]["content"] == "done: passed gated"
    assert {effect.pid for effect in fleet.effects(what="end")} == {second.pid}
    for run, again in ((model, None), (tool, None), (gated, [approval.id])):
        (event,) = await recovered(placet, run)
        assert event.data.get("may_run_again") == again
    assert [one.id for one in await placet.approvals(run_id=gated.id, status=None)] == [approval.id]
    assert (await placet.approval(approval.id)).outcome == "succeeded"


async def test_while_a_thread_is_repaired(at: Any, fleet: Fleet, placet: Placet) -> None:
    """The next run of a cancelled one's thread dies between mending it and its own input."""
    held: Held = at("before placet.state.leases:Leases.repaired")
    await held.enqueue("batched")
    stopped = held.runs.pop("batched")
    await paused(placet, stopped)
    await placet.cancel(stopped.id)
    held.hold()
    held.runs["plain"] = await placet.enqueue("plain", human("next"), thread_id=stopped.thread_id)
    await held.kill()
    run = await placet.wait(held.runs["plain"].id, timeout=PATIENCE)
    assert run.status == "success", run.error
    types = [message["type"] for message in run.result["messages"]]
    assert types == ["human", "ai", "tool", "tool", "tool", "human", "ai", "tool", "ai"]
    assert run.result["messages"][-1]["content"] == "done: found a"


async def test_between_a_step_and_its_checkpoint(at: Any, fleet: Fleet, placet: Placet) -> None:
    """All that the step's nodes did is kept, the next checkpoint is not: the run has not ended there."""
    held: Held = at("before placet.checkpoint.saver:RedisSaver.aput")
    await held.enqueue("slow_tool")
    await fleet.started("slow")
    held.hold()
    fleet.open_barrier("go")
    thread: Any = {"configurable": {"thread_id": held.runs["slow_tool"].thread_id, "checkpoint_ns": ""}}
    async with checkpointer(placet._connection.reader, fleet.settings) as saver:

        async def written() -> bool:
            found = await saver.aget_tuple(thread)
            return any(channel == "messages" for _, channel, _ in (found and found.pending_writes) or ())

        await wait_until(written)
    await held.kill()
    run = await ended(placet, held.runs["slow_tool"])
    assert run.result["messages"][-1]["content"] == "done: passed go"
    assert len(fleet.effects("slow")) == len(await recovered(placet, run)) == 1
