"""What Placet is, told in tests: read them in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fleet import human
from placet.errors import AlreadyDecided, ChangedSinceSeen, InvalidDecision

if TYPE_CHECKING:
    from placet import Placet


async def test_a_run_is_an_agent_executed_once_by_some_worker(placet: Placet) -> None:
    # `enqueue` returns as soon as the run is kept; nothing waits for a worker
    run = await placet.enqueue("answers", human("Hello"))
    assert run.status in ("pending", "running", "success")
    run = await placet.wait(run.id)
    assert run.status == "success"
    assert run.result["messages"][-1]["content"] == "Done."


async def test_runs_of_one_thread_are_one_conversation(placet: Placet) -> None:
    first = await placet.enqueue("answers", human("Hello"), thread_id="t-1")
    second = await placet.enqueue("answers", human("Again"), thread_id="t-1")  # it waits its turn
    second = await placet.wait(second.id)
    assert (await placet.get(first.id)).status == "success"
    said = [message["content"] for message in second.result["messages"] if message["type"] == "human"]
    assert said == ["Hello", "Again"]


async def test_a_run_that_needs_a_person_pauses_and_holds_nothing(placet: Placet) -> None:
    run = await placet.enqueue("pays", human("My kettle broke"))
    run = await placet.wait(run.id, until="pause")
    # it is no process, task or connection now, but records in Redis: it may wait for a year
    assert run.status == "interrupted"
    (asked,) = await placet.approvals(run_id=run.id)
    assert (asked.kind, asked.tool) == ("tool_call", "refund")
    assert asked.args == {"order_id": "A-17", "amount": 42.0}
    assert asked.allowed == ("approve", "edit", "reject", "respond")

    # any free worker goes on with it, from the checkpoint
    await placet.decide(asked.id, {"type": "approve"}, reviewer="alice", seen=asked.digest)
    run = await placet.wait(run.id)
    results = [message["content"] for message in run.result["messages"] if message["type"] == "tool"]
    assert results == ["Refunded 42.00 EUR for order A-17."]
    assert (await placet.approval(asked.id)).outcome == "succeeded"


async def test_a_reviewer_may_change_the_call_or_refuse_it(placet: Placet) -> None:
    run = await placet.wait((await placet.enqueue("pays_twice", human("Two kettles"))).id, until="pause")
    first, second = sorted(await placet.approvals(run_id=run.id), key=lambda asked: asked.index)
    edited = {"name": "refund", "args": {"order_id": "A-17", "amount": 0.5}}
    await placet.decide(first.id, {"type": "edit", "edited_action": edited}, reviewer="alice")
    await placet.decide(second.id, {"type": "reject", "message": "not A-18"}, reviewer="bob")
    run = await placet.wait(run.id)
    results = [message["content"] for message in run.result["messages"] if message["type"] == "tool"]
    assert any("Refunded 0.50 EUR" in text for text in results)
    assert any("not A-18" in text for text in results)
    assert (await placet.approval(second.id)).outcome == "not_run"


async def test_a_decision_that_does_not_fit_changes_nothing_and_says_why(placet: Placet) -> None:
    run = await placet.wait((await placet.enqueue("pays", human("My kettle broke"))).id, until="pause")
    (asked,) = await placet.approvals(run_id=run.id)
    wrong = {"name": "refund", "args": {"order_id": "A-17", "amount": "a lot"}}
    with pytest.raises(InvalidDecision, match="/edited_action/args/amount"):
        await placet.decide(asked.id, {"type": "edit", "edited_action": wrong}, reviewer="alice")
    with pytest.raises(ChangedSinceSeen):
        await placet.decide(asked.id, {"type": "approve"}, reviewer="alice", seen="another card's digest")
    assert (await placet.approval(asked.id)).status == "pending"

    # the first decision wins; whoever comes second is told who was first
    await placet.decide(asked.id, {"type": "reject"}, reviewer="alice")
    with pytest.raises(AlreadyDecided, match="by alice"):
        await placet.decide(asked.id, {"type": "approve"}, reviewer="bob")


async def test_an_agent_may_ask_a_question_and_any_answer_is_delivered(placet: Placet) -> None:
    run = await placet.wait((await placet.enqueue("asks", human("When?"))).id, until="pause")
    (asked,) = await placet.approvals(run_id=run.id)
    assert (asked.kind, asked.value) == ("question", "Which day?")
    await placet.decide(asked.id, {"type": "answer", "value": "Monday"}, reviewer="alice")
    run = await placet.wait(run.id)
    assert [m["content"] for m in run.result["messages"] if m["type"] == "tool"] == ["Monday"]


async def test_a_run_can_be_taken_back_while_it_waits(placet: Placet) -> None:
    run = await placet.wait((await placet.enqueue("pays", human("My kettle broke"))).id, until="pause")
    (asked,) = await placet.approvals(run_id=run.id)
    run = await placet.cancel(run.id)
    assert run.status == "cancelled"
    assert (await placet.approval(asked.id)).status == "cancelled"


async def test_a_watcher_sees_requests_as_they_come(placet: Placet) -> None:
    run = await placet.enqueue("pays", human("My kettle broke"))
    async for asked in placet.watch_approvals():
        if asked.run_id == run.id:
            await placet.decide(asked.id, {"type": "approve"}, reviewer="alice")
            break
    events = [event.type async for event in placet.stream(run.id)]
    assert events[-1] == "run.ended"
    assert (await placet.get(run.id)).status == "success"
