"""Interrupts as LangChain and LangGraph really raise them, answered by what we make of decisions."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

import pytest
from langchain.agents import create_agent
from langchain.agents import middleware as stock
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState, StateGraph
from langgraph.types import Command, Interrupt, Send, interrupt
from typing_extensions import TypedDict

from placet import middleware as ours
from placet.approvals.answers import answer_of, split_answer
from placet.approvals.decisions import check_decision
from placet.approvals.interrupts import Pause, StaticBreakpoint, pause_of
from placet.approvals.tool_calls import is_tool_approval_interrupt, pending_tool_calls
from placet.errors import InvalidDecision

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

CONFIG: RunnableConfig = {"configurable": {"thread_id": "t", "__pregel_strict_resume": True}}
Mode = Literal["batched", "per_call"]


@pytest.fixture(autouse=True, params=[stock, ours], ids=["langchain", "placet"])
def gate_class(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "HumanInTheLoopMiddleware", request.param.HumanInTheLoopMiddleware)


class Model(BaseChatModel):
    """Calls the tools it is told to, so many times, then ends."""

    calls: list[dict[str, Any]]
    turns: int = 1

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_args: Any, **_kwargs: Any) -> Any:
        return self

    def _generate(self, messages: Any, *_args: Any, **_kwargs: Any) -> ChatResult:
        done = sum(message.type == "ai" for message in messages) >= self.turns
        calls = [] if done else [{"id": f"c{at}", **call} for at, call in enumerate(self.calls)]
        return ChatResult(generations=[ChatGeneration(message=AIMessage("done" * done, tool_calls=calls))])


class Shop:
    """An agent with two gated tools and one that is not, and what ran of them."""

    def __init__(self, mode: Mode, calls: list[dict[str, Any]], gates: dict[str, Any] | None = None) -> None:
        self.ran: list[Any] = []

        @tool
        async def pay(amount: int, to: str = "nobody") -> str:
            """Pay."""
            self.ran.append(("pay", amount, to))
            return "paid"

        @tool
        async def mail(to: str) -> str:
            """Mail."""
            self.ran.append(("mail", to))
            return "mailed"

        @tool
        async def look() -> str:
            """Look."""
            self.ran.append(("look",))
            return "seen"

        self.tools = [pay, mail, look]
        gate = HumanInTheLoopMiddleware(gates or {"pay": True, "mail": True}, interrupt_mode=mode)
        self.agent = create_agent(
            Model(calls=calls), self.tools, middleware=[gate], checkpointer=InMemorySaver()
        )

    async def start(self) -> Pause:
        messages = {"messages": [{"role": "user", "content": "go"}]}
        await self.agent.ainvoke(messages, CONFIG)  # type: ignore[call-overload]
        state = await self.agent.aget_state(CONFIG)
        return pause_of(
            run_id="r",
            agent="shop",
            interrupts=state.interrupts,
            pending=pending_tool_calls(state.values["messages"]),
            tool_schemas={t.name: t.tool_call_schema.model_json_schema() for t in self.tools},  # type: ignore[union-attr]
        )

    async def resume(self, pause: Pause, *decisions: dict[str, Any]) -> list[AnyMessage]:
        """Give one decision for each request and deliver all by interrupt id."""
        by_id: dict[str, list[Any]] = {}
        for request, decision in zip(pause.requests, decisions, strict=True):
            by_id.setdefault(request.interrupt_id, []).append((request, check_decision(request, decision)))
        answers = {i: answer_of(pairs[0][0].mode, [d for _, d in pairs]) for i, pairs in by_id.items()}
        out = await self.agent.ainvoke(Command(resume=answers), CONFIG, version="v2")
        assert out.interrupts == ()
        messages: list[AnyMessage] = out.value["messages"]
        return messages


CALLS = [
    {"name": "pay", "args": {"amount": 1, "to": "a"}},
    {"name": "look", "args": {}},
    {"name": "mail", "args": {"to": "日本語 🚀"}},
]
BOTH = pytest.mark.parametrize("mode", ["batched", "per_call"])


def results(messages: list[AnyMessage]) -> dict[str, tuple[str, str]]:
    tools = [message for message in messages if isinstance(message, ToolMessage)]
    return {message.tool_call_id: (message.status, str(message.content)) for message in tools}


@BOTH
async def test_requests_are_alike_in_both_modes(mode: Mode) -> None:
    pay, mail = (await Shop(mode, CALLS).start()).requests
    assert [(r.kind, r.mode, r.tool, r.args, r.tool_call_id) for r in (pay, mail)] == [
        ("tool_call", mode, "pay", {"amount": 1, "to": "a"}, "c0"),
        ("tool_call", mode, "mail", {"to": "日本語 🚀"}, "c2"),
    ]
    assert pay.description == "Tool execution requires approval"
    assert pay.allowed == ("approve", "edit", "reject", "respond")


@BOTH
async def test_mixed_decisions_run_the_right_tools(mode: Mode) -> None:
    shop = Shop(mode, CALLS)
    messages = await shop.resume(await shop.start(), {"type": "reject"}, {"type": "approve"})
    assert sorted(shop.ran) == [("look",), ("mail", "日本語 🚀")]
    found = results(messages)
    assert found["c0"][0] == "error"
    assert found["c2"] == ("success", "mailed")
    assert messages[-1].content == "done"


@BOTH
async def test_an_edit_runs_what_was_edited(mode: Mode) -> None:
    shop = Shop(mode, CALLS)
    edit = {"type": "edit", "args": {"amount": 7, "to": "b"}}
    messages = await shop.resume(await shop.start(), edit, {"type": "respond", "message": "no need"})
    assert sorted(shop.ran) == [("look",), ("pay", 7, "b")]
    assert results(messages)["c2"] == ("success", "no need")


@BOTH
async def test_the_original_call_asked_again_after_an_edit_is_a_new_request(mode: Mode) -> None:
    shop = Shop(mode, [])
    gate = HumanInTheLoopMiddleware({"pay": True}, interrupt_mode=mode)
    model = Model(calls=CALLS[:1], turns=2)
    shop.agent = create_agent(model, shop.tools, middleware=[gate], checkpointer=InMemorySaver())
    (first,) = (await shop.start()).requests
    edit = check_decision(first, {"type": "edit", "args": {"amount": 7}})
    answers = {first.interrupt_id: answer_of(first.mode, [edit])}
    out = await shop.agent.ainvoke(Command(resume=answers), CONFIG, version="v2")
    (second,) = pause_of(run_id="r", agent="shop", interrupts=out.interrupts).requests
    assert shop.ran == [("pay", 7, "nobody")]
    assert second.args == first.args
    assert second.id != first.id


@BOTH
async def test_decisions_langchain_would_choke_on_are_refused_before(mode: Mode) -> None:
    shop = Shop(mode, CALLS, {"pay": {"allowed_decisions": ["approve", "edit"]}})
    pause = await shop.start()
    (pay,) = pause.requests
    assert pay.allowed == ("approve", "edit")
    action = {"name": "pay", "args": {"amount": 1}}
    bad: list[tuple[Any, str]] = [
        ({"type": "reject"}, "/type"),
        ({"type": "edit", "args": {"amount": "seven"}}, "/edited_action/args/amount"),
        ({"type": "edit", "args": {}}, "/edited_action/args/amount"),
        ({"type": "edit", "edited_action": {"name": "mail", "args": {"to": "x"}}}, "/edited_action/name"),
        ({"type": "edit", "edited_action": {**action, "force": True}}, "/edited_action/force"),
        ({"type": "approve", "always": True}, "/always"),
    ]
    for decision, path in bad:
        with pytest.raises(InvalidDecision) as refused:
            check_decision(pay, decision)
        assert path in [issue["path"] for issue in refused.value.issues]
    await shop.resume(pause, {"type": "approve"})
    assert ("pay", 1, "a") in shop.ran


async def test_one_allowed_decision_makes_a_plain_schema() -> None:
    shop = Shop("per_call", CALLS, {"pay": {"allowed_decisions": ["edit"]}})
    pause = await shop.start()
    assert pause.requests[0].allowed == ("edit",)
    await shop.resume(pause, {"type": "edit", "args": {"amount": 2}})
    assert ("pay", 2, "nobody") in shop.ran


async def test_three_decisions_for_two_are_refused_and_the_pause_stands() -> None:
    shop = Shop("batched", CALLS)
    pause = await shop.start()
    with pytest.raises(InvalidDecision, match="expected 2 decisions, got 3"):
        split_answer(pause.requests, {"decisions": [{"type": "approve"}] * 3})
    decisions = split_answer(pause.requests, {"decisions": [{"type": "reject"}, {"type": "approve"}]})
    await shop.resume(pause, *decisions)
    assert sorted(shop.ran) == [("look",), ("mail", "日本語 🚀")]


@BOTH
async def test_an_edit_with_an_argument_the_tool_has_not_is_refused(mode: Mode) -> None:
    shop = Shop(mode, CALLS[:1])
    (request,) = (await shop.start()).requests
    with pytest.raises(InvalidDecision) as error:
        check_decision(request, {"type": "edit", "args": {**request.args, "amuont": 1}})
    (issue,) = error.value.issues
    assert issue["path"] == "/edited_action/args/amuont"
    assert issue["message"].startswith("is no argument of 'pay': amount")


@BOTH
async def test_equal_calls_are_told_apart(mode: Mode) -> None:
    shop = Shop(mode, [CALLS[0], CALLS[0]])
    pause = await shop.start()
    assert [r.tool_call_id for r in pause.requests] == ["c0", "c1"]
    assert len({r.id for r in pause.requests}) == 2
    found = results(await shop.resume(pause, {"type": "reject"}, {"type": "approve"}))
    assert shop.ran == [("pay", 1, "a")]
    assert (found["c0"][0], found["c1"][0]) == ("error", "success")


@BOTH
async def test_typed_arguments_are_readable_and_reach_the_tool_intact(mode: Mode) -> None:
    args = {
        "amount": Decimal("1.10"),
        "at": datetime(2026, 1, 2, tzinfo=UTC),
        "key": UUID(int=7),
        "data": b"\xff",
        "word": "日本語 🚀",
    }
    got: list[Any] = []

    @tool
    async def send(amount: Decimal, at: datetime, key: UUID, data: bytes, word: str) -> str:
        """Send."""
        got.append({"amount": amount, "at": at, "key": key, "data": data, "word": word})
        return "sent"

    shop = Shop(mode, [])
    shop.tools = [send]
    gate = HumanInTheLoopMiddleware({"send": True}, interrupt_mode=mode)
    model = Model(calls=[{"name": "send", "args": args}])
    shop.agent = create_agent(model, [send], middleware=[gate], checkpointer=InMemorySaver())
    pause = await shop.start()
    assert pause.requests[0].args == {
        "amount": "1.10",
        "at": "2026-01-02T00:00:00Z",
        "key": "00000000-0000-0000-0000-000000000007",
        "data": "data:;base64,/w==",
        "word": "日本語 🚀",
    }
    assert pause.requests[0].tool_call_id == "c0"
    assert pause.requests[0].description == "Tool execution requires approval"
    await shop.resume(pause, {"type": "approve"})
    assert got == [args]


async def test_an_agent_inside_a_tool_asks_for_its_own_calls() -> None:
    inner = Shop("per_call", CALLS[:1])
    gate = HumanInTheLoopMiddleware({"pay": True}, interrupt_mode="per_call")
    sub = create_agent(Model(calls=CALLS[:1]), inner.tools, middleware=[gate])

    @tool
    async def delegate() -> str:
        """Ask another agent."""
        out = await sub.ainvoke({"messages": [{"role": "user", "content": "go"}]})
        return str(out["messages"][-1].content)

    outer = Model(calls=[{"name": "delegate", "args": {}, "id": "outer"}])
    inner.agent = create_agent(outer, [delegate], checkpointer=InMemorySaver())
    pause = await inner.start()
    assert [(r.kind, r.tool, r.tool_call_id) for r in pause.requests] == [("tool_call", "pay", "c0")]
    await inner.resume(pause, {"type": "approve"})
    assert inner.ran == [("pay", 1, "a")]


class Answers(TypedDict):
    """What the branches below were told."""

    got: list[Any]


@pytest.mark.parametrize("value", [False, 0, "", [], None])
async def test_falsy_answers_arrive_as_they_are(value: Any) -> None:
    async def ask(state: Answers) -> Answers:
        return {"got": [interrupt("well?")]}

    builder = StateGraph(Answers)
    builder.add_node("ask", ask)
    builder.add_edge("__start__", "ask")
    graph = builder.compile(checkpointer=InMemorySaver())
    out = await graph.ainvoke({"got": []}, CONFIG, version="v2")
    (request,) = pause_of(run_id="r", agent="a", interrupts=out.interrupts).requests
    decision = check_decision(request, {"type": "answer", "value": value})
    answers = {request.interrupt_id: answer_of(request.mode, [decision])}
    done = await graph.ainvoke(Command(resume=answers), CONFIG, version="v2")
    (got,) = done.value["got"]
    assert got == value
    assert type(got) is type(value)


async def test_parallel_questions_get_their_own_answers() -> None:
    got: dict[str, Any] = {}

    async def ask(state: Any) -> None:
        got[state["name"]] = interrupt({"for": state["name"]})

    builder = StateGraph(MessagesState)
    builder.add_node("ask", ask)
    builder.set_conditional_entry_point(lambda _: [Send("ask", {"name": name}) for name in "ab"], ["ask"])
    graph = builder.compile(checkpointer=InMemorySaver())
    out = await graph.ainvoke({"messages": []}, CONFIG, version="v2")
    a, b = pause_of(run_id="r", agent="a", interrupts=out.interrupts).requests
    assert (a.value, b.value) == ({"for": "a"}, {"for": "b"})
    for request, value in ((b, "B"), (a, "A")):
        answer = answer_of(request.mode, [{"type": "answer", "value": value}])
        await graph.ainvoke(Command(resume={request.interrupt_id: answer}), CONFIG, version="v2")
    assert got == {"a": "A", "b": "B"}


async def test_a_static_breakpoint_goes_on_without_input() -> None:
    shop = Shop("batched", CALLS[1:2], {"pay": True})
    shop.agent = create_agent(
        Model(calls=CALLS[1:2]), shop.tools, interrupt_before=["tools"], checkpointer=InMemorySaver()
    )
    assert (await shop.start()).requests == ()
    state = await shop.agent.aget_state(CONFIG)
    checkpoint_id = state.config["configurable"]["checkpoint_id"]
    stop = StaticBreakpoint(checkpoint_id=checkpoint_id, when="before", nodes=state.next)
    (request,) = pause_of(run_id="r", agent="a", breakpoint_at=stop).requests
    assert request.tool == "tools"
    answer = answer_of(request.mode, [check_decision(request, {"type": "approve"})])
    await shop.agent.ainvoke(answer, CONFIG, version="v2")
    assert shop.ran == [("look",)]


async def test_langchains_own_shape_is_told() -> None:
    pause = await Shop("per_call", CALLS).start()
    assert all(is_tool_approval_interrupt(listed) for listed in pause.interrupts)
    batched = await Shop("batched", CALLS).start()
    assert not is_tool_approval_interrupt(Interrupt(batched.interrupts[0]["value"], id="i"))
