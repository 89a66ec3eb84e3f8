"""A thread's turns: one run at a time, in order, and messages that are in order after every abnormal end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fleet import PATIENCE, human, paused, wait_until
from placet.errors import NotPending, ThreadExpired

if TYPE_CHECKING:
    from fleet import Fleet
    from placet import Placet, Run


async def end_of(placet: Placet, run: Run) -> Run:
    return await placet.wait(run.id, timeout=PATIENCE)


async def messages_after(placet: Placet, thread_id: str) -> list[dict[str, Any]]:
    """The thread's messages once another run has been there; every call in them has its result."""
    run = await end_of(placet, await placet.enqueue("plain", human("next"), thread_id=thread_id))
    assert run.status == "success", run.error
    messages: list[dict[str, Any]] = (await placet.state(thread_id))["values"]["messages"]
    for at, message in enumerate(messages):
        calls = [call["id"] for call in message.get("tool_calls", ())]
        results = [one.get("tool_call_id", "") for one in messages[at + 1 : at + 1 + len(calls)]]
        assert sorted(results) == sorted(calls), messages
    return messages


async def test_runs_wait_their_turn(fleet: Fleet, placet: Placet) -> None:
    """Behind a busy run, behind a paused one; the history is linear."""
    await fleet.start(2)
    busy = await placet.enqueue("gated_slow_tool", human("one"), thread_id="t")
    (approval,) = await paused(placet, busy)
    later = [
        await placet.enqueue("slow_model", human(text), thread_id="t") for text in ("two", "three", "four")
    ]
    for name in ("four", "three", "two"):
        fleet.open_barrier(name)
    await placet.decide(approval.id, {"type": "approve"}, reviewer="ann")
    await fleet.started("slow")
    assert fleet.effects("model") == []
    fleet.open_barrier("one")
    for run in (busy, *later):
        assert (await end_of(placet, run)).status == "success"
    said = [m["content"] for m in (await placet.state("t"))["values"]["messages"] if m["type"] == "human"]
    assert said == ["one", "two", "three", "four"]
    assert [effect.args["barrier"] for effect in fleet.effects("model")] == ["two", "three", "four"]


async def test_cancel(fleet: Fleet, placet: Placet) -> None:
    """Pending, waiting, running in a tool beside a finished one, running in a model."""
    later = await placet.enqueue("plain", human("x"), thread_id="pending")
    assert (await placet.cancel(later.id)).status == "cancelled"
    await fleet.start()
    waiting = await placet.enqueue("batched", human("x"), thread_id="waiting")
    pay, mail = await paused(placet, waiting)
    await placet.decide(pay.id, {"type": "approve"}, reviewer="ann")
    assert (await placet.cancel(waiting.id, reason="not needed")).status == "cancelled"
    with pytest.raises(NotPending):
        await placet.decide(mail.id, {"type": "approve"}, reviewer="ann")
    tool = await placet.enqueue("slow_sibling", human("tool"), thread_id="tool")
    model = await placet.enqueue("slow_model", human("model"), thread_id="model")
    await fleet.started("slow")
    await fleet.started("model")

    async def sibling_done() -> bool:
        return bool(fleet.effects("look_up", "end"))

    await wait_until(sibling_done)
    for run in (tool, model):
        await placet.cancel(run.id, reason="not needed")
        assert (await end_of(placet, run)).status == "cancelled"
    assert fleet.effects("slow", "end") == fleet.effects("model", "end") == []
    assert {effect.name for effect in fleet.effects()} == {"look_up", "slow", "model"}
    assert [m["type"] for m in await messages_after(placet, "pending")] == ["human", "ai", "tool", "ai"]
    stopped = await messages_after(placet, "waiting")
    unanswered = [m["content"] for m in stopped if m["type"] == "tool"][:3]
    assert all("not needed" in text for text in unanswered)
    results = [m for m in await messages_after(placet, "tool") if m["type"] == "tool"]
    by_name = {m["name"]: m["content"] for m in results[:2]}
    assert by_name["look_up"] == "found a"
    assert "not needed" in by_name["slow"]
    assert [m["type"] for m in await messages_after(placet, "model")] == [
        "human",
        "human",
        "ai",
        "tool",
        "ai",
    ]
    assert fleet.effects("pay") == []


async def test_delete(fleet: Fleet, placet: Placet) -> None:
    """A paused thread and a busy one: nothing of them goes on, late answers are told."""
    await fleet.start()
    waiting = await placet.enqueue("batched", human("x"), thread_id="waiting")
    pay, _ = await paused(placet, waiting)
    busy = await placet.enqueue("slow_tool", human("busy"), thread_id="busy")
    await fleet.started("slow")
    for run in (waiting, busy):
        await placet.delete_thread(run.thread_id)
        assert (await placet.get(run.id)).status == "cancelled"
        with pytest.raises(ThreadExpired, match="was deleted"):
            await placet.state(run.thread_id)
    with pytest.raises(NotPending, match="deleted"):
        await placet.decide(pay.id, {"type": "approve"}, reviewer="ann")

    async def let_go() -> bool:
        return "run.lost" in fleet.workers[0].log

    await wait_until(let_go)
    with pytest.raises(ThreadExpired):
        await placet.state("busy")
    assert fleet.effects("slow", "end") == []
    for thread_id in ("waiting", "busy"):
        with pytest.raises(ThreadExpired, match="was deleted"):
            await placet.enqueue("plain", human("next"), thread_id=thread_id)


async def test_decided_while_another_call_runs(fleet: Fleet, placet: Placet) -> None:
    """Two are pending, the second is decided while the first one's segment runs: both run once."""
    await fleet.start(2)
    run = await placet.enqueue("slow_per_call", human("gate"))
    slow, mail = await paused(placet, run)
    await placet.decide(slow.id, {"type": "approve"}, reviewer="ann")
    await fleet.started("slow")
    await placet.decide(mail.id, {"type": "approve"}, reviewer="bob")
    assert fleet.effects("mail") == []
    fleet.open_barrier("gate")
    run = await end_of(placet, run)
    assert run.status == "success", run.error
    assert sorted(effect.name for effect in fleet.effects()) == ["mail", "slow"]
    approvals = await placet.approvals(run_id=run.id, status=None)
    assert {one.id for one in approvals} == {slow.id, mail.id}
    assert {one.outcome for one in approvals} == {"succeeded"}
