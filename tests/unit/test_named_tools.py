"""Middleware that names tools is looked at when a worker starts: what it names has to be there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from langchain.agents import create_agent
from langchain.agents import middleware as stock
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import ValidationError

from placet.agents.fingerprint import levels
from placet.agents.named_tools import check_named_tools
from placet.errors import InvalidAgent, InvalidInput
from placet.middleware import (
    AutoModeMiddleware,
    DynamicTool,
    HumanInTheLoopMiddleware,
    LLMToolEmulator,
    TodoListMiddleware,
    ToolCallLimitMiddleware,
    ToolErrorMiddleware,
    ToolLedgerMiddleware,
    ToolRetryMiddleware,
    ToolTimeoutMiddleware,
)
from placet.middleware.testing import ScriptedModel

if TYPE_CHECKING:
    from langchain_core.decisions import BaseDecisionModel


@tool
def refund(order: str) -> str:
    """Pay it back."""
    return order


CLASSIFIER = cast("BaseDecisionModel", None)  # nothing is classified here
NAMING: dict[str, Any] = {
    "gate": lambda name: HumanInTheLoopMiddleware({name: True}),
    "retry": lambda name: ToolRetryMiddleware(tools=[name]),
    "timeout": lambda name: ToolTimeoutMiddleware(timeout_seconds=1, tools=[name]),
    "limit": lambda name: ToolCallLimitMiddleware(tool_name=name, run_limit=1),
    "ledger": lambda name: ToolLedgerMiddleware(on_unknown={name: "rerun"}),
    "verify": lambda name: ToolLedgerMiddleware(verify={name: lambda _: None}),
    "emulator": lambda name: LLMToolEmulator(tools=[name]),
    "auto mode": lambda name: AutoModeMiddleware(tools=[name], classifier=CLASSIFIER),
    "tool error": lambda name: ToolErrorMiddleware(lambda *_: "no", tools=[name]),
}
LISTING: dict[str, Any] = {
    "retry": lambda tools: ToolRetryMiddleware(tools=tools),
    "timeout": lambda tools: ToolTimeoutMiddleware(timeout_seconds=1, tools=tools),
    "emulator": lambda tools: LLMToolEmulator(tools=tools),
    "auto mode": lambda tools: AutoModeMiddleware(tools=tools, classifier=CLASSIFIER),
}


def agent(*middleware: Any, tools: Any = (refund,)) -> Any:
    return create_agent(ScriptedModel(script=[]), tools=tools, middleware=middleware)


@pytest.mark.parametrize("kind", NAMING)
def test_a_tool_that_is_not_there_is_told_with_those_that_are(kind: str) -> None:
    wrong = NAMING[kind]("refnd")
    with pytest.raises(InvalidAgent) as caught:
        # whatever stands around it
        check_named_tools(agent(ToolRetryMiddleware(name="another"), wrong, TodoListMiddleware()))
    text = str(caught.value)
    assert text.startswith(f"{wrong.name}: ")
    assert "no such tool as 'refnd', did you mean 'refund'? it has refund, write_todos" in text
    assert "DynamicTool('refnd')" in text


@pytest.mark.parametrize("kind", NAMING)
@pytest.mark.parametrize("name", ["refund", DynamicTool("from_the_registry")])
def test_what_is_there_or_is_to_come_is_taken(kind: str, name: str) -> None:
    check_named_tools(agent(NAMING[kind](name)))


def test_an_agent_without_tools_is_told_so() -> None:
    with pytest.raises(InvalidAgent, match="no such tool as 'refund'; it has none"):
        check_named_tools(agent(ToolRetryMiddleware(tools=["refund"]), tools=()))


@pytest.mark.parametrize(
    "gate",
    [
        HumanInTheLoopMiddleware({"refund": True, "gone": False}),
        HumanInTheLoopMiddleware({"found": {"allowed_decisions": ["approve"], "dynamic": True}}),
        stock.HumanInTheLoopMiddleware({"gone": True}),
        stock.ToolRetryMiddleware(tools=["gone"]),
    ],
)
def test_a_gates_own_ways_and_langchains_are_taken(gate: Any) -> None:
    check_named_tools(agent(gate))


def test_agents_inside_tools_are_looked_at_too() -> None:
    inner = agent(HumanInTheLoopMiddleware({"refnd": True}))

    @tool
    async def delegate() -> str:
        """Have it done."""
        return str(await inner.ainvoke({"messages": "go"}))

    outer = agent(HumanInTheLoopMiddleware({"refund": True}), tools=[refund, delegate])
    first, second = levels(outer)
    check_named_tools(first)
    with pytest.raises(InvalidAgent, match="refnd"):
        check_named_tools(second)


def test_a_limit_may_name_a_tool_of_an_agent_inside_and_a_retry_may_not() -> None:
    inner = agent()

    @tool
    async def delegate() -> str:
        """Have it done."""
        return str(await inner.ainvoke({"messages": "go"}))

    check_named_tools(agent(NAMING["limit"]("refund"), tools=[delegate]))
    with pytest.raises(InvalidAgent, match="no such tool as 'refund'; it has delegate"):
        check_named_tools(agent(NAMING["retry"]("refund"), tools=[delegate]))


def test_a_graph_that_is_no_agent_names_none() -> None:
    graph = StateGraph(MessagesState).add_node("a", lambda _: {}).add_edge(START, "a").compile()
    check_named_tools(graph)


@pytest.mark.parametrize("kind", LISTING)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("refund", r"^tools: must be a list of tools or their names, \['refund'\]$"),
        (refund, "^tools: must be a list of tools or their names, not a StructuredTool$"),
        ([refund, len], "neither a tool nor the name of one"),
    ],
)
def test_what_is_no_list_of_tools_is_refused(kind: str, given: Any, message: str) -> None:
    # LangChain's auto mode has a check of its own
    expected: Any = ValidationError if kind == "auto mode" else InvalidInput
    with pytest.raises(expected, match=None if kind == "auto mode" else message):
        LISTING[kind](given)


@pytest.mark.parametrize("kind", LISTING)
def test_tools_are_named_by_themselves_too(kind: str) -> None:
    check_named_tools(agent(LISTING[kind]([refund])))
