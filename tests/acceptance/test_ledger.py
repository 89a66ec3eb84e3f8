"""`kill -9` in a tool: nobody runs it again unless its declaration or a person says so."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fleet import PATIENCE, human, paused, wait_until

if TYPE_CHECKING:
    from fleet import Fleet
    from placet import Approval, Placet, Run

PLUGINS = str(Path(__file__).parent / "plugins")
START, END = (f"placet.state.ledger:RedisToolCalls.{name}_call" for name in ("start", "end"))
pytestmark = pytest.mark.settings(lease_seconds=2)


async def killed_at(point: str, fleet: Fleet, placet: Placet, *agents: str) -> dict[str, Run]:
    """Runs of these agents whose worker was killed at a point of their tool; another one is there."""
    (first,) = await fleet.start(PYTHONPATH=PLUGINS, PLACET_TEST_HOLD=point)
    for name in ("refund", "wire", "charge", "hold", "go"):
        fleet.open_barrier(name)
    runs = {agent: await placet.enqueue(agent, human("go")) for agent in agents}
    await fleet.started("held", len(agents))
    first.kill()
    (fleet.barriers / "hold").unlink()
    await fleet.start()
    return runs


async def killed_in_the_tool(fleet: Fleet, placet: Placet, run: Run, name: str = "refund") -> None:
    """Kill the worker that has had the tool's effect, and start another."""
    fleet.by_pid((await fleet.started(name))[-1].pid).kill()
    await fleet.start()
    assert run.id


async def asked(placet: Placet, run: Run) -> Approval:
    (approval,) = await paused(placet, run)
    assert (approval.kind, approval.allowed) == ("unknown_call", ("approve", "respond", "reject"))
    return approval


async def success(placet: Placet, run: Run) -> str:
    run = await placet.wait(run.id, timeout=PATIENCE)
    assert run.status == "success", run.error
    return str(run.result["messages"][-1]["content"])


AGENTS = ("refunds", "wires", "charges", "slow_tool")


async def test_between_the_mark_and_the_effect(fleet: Fleet, placet: Placet) -> None:
    runs = await killed_at(f"after {START}", fleet, placet, *AGENTS)
    question = await asked(placet, runs["refunds"])
    assert (question.tool, question.args) == ("refund", {"order": "A-1"})
    assert "may have taken effect" in question.description
    assert "Its idempotency key is " in question.description
    await placet.decide(question.id, {"type": "approve"}, reviewer="ann")
    assert await success(placet, runs["refunds"]) == "done: refunded A-1"
    failed = await placet.wait(runs["wires"].id, timeout=PATIENCE)
    assert (failed.status, failed.error and failed.error["type"]) == ("error", "OutcomeUnknown")
    assert await success(placet, runs["charges"]) == "done: charged A-1"
    assert await success(placet, runs["slow_tool"]) == "done: passed go"
    assert names(fleet) == ["charge", "refund", "slow"]


async def test_between_the_effect_and_its_result(fleet: Fleet, placet: Placet) -> None:
    runs = await killed_at(f"before {END}", fleet, placet, *AGENTS)
    question = await asked(placet, runs["refunds"])
    await placet.decide(question.id, {"type": "respond", "message": "it is on the statement"}, reviewer="ann")
    assert await success(placet, runs["refunds"]) == "done: it is on the statement"
    failed = await placet.wait(runs["wires"].id, timeout=PATIENCE)
    assert (failed.status, failed.error and failed.error["type"]) == ("error", "OutcomeUnknown")
    assert await success(placet, runs["charges"]) == "done: found the charge of A-1"
    assert await success(placet, runs["slow_tool"]) == "done: passed go"
    assert names(fleet) == ["charge", "refund", "slow", "slow", "wire"]


async def test_between_the_result_and_the_checkpoint(fleet: Fleet, placet: Placet) -> None:
    """All that was lost is in the ledger: nobody is asked, nothing is done again."""
    runs = await killed_at(f"after {END}", fleet, placet, *AGENTS)
    texts = {agent: await success(placet, run) for agent, run in runs.items()}
    assert texts == {
        "refunds": "done: refunded A-1",
        "wires": "done: wired A-1",
        "charges": "done: charged A-1",
        "slow_tool": "done: passed go",
    }
    assert names(fleet) == ["charge", "refund", "slow", "wire"]


def names(fleet: Fleet) -> list[str]:
    return sorted(effect.name for effect in fleet.effects() if effect.name != "held")


async def test_an_unknown_call_is_given_up(fleet: Fleet, placet: Placet) -> None:
    await fleet.start()
    run = await placet.enqueue("refunds", human("go"))
    await killed_in_the_tool(fleet, placet, run)
    question = await asked(placet, run)
    await placet.decide(question.id, {"type": "reject", "message": "leave it"}, reviewer="ann")
    assert (await success(placet, run)).endswith("A reviewer gave it up: leave it")
    assert len(fleet.effects("refund")) == 1
    (event,) = [event async for event in placet.stream(run.id) if event.type == "run.recovered"]
    assert event.data["unknown_calls"] == [{"tool": "refund", "tool_call_id": "call_1_0_0"}]


async def test_killed_again_after_it_was_run_again(fleet: Fleet, placet: Placet) -> None:
    """The second death is another question; each start was allowed by somebody, under one key."""
    await fleet.start()
    run = await placet.enqueue("refunds", human("go"))
    await killed_in_the_tool(fleet, placet, run)
    first = await asked(placet, run)
    await placet.decide(first.id, {"type": "approve"}, reviewer="ann")
    await fleet.started("refund", 2)
    await killed_in_the_tool(fleet, placet, run)
    second = await asked(placet, run)
    assert second.id != first.id
    fleet.open_barrier("refund")
    await placet.decide(second.id, {"type": "approve"}, reviewer="bob")
    assert await success(placet, run) == "done: refunded A-1"
    assert len(fleet.effects("refund")) == 3
    assert len({effect.args["key"] for effect in fleet.effects("refund")}) == 1


@pytest.mark.parametrize("first", ["gate", "question"])
async def test_beside_a_gate(fleet: Fleet, placet: Placet, first: str) -> None:
    """The call's own request keeps what it came to, whichever of the two that wait is decided first."""
    await fleet.start()
    run = await placet.enqueue("gated_refunds", human("go"))
    refund, mail = await paused(placet, run)
    await placet.decide(refund.id, {"type": "approve"}, reviewer="ann")
    await fleet.started("refund")
    assert (await placet.approval(refund.id)).outcome == "started"
    await killed_in_the_tool(fleet, placet, run)

    async def both() -> list[Approval]:
        # with one still open, a run that lost its worker is interrupted at once
        found = await paused(placet, run)
        return found if any(one.kind == "unknown_call" for one in found) else []

    waiting: dict[str, Approval] = {one.kind: one for one in await wait_until(both)}
    assert {kind: one.tool for kind, one in waiting.items()} == {
        "unknown_call": "refund",
        "tool_call": "mail",
    }
    assert (await placet.approval(refund.id)).outcome == "unknown"
    assert waiting["tool_call"].id == mail.id
    answers = {
        "gate": (mail.id, {"type": "approve"}),
        "question": (waiting["unknown_call"].id, {"type": "respond", "message": "was refunded"}),
    }
    order = ["gate", "question"] if first == "gate" else ["question", "gate"]
    approval_id, decision = answers[order[0]]
    await placet.decide(approval_id, decision, reviewer="ann")

    async def left() -> list[Approval]:
        found = await placet._approvals.of_pause(run.id)
        return found if len(found) == 1 else []

    (last,) = await wait_until(left)
    approval_id, decision = answers[order[1]]
    assert last.id == approval_id
    await placet.decide(approval_id, decision, reviewer="ann")
    assert await success(placet, run) == "done: was refunded; mailed bob"
    assert names(fleet) == ["mail", "refund"]
    assert (await placet.approval(refund.id)).outcome == "succeeded"
    assert (await placet.approval(mail.id)).outcome == "succeeded"


async def test_behind_a_static_breakpoint(fleet: Fleet, placet: Placet) -> None:
    """The breakpoint that was passed is not asked about again."""
    await fleet.start()
    run = await placet.enqueue("stopped_refunds", human("go"))
    (stop,) = await paused(placet, run)
    await placet.decide(stop.id, {"type": "approve"}, reviewer="ann")
    await killed_in_the_tool(fleet, placet, run)
    question = await asked(placet, run)
    fleet.open_barrier("refund")
    await placet.decide(question.id, {"type": "approve"}, reviewer="ann")
    assert await success(placet, run) == "done: refunded A-1"
    assert len(fleet.effects("refund")) == 2


async def test_in_a_subagent(fleet: Fleet, placet: Placet) -> None:
    await fleet.start()
    run = await placet.enqueue("delegated_refunds", human("go"))
    await killed_in_the_tool(fleet, placet, run)
    question = await asked(placet, run)
    assert question.tool == "refund"
    await placet.decide(question.id, {"type": "respond", "message": "was refunded"}, reviewer="ann")
    assert await success(placet, run) == "done: done: was refunded"
    assert len(fleet.effects("refund")) == 1


async def test_in_a_retry(fleet: Fleet, placet: Placet) -> None:
    """The attempt that failed before the kill is not made again; the one under way is asked about."""
    await fleet.start()
    run = await placet.enqueue("retried_refunds", human("go"))
    await killed_in_the_tool(fleet, placet, run)
    question = await asked(placet, run)
    assert "attempt 2" in question.description
    fleet.open_barrier("refund")
    await placet.decide(question.id, {"type": "approve"}, reviewer="ann")
    assert await success(placet, run) == "done: refunded A-1"
    assert (len(fleet.effects("try")), len(fleet.effects("refund"))) == (3, 2)
    assert len({effect.args["key"] for effect in fleet.effects()}) == 1


async def test_a_zombies_result_does_not_count(fleet: Fleet, placet: Placet) -> None:
    await fleet.start(2)
    run = await placet.enqueue("refunds", human("go"))
    zombie = fleet.by_pid((await fleet.started("refund"))[0].pid)
    zombie.send(signal.SIGSTOP)
    question = await asked(placet, run)
    fleet.open_barrier("refund")
    zombie.send(signal.SIGCONT)

    async def lost() -> bool:
        return "run.lost" in zombie.log

    await wait_until(lost)
    assert (await placet.approval(question.id)).status == "pending"
    await placet.decide(question.id, {"type": "respond", "message": "was refunded"}, reviewer="ann")
    assert await success(placet, run) == "done: was refunded"
    assert len(fleet.effects("refund")) == 1


async def test_a_worker_that_stops_asks_too(fleet: Fleet, placet: Placet) -> None:
    """A tool that outlasts the grace time is cut off: how far it came is as unknown as after a kill."""
    (first,) = await fleet.start()
    run = await placet.enqueue("refunds", human("go"))
    await fleet.started("refund")
    await fleet.start()
    first.send(signal.SIGTERM)
    question = await asked(placet, run)
    await placet.decide(question.id, {"type": "respond", "message": "was refunded"}, reviewer="ann")
    assert await success(placet, run) == "done: was refunded"


async def test_what_is_stored_is_encrypted(fleet: Fleet, placet: Placet) -> None:
    """With a key, no result lies in Redis as it is."""
    key: dict[str, Any] = {"PLACET_ENCRYPTION_KEY": "k" * 32}
    (first,) = await fleet.start(PYTHONPATH=PLUGINS, PLACET_TEST_HOLD=f"after {END}", **key)
    fleet.open_barrier("refund")
    fleet.open_barrier("hold")
    run = await placet.enqueue("refunds", human("go"))
    await fleet.started("held")
    stored = await placet._connection.redis.hgetall(placet._connection.keys("run_ledger", run.id))
    assert any(b"refund" in value for value in stored.values())  # the tool's name
    assert not any(b"refunded A-1" in value for value in stored.values())
    first.kill()
    (fleet.barriers / "hold").unlink()
    await fleet.start(**key)
    assert await success(placet, run) == "done: refunded A-1"
    assert len(fleet.effects("refund")) == 1


async def test_an_answer_is_kept_while_a_person_is_asked_what_became_of_its_call(
    fleet: Fleet, placet: Placet
) -> None:
    await fleet.start()
    run = await placet.enqueue("asking_refunds", human("go"))
    (how_much,) = await paused(placet, run)
    await placet.decide(how_much.id, {"type": "answer", "value": 42}, reviewer="ann")
    await fleet.started("refund")
    await killed_in_the_tool(fleet, placet, run)
    unknown = await asked(placet, run)
    assert (await placet.approval(how_much.id)).outcome == "unknown"
    fleet.open_barrier("refund")
    await placet.decide(unknown.id, {"type": "approve"}, reviewer="bob")
    assert await success(placet, run) == "done: refunded 42 of A-1"
    assert (await placet.approval(how_much.id)).decided_by == "ann"


async def test_the_next_run_is_told_of_a_call_that_was_cut_off(fleet: Fleet, placet: Placet) -> None:
    await fleet.start()
    run = await placet.enqueue("refunds", human("go"))
    await killed_in_the_tool(fleet, placet, run)
    await asked(placet, run)
    await placet.cancel(run.id)
    fleet.open_barrier("refund")
    after = await placet.enqueue("refunds", human("go on"), thread_id=run.thread_id)
    ended = await placet.wait(after.id, timeout=PATIENCE)
    (told,) = (m["content"] for m in ended.result["messages"] if m.get("tool_call_id") == "call_1_0_0")
    assert told.startswith("The call of `refund` was cut off and may have taken effect: ")
