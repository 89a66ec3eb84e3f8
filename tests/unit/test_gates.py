"""What is found of the gates of a graph."""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain.agents import middleware as stock
from langchain_core.tools import tool

from placet.agents.gates import gated_tools
from placet.middleware import HumanInTheLoopMiddleware
from placet.middleware.testing import ScriptedModel


@tool
def delete_db() -> str:
    """Delete it."""
    return "deleted"


def agent(gate: Any, *tools: Any) -> Any:
    return create_agent(ScriptedModel(script=[]), tools=[delete_db, *tools], middleware=[gate])


def test_ours_tells_of_its_gates_as_langchains_does() -> None:
    config: Any = {"delete_db": {"allowed_decisions": ["reject", "approve"]}}
    ours, theirs = HumanInTheLoopMiddleware(config), stock.HumanInTheLoopMiddleware(config)
    assert (
        gated_tools(agent(ours))
        == gated_tools(agent(theirs))
        == {"delete_db": ["batched", "approve", "reject"]}
    )
