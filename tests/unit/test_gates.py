"""Gates are looked at when a worker starts: what one names has to be there."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents import middleware as stock
from langchain_core.tools import tool

from placet.errors import InvalidAgent
from placet.fingerprint import levels
from placet.gates import check_gates, gated_tools
from placet.middleware import HumanInTheLoopMiddleware
from placet.middleware.testing import ScriptedModel


@tool
def delete_db() -> str:
    """Delete it."""
    return "deleted"


def agent(gate: Any, *tools: Any) -> Any:
    return create_agent(ScriptedModel(script=[]), tools=[delete_db, *tools], middleware=[gate])


def test_a_tool_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(InvalidAgent, match=r"interrupt_on\['delete_bd'\].*it has delete_db"):
        check_gates(agent(HumanInTheLoopMiddleware({"delete_bd": True})))


@pytest.mark.parametrize(
    "gate",
    [
        HumanInTheLoopMiddleware({"delete_db": True, "gone": False}),
        HumanInTheLoopMiddleware({"found": {"allowed_decisions": ["approve"], "dynamic": True}}),
        stock.HumanInTheLoopMiddleware({"gone": True}),
    ],
)
def test_what_is_there_is_to_come_or_is_langchains_is_taken(gate: Any) -> None:
    check_gates(agent(gate))


def test_agents_inside_tools_are_looked_at_too() -> None:
    inner = agent(HumanInTheLoopMiddleware({"delete_bd": True}))

    @tool
    async def delegate() -> str:
        """Have it done."""
        return str(await inner.ainvoke({"messages": "go"}))

    outer = agent(HumanInTheLoopMiddleware({"delete_db": True}), delegate)
    first, second = levels(outer)
    check_gates(first)
    with pytest.raises(InvalidAgent, match="delete_bd"):
        check_gates(second)


def test_ours_tells_of_its_gates_as_langchains_does() -> None:
    config: Any = {"delete_db": {"allowed_decisions": ["reject", "approve"]}}
    ours, theirs = HumanInTheLoopMiddleware(config), stock.HumanInTheLoopMiddleware(config)
    assert (
        gated_tools(agent(ours))
        == gated_tools(agent(theirs))
        == {"delete_db": ["batched", "approve", "reject"]}
    )
