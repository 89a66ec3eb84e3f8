"""Agents of two deployments: each is one graph in the old one and another in the new one.

PLACET_TEST_DEPLOYMENT says which this process has, `old` (the default) or `new`. `CHANGED` are those whose
paused runs the new one cannot take on, `HARMLESS` those that go on in it; the name says what changes. All
take `{"messages": [human]}`. The first action of those with tools is pay(to="ann", amount=10), asked about
in the old deployment; nodes log what they do as `act`.
"""

from __future__ import annotations

import operator
import os
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, TypeVar

from acceptance_effects import barrier, logged
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ToolRetryMiddleware
from langchain_core.tools import tool
from langgraph.func import entrypoint
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from pydantic import BaseModel
from tool_agents import calling, gate, look_up, mail, pay

from placet.middleware import HumanInTheLoopMiddleware as OurGate
from placet.middleware.testing import Call

if TYPE_CHECKING:
    from collections.abc import Callable

NEW = os.environ.get("PLACET_TEST_DEPLOYMENT") == "new"


T = TypeVar("T")


def then(old: T, new: T) -> T:
    """Take what this deployment has."""
    return new if NEW else old


# made with create_agent


def paying(old: dict[str, Any], new: dict[str, Any], *calls: Call, call_id: str | None = None) -> Any:
    """Make an agent that pays; the arguments are those of `create_agent`."""
    model = calling(Call("pay", {"to": "ann", "amount": 10}, id=call_id), *calls)
    given: dict[str, Any] = {"tools": [pay, mail, look_up], "middleware": [gate("pay")]}
    return create_agent(model, **(given | then(old, new)))


class Gate(HumanInTheLoopMiddleware[Any, Any, Any]):
    """A gate with a name of its own."""


class OtherGate(HumanInTheLoopMiddleware[Any, Any, Any]):
    """The same under another."""


def only(*decisions: Any) -> Any:
    """Gate `pay` for these decisions alone."""
    return HumanInTheLoopMiddleware(interrupt_on={"pay": {"allowed_decisions": [*decisions]}})


per_call = gate("pay", mode="per_call")
ours, our_per_call = OurGate({"pay": True}), OurGate({"pay": True}, interrupt_mode="per_call")
gate_removed = paying({}, {"middleware": []})
per_call_gate_removed = paying({"middleware": [per_call]}, {"middleware": []})
gate_renamed = paying({"middleware": [Gate({"pay": True})]}, {"middleware": [OtherGate({"pay": True})]})
gate_moved_to_another_tool = paying({"middleware": [gate("pay", "mail")]}, {"middleware": [gate("mail")]})
to_per_call = paying({}, {"middleware": [per_call]})
to_batched = paying({"middleware": [per_call]}, {"middleware": [gate("pay")]})
decision_refused = paying({}, {"middleware": [only("reject", "edit")]})
our_gate_removed = paying({"middleware": [ours]}, {"middleware": []})
our_gate_to_per_call = paying({"middleware": [ours]}, {"middleware": [our_per_call]})
tool_removed = paying({}, {"tools": [mail, look_up]})
sibling_removed = paying({}, {"tools": [pay, mail]}, Call("look_up", {"key": "a"}))


_payer = paying({"middleware": [per_call]}, {"middleware": []}, call_id="inner")


@tool
async def delegate(text: str) -> str:
    """Let another agent pay."""
    result = await _payer.ainvoke({"messages": [{"role": "user", "content": text}]})
    answer: str = result["messages"][-1].text
    return answer


subagent_gate_removed = create_agent(calling(Call("delegate", {"text": "pay"})), tools=[delegate])

gate_to_ours = paying({}, {"middleware": [ours]})
per_call_gate_to_ours = paying({"middleware": [per_call]}, {"middleware": [our_per_call]})
prompt = paying({"system_prompt": "Pay."}, {"system_prompt": "Pay at once."})
tool_added = paying({"tools": [pay]}, {"tools": [pay, mail], "middleware": [gate("pay", "mail")]})
middleware_added = paying({}, {"middleware": [gate("pay"), ToolRetryMiddleware(max_retries=1)]})
decisions_changed = paying({}, {"middleware": [only("approve")]})


# of nodes


class State(TypedDict, total=False):
    """An answer, what was counted, and what only one deployment has."""

    messages: Annotated[list[Any], operator.add]
    answer: Any
    left: Any
    right: Any


class Noted(State, total=False):
    """With one key more."""

    notes: str


class Size(BaseModel):
    """A value in the state."""

    width: then(str, int)  # type: ignore[valid-type] # what each deployment has
    if NEW:
        depth: int = 1


class Sized(TypedDict, total=False):
    """A state with such a value."""

    messages: Annotated[list[Any], operator.add]
    size: Size
    answer: Any


class Whole(BaseModel):
    """A state that validates itself."""

    messages: list[Any] = []
    amount: then(str, int) = then("ten", 10)  # type: ignore[valid-type] # as above
    answer: Any = None


def ask(state: Any) -> dict[str, Any]:
    """Ask, then act on the answer."""
    answer = interrupt("sure?")
    with logged("act", answer=answer):
        return {"answer": answer}


def one_node(
    name: str, state: Any = State, node: Callable[..., Any] = ask, *, more: bool = False, **graph: Any
) -> Any:
    """Make a graph that asks in a node of that name, after a first one and perhaps before one more."""
    first = graph.pop("first", lambda _: {"answer": None})
    built: StateGraph[Any] = StateGraph(state).add_node("first", first).add_node(name, node)
    built.add_edge(START, "first").add_edge("first", name)
    if more:
        built.add_node("more", last).add_edge(name, "more")
    return built.compile(**graph)


def act(state: Any) -> Any:
    """Act, without a question."""
    with logged("act"):
        return {"answer": "acted"}


def last(state: Any) -> Any:
    """Come last."""
    return {"right": "last"}


def _stops(act_name: str, last_name: str, **stops: Any) -> Any:
    graph = StateGraph(State).add_node(act_name, act).add_node(last_name, last)
    return graph.add_edge(START, act_name).add_edge(act_name, last_name).compile(**stops)


def _sides(left: str, right: str) -> Any:
    """Ask on the right; the left has gone ahead, and `join` waits for both."""
    graph = StateGraph(State)
    graph.add_node("fork", lambda _: {})
    graph.add_node(left, lambda _: {"left": 1})
    graph.add_node("ahead", lambda _: {})
    graph.add_node(right, lambda _: {"right": interrupt("right?")})
    graph.add_node("join", act)
    graph.add_edge(START, "fork").add_edge("fork", left).add_edge("fork", "ahead").add_edge("ahead", right)
    return graph.add_edge([left, right], "join").compile()


@entrypoint()
async def asks(given: dict[str, Any]) -> Any:
    """Ask as a function."""
    return ask(given)


@entrypoint()
async def asks_as_well(given: dict[str, Any]) -> Any:
    """Ask as another function."""
    return ask(given)


node_renamed = one_node(then("ask", "question"))
key_removed = one_node("ask", then(Noted, State), first=lambda _: {"notes": "not to be lost"})
key_retyped = one_node("ask", Sized, first=lambda _: {"size": Size(width=then("wide", 3))})
whole_retyped = one_node("ask", Whole, first=lambda _: {"amount": then("ten", 10)})
before_node_removed = _stops(then("act", "do"), "last", interrupt_before=then(["act"], []))
after_next_removed = _stops("act", then("last", "final"), interrupt_after=["act"])
subgraph_node_renamed = one_node("outer", node=one_node(then("ask", "question")))
subgraph_gone = one_node("outer", node=then(one_node("ask"), ask))
join_renamed = _sides(then("left", "port"), "right")
function_renamed = then(asks, asks_as_well)

key_added = one_node("ask", then(State, Noted))
node_added = one_node("ask", more=NEW)
class_extended = one_node("ask", Sized, first=lambda _: {"size": Size(width="3")})
stop_removed = _stops("act", "last", interrupt_before=then(["act"], []))
stop_added = one_node("ask", interrupt_before=then([], ["ask"]))
subgraph_changed_elsewhere = one_node("outer", node=one_node("ask", then(State, Noted)))


async def wait(state: Any) -> Any:
    """Block where the last message says, then act."""
    name = state["messages"][-1]["content"]
    with logged("wait", barrier_name=name):
        await barrier(name)
    return act(state)


running_node_renamed = one_node(then("wait", "pause"), node=wait)
running_node_added = one_node("wait", node=wait, more=NEW)
if NEW:
    new_only = _stops("act", "last")
