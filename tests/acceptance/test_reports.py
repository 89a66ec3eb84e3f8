"""Reports of people who do this work elsewhere, as inputs; each test names the public issue it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fleet import PATIENCE, Fleet, paused, wait_until
from placet.errors import AlreadyDecided, InvalidDecision, ThreadExpired

if TYPE_CHECKING:
    from pathlib import Path

    from placet import Approval, Placet, Run

HUMAN = {"messages": [{"role": "user", "content": "go"}]}
APPROVE = {"type": "approve"}


async def end(placet: Placet, run: Run) -> Run:
    run = await placet.wait(run.id, timeout=PATIENCE)
    assert run.status == "success", run.error
    return run


async def asked_after(placet: Placet, run: Run, before: Approval) -> list[Approval]:
    async def others() -> list[Approval]:
        return [one for one in await placet.approvals(run_id=run.id) if one.id != before.id]

    found: list[Approval] = await wait_until(others)
    return found


async def test_double_resume(fleet: Fleet, placet: Placet) -> None:
    """langgraph#6663: the second answer is told that it came second; the result is the first one's."""
    await fleet.start()
    run = await placet.enqueue("tool_question", HUMAN)
    (asked,) = await paused(placet, run)
    await placet.decide(asked.id, {"type": "answer", "value": "red"}, reviewer="ann")
    with pytest.raises(AlreadyDecided, match="already decided by ann"):
        await placet.decide(asked.id, {"type": "answer", "value": "blue"}, reviewer="bob")
    run = await end(placet, run)
    assert run.result["messages"][-1]["content"] == "done: painted door red"


async def test_count_mismatch_and_mixed_batch(fleet: Fleet, placet: Placet) -> None:
    """auxilia#93, langchainjs#11437, langchain#37093: [reject, approve] beside an automatic call."""
    await fleet.start()
    run = await placet.enqueue("batched", HUMAN)
    pay, mail = await paused(placet, run)
    with pytest.raises(InvalidDecision, match="expected 2 decisions, got 3"):
        await placet.resume(run.id, {"decisions": [APPROVE, APPROVE, APPROVE]}, reviewer="ann")
    assert (await placet.get(run.id)).status == "interrupted"
    await placet.resume(run.id, {"decisions": [{"type": "reject"}, APPROVE]}, reviewer="ann")
    run = await end(placet, run)
    assert [len(fleet.effects(name)) for name in ("pay", "mail", "look_up")] == [0, 1, 1]
    messages = run.result["messages"]
    calls = {call["id"]: call["name"] for message in messages for call in message.get("tool_calls") or ()}
    results = {m["tool_call_id"]: m["status"] for m in messages if m["type"] == "tool"}
    assert {calls[key]: status for key, status in results.items()} == {
        "pay": "error",
        "mail": "success",
        "look_up": "success",
    }
    outcomes = {a.id: a.outcome for a in await placet.approvals(status=None, run_id=run.id)}
    assert outcomes == {pay.id: "not_run", mail.id: "succeeded"}


async def test_the_original_call_after_an_edit_is_a_new_request(fleet: Fleet, placet: Placet) -> None:
    """langchain#33787: the model makes its first call again after a reviewer edited it."""
    await fleet.start()
    run = await placet.enqueue("again", HUMAN)
    (first,) = await paused(placet, run)
    edit = {"type": "edit", "edited_action": {"name": "pay", "args": {"to": "ann", "amount": 1}}}
    await placet.decide(first.id, edit, reviewer="ann")
    (second,) = await asked_after(placet, run, first)
    assert second.args == {"to": "ann", "amount": 10}
    await placet.decide(second.id, {"type": "reject"}, reviewer="ann")
    await end(placet, run)
    assert [effect.args["amount"] for effect in fleet.effects("pay")] == [1]


async def test_an_interrupt_inside_retries_and_fallbacks(fleet: Fleet, placet: Placet) -> None:
    """langchain#38837, langgraph#8217: it is a pause, not a failure: one request, nothing retried."""
    await fleet.start()
    run = await placet.enqueue("wrapped", HUMAN)
    (asked,) = await paused(placet, run)
    await placet.decide(asked.id, {"type": "answer", "value": "red"}, reviewer="ann")
    await end(placet, run)
    assert len(fleet.effects("paint")) == 1
    assert len(await placet.approvals(status=None, run_id=run.id)) == 1


async def test_a_gate_with_a_misspelt_key_stops_the_worker_at_its_start(
    redis_url: str, tmp_path: Path
) -> None:
    """langchain#38838: the tool and the key are named before any task is taken."""
    (tmp_path / "agent.py").write_text(
        "from langchain.agents import create_agent\n"
        "from langchain.agents.middleware import HumanInTheLoopMiddleware\n"
        "from placet.middleware.testing import ScriptedModel\n"
        "gate = HumanInTheLoopMiddleware({'delete_db': {'allowed_decision': ['approve']}})\n"
        "agent = create_agent(ScriptedModel(script=[]), middleware=[gate])\n"
    )
    (tmp_path / "langgraph.json").write_text('{"dependencies": ["."], "graphs": {"a": "./agent.py:agent"}}')
    fleet = Fleet(redis_url=redis_url, folder=tmp_path, config=str(tmp_path / "langgraph.json"))
    worker = fleet.start_one()
    assert await worker.ended() == 1
    (line,) = [line for line in worker.log.splitlines() if line.startswith("error: ")]
    assert "graphs.a" in line
    assert "delete_db" in line
    assert "allowed_decision" in line


async def test_an_approval_after_the_threads_lifetime(redis_url: str, tmp_path: Path) -> None:
    """langgraph-redis#137: it stays while it is asked; once gone, all say so, and nothing starts anew."""
    fleet = Fleet(redis_url=redis_url, folder=tmp_path, thread_ttl_seconds=0.5)
    try:
        async with fleet.connect() as placet:
            await fleet.start()
            for agent, given in (("batched", HUMAN), ("before", {}), ("questions", {})):
                run = await placet.enqueue(agent, given)
                asked = await paused(placet, run)
                key = placet._connection.keys("checkpoint", run.thread_id)
                assert await placet._connection.redis.ttl(key) == -1
                await placet._connection.redis.delete(key)  # as a server that evicts, or a failover, would
                decision: dict[str, Any] = APPROVE
                if asked[0].kind == "question":
                    decision = {"type": "answer", "value": 1}
                with pytest.raises(ThreadExpired, match="gone"):
                    await placet.decide(asked[0].id, decision, reviewer="ann")
                with pytest.raises(ThreadExpired, match="gone"):
                    await placet.enqueue(agent, given, thread_id=run.thread_id)
                assert (await placet.approval(asked[-1].id)).status == "cancelled"
                run = await placet.get(run.id)
                assert run.status == "error"
                assert run.error is not None
                assert run.error["type"] == "ThreadExpired"
        assert fleet.effects() == []
    finally:
        fleet.stop()
