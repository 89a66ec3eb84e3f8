"""Every kind of pause: the run pauses in one process, which is killed, and goes on in another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from brokers import on_both_brokers

from fleet import PATIENCE, paused, wait_until

if TYPE_CHECKING:
    from fleet import Fleet, WorkerProcess
    from placet import Approval, Placet, Run

HUMAN = {"messages": [{"role": "user", "content": "go"}]}
APPROVE = {"type": "approve"}
on_both = pytest.mark.parametrize("backend", ["placet", "langgraph-redis"], indirect=True)


async def pause(fleet: Fleet, placet: Placet, agent: str, given: Any) -> tuple[Run, list[Approval]]:
    """Enqueue on two workers, wait for the pause, kill the worker that paused."""
    await fleet.start(2)
    run = await placet.enqueue(agent, given)
    approvals = await paused(placet, run)
    await kill_last(fleet, placet, run)
    return run, approvals


async def kill_last(fleet: Fleet, placet: Placet, run: Run) -> WorkerProcess:
    """Kill the worker that executed the run last; returns another one."""
    worker = (await placet.get(run.id)).worker or ""
    last = fleet.by_pid(int(worker.rpartition(":")[2]))
    last.kill()
    return next(one for one in fleet.workers if one is not last and one.process.poll() is None)


async def end(placet: Placet, run: Run) -> Run:
    run = await placet.wait(run.id, timeout=PATIENCE)
    assert run.status == "success", run.error
    return run


def last_text(run: Run) -> str:
    text: str = run.result["messages"][-1]["content"]
    return text


@on_both
async def test_batched_actions_are_decided_apart(fleet: Fleet, placet: Placet) -> None:
    run, (pay, mail) = await pause(fleet, placet, "batched", HUMAN)
    assert (pay.tool, pay.args, mail.tool) == ("pay", {"to": "ann", "amount": 10}, "mail")
    await placet.decide(pay.id, APPROVE, reviewer="ann", seen=pay.digest)
    assert (await placet.get(run.id)).status == "interrupted"
    await placet.decide(mail.id, {"type": "reject", "message": "no mail"}, reviewer="bob")
    run = await end(placet, run)
    (survivor,) = (one for one in fleet.workers if one.process.poll() is None)
    assert [effect.pid for effect in fleet.effects("pay")] == [survivor.pid]
    assert fleet.effects("mail") == []
    assert "no mail" in last_text(run)
    outcomes = {a.id: (a.outcome, a.decided_by) for a in await placet.approvals(status=None, run_id=run.id)}
    assert outcomes == {pay.id: ("succeeded", "ann"), mail.id: ("not_run", "bob")}
    assert (await placet.approval(mail.id)).outcome_reason == "the reviewer rejected it"


@on_both_brokers
async def test_an_edit_runs_what_was_edited_and_a_response_runs_nothing(fleet: Fleet, placet: Placet) -> None:
    run, (pay, mail) = await pause(fleet, placet, "batched", HUMAN)
    edit = {"type": "edit", "edited_action": {"name": "pay", "args": {"to": "eve", "amount": 5}}}
    await placet.decide(pay.id, edit, reviewer="ann")
    await placet.decide(mail.id, {"type": "respond", "message": "I wrote myself"}, reviewer="ann")
    run = await end(placet, run)
    assert [effect.args for effect in fleet.effects("pay")] == [{"to": "eve", "amount": 5}]
    assert fleet.effects("mail") == []
    assert "I wrote myself" in last_text(run)
    answered = await placet.approval(mail.id)
    assert (answered.outcome, answered.outcome_reason) == ("not_run", "the reviewer answered in its place")


async def test_a_tools_question_behind_a_static_breakpoint(fleet: Fleet, placet: Placet) -> None:
    """The breakpoint that was passed is not asked about again when the answer comes."""
    await fleet.start()
    run = await placet.enqueue("stopped_question", HUMAN)
    (stop,) = await paused(placet, run)
    await placet.decide(stop.id, APPROVE, reviewer="ann")

    async def asked() -> bool:
        return any(one.kind == "question" for one in await placet.approvals(run_id=run.id))

    await wait_until(asked)
    (question,) = await paused(placet, run)
    await placet.decide(question.id, {"type": "answer", "value": "RED"}, reviewer="ann")
    assert (await end(placet, run)).result["messages"][-1]["content"] == "done: painted door RED"
    assert len(await placet.approvals(run_id=run.id, status=None)) == 2


@on_both
async def test_per_call_each_is_delivered_when_it_is_decided(fleet: Fleet, placet: Placet) -> None:
    run, (pay, mail) = await pause(fleet, placet, "per_call", HUMAN)
    assert {pay.mode, mail.mode} == {"per_call"}
    await placet.decide(mail.id, APPROVE, reviewer="ann")
    await fleet.started("mail")
    (still,) = await paused(placet, run)
    assert still.id == pay.id
    assert fleet.effects("pay") == []
    await placet.decide(pay.id, APPROVE, reviewer="ann")
    await end(placet, run)
    assert [len(fleet.effects(name)) for name in ("pay", "mail", "look_up")] == [1, 1, 1]


async def test_falsy_answers_arrive_as_they_are(fleet: Fleet, placet: Placet) -> None:
    await fleet.start()
    values: list[Any] = [False, 0, "", None, [], {"a": 1}, "日本語 🚀"]
    for value in values:
        run = await placet.enqueue("parallel", {})
        left, right = sorted(await paused(placet, run), key=lambda one: str(one.value))
        await placet.decide(left.id, {"type": "answer", "value": value}, reviewer="ann")
        await placet.decide(right.id, {"type": "answer", "value": "R"}, reviewer="ann")
        run = await end(placet, run)
        assert (run.result["left"], run.result["right"]) == (value, "R")
        assert type(run.result["left"]) is type(value)


@on_both_brokers
async def test_two_questions_in_one_node(fleet: Fleet, placet: Placet) -> None:
    run, (first,) = await pause(fleet, placet, "questions", {})
    await placet.decide(first.id, {"type": "answer", "value": 1}, reviewer="ann")
    (second,) = await paused_again(placet, run, but=first)
    await fleet.start()
    await kill_last(fleet, placet, run)
    await placet.decide(second.id, {"type": "answer", "value": 2}, reviewer="ann")
    run = await end(placet, run)
    assert run.result["answers"] == [1, 2]
    assert len(fleet.effects("ask")) == 1


async def paused_again(placet: Placet, run: Run, *, but: Approval) -> list[Approval]:
    """Wait for the pause after the one that asked `but`."""
    async for _ in placet.watch_approvals():
        asked = [a for a in await placet.approvals(run_id=run.id) if a.id != but.id]
        if asked:
            return asked
    raise AssertionError


@on_both
async def test_parallel_questions_answered_in_the_other_order(fleet: Fleet, placet: Placet) -> None:
    run, asked = await pause(fleet, placet, "parallel", {})
    by_value = {a.value: a for a in asked}
    await placet.decide(by_value["right?"].id, {"type": "answer", "value": "R"}, reviewer="ann")
    await placet.decide(by_value["left?"].id, {"type": "answer", "value": "L"}, reviewer="bob")
    run = await end(placet, run)
    assert (run.result["left"], run.result["right"]) == ("L", "R")
    assert len(await placet.approvals(status=None, run_id=run.id)) == 2
    assert len(fleet.effects("join")) == 1


@on_both
async def test_a_question_in_a_subgraph(fleet: Fleet, placet: Placet) -> None:
    run, (inner,) = await pause(fleet, placet, "subgraph", {})
    assert (inner.kind, inner.value) == ("question", "inner?")
    await placet.decide(inner.id, {"type": "answer", "value": "yes"}, reviewer="ann")
    assert (await end(placet, run)).result["answer"] == "yes"


@on_both
async def test_a_question_in_a_tool(fleet: Fleet, placet: Placet) -> None:
    run, (colour,) = await pause(fleet, placet, "tool_question", HUMAN)
    await placet.decide(colour.id, {"type": "answer", "value": "red"}, reviewer="ann")
    assert last_text(await end(placet, run)) == "done: painted door red"
    assert len(fleet.effects("paint")) == 1


@on_both
@pytest.mark.parametrize("agent", ["before", "after"])
async def test_a_static_breakpoint_approved(fleet: Fleet, placet: Placet, agent: str) -> None:
    run, (stop,) = await pause(fleet, placet, agent, {})
    assert (stop.kind, stop.tool, stop.allowed) == ("breakpoint", "act", ("approve", "reject"))
    assert len(fleet.effects("act")) == (agent == "after")
    await placet.decide(stop.id, APPROVE, reviewer="ann")
    run = await end(placet, run)
    assert run.result["steps"] == ["plan", "act", "finish"]
    assert len(fleet.effects("act")) == 1


async def test_a_breakpoint_on_a_thread_that_another_agent_has_used(fleet: Fleet, placet: Placet) -> None:
    """The other agent's channels are no news: an approved breakpoint is passed, once."""
    await fleet.start()
    other = await placet.enqueue("parallel", {}, thread_id="shared")
    for asked in await paused(placet, other):
        await placet.decide(asked.id, {"type": "answer", "value": 1}, reviewer="ann")
    await end(placet, other)
    run = await placet.enqueue("before", {}, thread_id="shared")
    (stop,) = await paused(placet, run)
    await placet.decide(stop.id, APPROVE, reviewer="ann")
    assert (await end(placet, run)).result["steps"] == ["plan", "act", "finish"]
    assert len(await placet.approvals(status=None, run_id=run.id)) == 1


async def test_a_static_breakpoint_rejected_cancels_the_run(fleet: Fleet, placet: Placet) -> None:
    run, (stop,) = await pause(fleet, placet, "before", {})
    await placet.decide(stop.id, {"type": "reject"}, reviewer="ann")
    assert (await placet.wait(run.id, timeout=PATIENCE)).status == "cancelled"
    assert fleet.effects("act") == []


async def test_an_answer_that_fits_a_models_schema(fleet: Fleet, placet: Placet) -> None:
    run, (asked,) = await pause(fleet, placet, "schema_question", {})
    assert asked.response_schema is not None
    await placet.decide(asked.id, {"type": "answer", "value": {"amount": "1.10"}}, reviewer="ann")
    run = await end(placet, run)
    assert run.result["budget"] == {"amount": "1.10", "note": ""}


async def test_an_answer_the_agent_does_not_take_is_asked_again(fleet: Fleet, placet: Placet) -> None:
    """JSON Schema lets through what the model's own rule (amount > 0 as Decimal text) refuses."""
    run, (asked,) = await pause(fleet, placet, "schema_question", {})
    await placet.decide(asked.id, {"type": "answer", "value": {"amount": "-1"}}, reviewer="ann")
    async for event in placet.stream(run.id):
        if event.type == "approval.reopened":
            break
    (again,) = await paused(placet, run)
    assert again.id == asked.id
    assert "did not take the answer" in again.reason
    await placet.decide(again.id, {"type": "answer", "value": {"amount": "2"}}, reviewer="ann")
    assert (await end(placet, run)).result["budget"]["amount"] == "2"
    assert len(fleet.effects("spend")) == 1


async def test_types_in_state_and_interrupt(fleet: Fleet, placet: Placet) -> None:
    run, (asked,) = await pause(fleet, placet, "typed", {})
    assert asked.value["amount"] == "42.10"
    assert asked.value["text"] == "日本語 🚀"
    await placet.decide(asked.id, {"type": "answer", "value": "ok"}, reviewer="ann")
    kinds = (await end(placet, run)).result["kinds"]
    assert {"Decimal", "datetime", "UUID"} <= set(kinds.values())
    # a process without the agent's code reads its classes as the data they were stored as
    assert (await placet.state(run.thread_id))["values"]["answer"] == "ok"


async def test_a_sync_tool(fleet: Fleet, placet: Placet) -> None:
    run, (count,) = await pause(fleet, placet, "sync_tool", HUMAN)
    await placet.decide(count.id, APPROVE, reviewer="ann")
    assert last_text(await end(placet, run)) == "done: counted 3"


async def test_a_factory_made_agent_with_a_config_of_the_callers(fleet: Fleet, placet: Placet) -> None:
    await fleet.start()
    run = await placet.enqueue("made", {}, config={"configurable": {"question": "who?"}})
    (asked,) = await paused(placet, run)
    assert asked.value == "who?"
    await placet.decide(asked.id, {"type": "answer", "value": "me"}, reviewer="ann")
    assert (await end(placet, run)).result["answer"] == "me"


async def test_langgraphs_own_resume_value(fleet: Fleet, placet: Placet) -> None:
    run, (pay, mail) = await pause(fleet, placet, "batched", HUMAN)
    with pytest.raises(Exception, match="expected 2 decisions, got 3"):
        await placet.resume(run.id, {"decisions": [APPROVE] * 3}, reviewer="ann")
    assert (await placet.get(run.id)).status == "interrupted"
    decided = await placet.resume(run.id, {"decisions": [{"type": "reject"}, APPROVE]}, reviewer="ann")
    assert [one.id for one in decided] == [pay.id, mail.id]
    await end(placet, run)
    assert (fleet.effects("pay"), len(fleet.effects("mail"))) == ([], 1)


async def test_one_stream_over_all_pauses(fleet: Fleet, placet: Placet) -> None:
    run, (asked,) = await pause(fleet, placet, "tool_question", HUMAN)
    await placet.decide(asked.id, {"type": "answer", "value": "red"}, reviewer="ann")
    events = [event async for event in placet.stream(run.id)]
    kinds = [event.type for event in events if event.type.startswith(("run.", "approval."))]
    assert kinds == [
        "run.enqueued",
        "run.started",
        "run.interrupted",
        "approval.decided",
        "run.resumed",
        "run.ended",
    ]
    assert [event.id for event in events] == list(range(1, len(events) + 1))
    pids = {event.pid for event in events if event.type in ("run.started", "run.resumed")}
    assert pids == {worker.pid for worker in fleet.workers}
    (pause_event,) = [event for event in events if event.type == "run.interrupted"]
    assert pause_event.data["interrupts"][0]["value"] == asked.value
    assert pause_event.data["approvals"] == [asked.id]
