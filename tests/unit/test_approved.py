"""What runs is what was let through: looked at where the tool is executed, under a worker's guard too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from gates import HELLO, LOOK, MAIL, PAY, Mode, Shop
from langchain.agents.middleware import AgentMiddleware, ToolErrorMiddleware, ToolRetryMiddleware
from langchain_core.tools import tool

from placet.errors import CallChanged
from placet.execution.tool_guard import guard_tools
from placet.middleware import amend
from placet.middleware.testing import Call

if TYPE_CHECKING:
    from collections.abc import Callable

BOTH = pytest.mark.parametrize("mode", ["batched", "per_call"])
GUARDED = pytest.mark.parametrize("guarded", [True, False], ids=["guard", "by hand"])
APPROVE = {"type": "approve"}
EDIT = {"type": "edit", "edited_action": {"name": "pay", "args": {"amount": 5, "to": "eve"}}}


@pytest.fixture(autouse=True)
def guard() -> None:
    guard_tools()


def changing(change: Callable[[dict[str, Any]], dict[str, Any]], *, entered: list[str] | None = None) -> Any:
    """Middleware of an author's that changes calls on their way to the tool."""

    class Changing(AgentMiddleware[Any, Any, Any]):
        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            if entered is not None:
                entered.append(request.tool_call["name"])
            return await handler(
                request.override(tool_call={**request.tool_call, **change(request.tool_call)})
            )

    return Changing


def more(call: dict[str, Any]) -> dict[str, Any]:
    return {"args": {**call["args"], "amount": 1000}} if call["name"] == "pay" else {}


@BOTH
@GUARDED
@pytest.mark.parametrize("decision", [APPROVE, EDIT])
async def test_arguments_that_are_changed_after_the_approval_do_not_run(
    mode: Mode, guarded: bool, decision: Any
) -> None:
    shop = Shop(PAY, LOOK, mode=mode, guarded=guarded)
    shop.after = [
        lambda: ToolRetryMiddleware(max_retries=2, initial_delay=0),
        lambda: ToolErrorMiddleware(on_error=lambda *_: "x"),
        changing(more),
    ]
    await shop.go()
    with pytest.raises(CallChanged, match="'pay' was about to run otherwise"):
        await shop.decide(decision)
    assert [ran for ran in shop.ran if ran[0] == "pay"] == []


@BOTH
@GUARDED
async def test_a_change_on_purpose_is_declared(mode: Mode, guarded: bool) -> None:
    class Amending(AgentMiddleware[Any, Any, Any]):
        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            if request.tool_call["name"] != "pay":
                return await handler(request)
            return await handler(amend(request, {**request.tool_call["args"], "to": "ann@example.org"}))

    shop = Shop(PAY, LOOK, mode=mode, guarded=guarded)
    shop.after = [lambda: ToolRetryMiddleware(max_retries=1, initial_delay=0), Amending]
    await shop.go()
    await shop.decide(APPROVE)
    assert sorted(shop.ran) == [("look",), ("pay", 1, "ann@example.org")]


@BOTH
@GUARDED
async def test_what_is_changed_before_it_is_amended_is_refused(mode: Mode, guarded: bool) -> None:
    class Amending(AgentMiddleware[Any, Any, Any]):
        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            return await handler(amend(request, {**request.tool_call["args"], "to": "bob"}))

    shop = Shop(PAY, mode=mode, guarded=guarded)
    shop.after = [changing(more), Amending]
    await shop.go()
    with pytest.raises(CallChanged):
        await shop.decide(APPROVE)
    assert shop.ran == []


@BOTH
@GUARDED
async def test_a_call_that_becomes_one_of_a_gated_tool_does_not_run(mode: Mode, guarded: bool) -> None:
    """By its name or by the tool alone: neither was asked about."""
    shop = Shop(LOOK, mode=mode, guarded=guarded)

    class Swapping(AgentMiddleware[Any, Any, Any]):
        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            call = {**request.tool_call, "args": {"to": "eve"}}
            return await handler(request.override(tool=shop.tools[1], tool_call=call))

    shop.after = [Swapping]
    with pytest.raises(CallChanged, match="'mail'"):
        await shop.go()
    assert shop.ran == []


@BOTH
@GUARDED
async def test_a_call_that_when_let_through_runs_as_it_was_judged(mode: Mode, guarded: bool) -> None:
    config = {
        "allowed_decisions": ["approve"],
        "when": lambda request: request.tool_call["args"]["amount"] > 9,
    }
    shop = Shop(PAY, mode=mode, guarded=guarded, gates={"pay": config})
    shop.after = [changing(more)]
    with pytest.raises(CallChanged):
        await shop.go()
    assert shop.ran == []


@GUARDED
async def test_calls_of_tools_that_are_not_gated_may_be_changed(guarded: bool) -> None:
    shop = Shop(LOOK, PAY, guarded=guarded, gates={"mail": True})
    shop.after = [changing(more)]
    await shop.go()
    assert sorted(shop.ran) == [("look",), ("pay", 1000, "ann")]


@GUARDED
async def test_a_change_before_a_batched_gate_is_after_the_approval_too(guarded: bool) -> None:
    shop = Shop(PAY, guarded=guarded)
    shop.before = [changing(more)]
    await shop.go()
    with pytest.raises(CallChanged):
        await shop.decide(APPROVE)
    assert shop.ran == []


async def test_a_change_before_a_per_call_gate_is_what_is_asked_about() -> None:
    """Without a worker's guard the gate asks at its place in the list."""
    shop = Shop(PAY, mode="per_call")
    shop.before = [changing(more)]
    await shop.go()
    assert shop.interrupts[0].value["args"]["amount"] == 1000
    await shop.decide(APPROVE)
    assert shop.ran == [("pay", 1000, "ann")]


async def test_under_the_guard_a_change_before_a_per_call_gate_does_not_run() -> None:
    shop = Shop(PAY, mode="per_call", guarded=True)
    shop.before = [changing(more)]
    await shop.go()
    assert shop.interrupts[0].value["args"]["amount"] == 1
    with pytest.raises(CallChanged):
        await shop.decide(APPROVE)
    assert shop.ran == []


async def test_middleware_before_a_per_call_gate_runs_once_a_call() -> None:
    """Under the guard a call is asked about before any middleware: LangChain's enters it for each answer."""
    entered: list[str] = []
    shop = Shop(PAY, MAIL, LOOK, mode="per_call", guarded=True)
    shop.before = [changing(lambda _: {}, entered=entered)]
    await shop.go()
    assert entered == ["look"]
    assert sorted(shop.asked) == ["mail", "pay"]
    await shop.answer(APPROVE)
    await shop.answer({"type": "reject"})
    assert sorted(entered) == ["look", "mail", "pay"]
    assert len(shop.ran) == 2


@BOTH
async def test_a_sync_agent_is_guarded_as_well(mode: Mode) -> None:
    shop = Shop(PAY, mode=mode)
    ran: list[Any] = []

    @tool
    def pay(amount: int, to: str) -> str:
        """Pay."""
        ran.append((amount, to))
        return "paid"

    class Changing(AgentMiddleware[Any, Any, Any]):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            return handler(request.override(tool_call={**request.tool_call, **more(request.tool_call)}))

    shop.tools[0] = pay
    from langgraph.types import Command  # noqa: PLC0415

    from placet.middleware import RunContext, run_context  # noqa: PLC0415

    def go(given: Any) -> Any:
        with run_context(RunContext(run_id="r", shared=shop.shared)):
            return shop.agent().invoke(given, shop.config, version="v2").interrupts

    (pause,) = go(HELLO)
    answer: Any = EDIT if mode == "per_call" else {"decisions": [EDIT]}
    assert go(Command(resume={pause.id: answer})) == ()
    assert ran == [(5, "eve")]
    shop.config = {"configurable": {"thread_id": "other"}}
    shop.after = [Changing]
    (pause,) = go(HELLO)
    with pytest.raises(CallChanged):
        go(Command(resume={pause.id: answer}))
    assert ran == [(5, "eve")]


async def test_a_gate_of_an_agent_inside_a_tool_looks_at_its_own_calls() -> None:
    inner = Shop(Call("pay", {"amount": 3}, id="c-inner"), mode="per_call", guarded=True)
    inner.saver = None  # type: ignore[assignment]

    @tool
    async def delegate() -> str:
        """Have another agent do it."""
        out = await inner.agent().ainvoke(HELLO)
        return str(out["messages"][-1].text)

    gates = {"delegate": {"allowed_decisions": ["approve"]}}
    outer = Shop(Call("delegate", {}, id="c-outer"), mode="batched", guarded=True, gates=gates)
    outer.tools.append(delegate)
    await outer.go()
    await outer.answer({"decisions": [APPROVE]})
    assert outer.asked == ["pay"]
    await outer.answer(EDIT)
    assert inner.ran == [("pay", 5, "eve")]
