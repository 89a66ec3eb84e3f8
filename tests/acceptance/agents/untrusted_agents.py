"""Agents that pass on what they are given, and one that makes odd values; see acceptance_effects.py."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, TypedDict

from acceptance_effects import logged
from langchain.agents import create_agent
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.config import get_config
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime  # noqa: TC002 (LangGraph reads the annotation)
from langgraph.types import interrupt
from tool_agents import gate

from placet.middleware.testing import Call, ScriptedModel, Step

if TYPE_CHECKING:
    from collections.abc import Sequence


class Relay(TypedDict, total=False):
    """What came in, and what of it was seen where."""

    given: Any
    seen: dict[str, Any]


async def relay(state: Relay, runtime: Runtime[None]) -> Relay:
    """Put what is given into the store, an event and a question; return it as it was seen everywhere."""
    given, config = state["given"], get_config()
    assert runtime.store is not None
    await runtime.store.aput(("relay",), "given", {"value": given})
    stored = await runtime.store.aget(("relay",), "given")
    runtime.stream_writer(given)
    answer = interrupt(given)
    seen = {
        "given": given,
        "store": stored and stored.value["value"],
        "answer": answer,
        "context": runtime.context,
        "configurable": config["configurable"]["note"],
        "metadata": config["metadata"]["note"],
    }
    return {"seen": seen}


@tool(response_format="content_and_artifact")
async def carry(value: Any) -> tuple[str, Any]:
    """Return a value as text and as an artifact."""
    with logged("carry", value=value):
        return json.dumps(value), value


def _carrying(messages: Sequence[BaseMessage]) -> Step:
    given = next(message for message in reversed(messages) if isinstance(message, HumanMessage))
    return Step("carrying", calls=[Call("carry", {"value": given.additional_kwargs["note"]})])


class Odd(TypedDict, total=False):
    """Which kind of odd value."""

    how: str
    kept: Any


def nested(levels: int) -> Any:
    """Lists within lists."""
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


async def odd(state: Odd, runtime: Runtime[None]) -> Odd:
    """Stream, ask or return what cannot be passed on as it is."""
    how = state["how"]
    if how == "surrogate":
        runtime.stream_writer({"text": "a\ud800b"})
        return {"kept": interrupt({"text": "a\ud800b"})}
    if how == "stream":
        runtime.stream_writer("x" * 20_000)
        runtime.stream_writer(nested(100_000))
        runtime.stream_writer({"nan": math.nan, "whole": 10**3000})
        return {"kept": "fine"}
    if how == "ask_much":
        return {"kept": interrupt("x" * 60_000)}
    if how == "ask_some":
        return {"kept": interrupt("x" * 30_000)}
    if how == "return_much":
        return {"kept": "x" * 200_000}
    return {"kept": nested(100_000)}


relaying = StateGraph(Relay).add_node(relay).add_edge(START, "relay").compile()
carrying = create_agent(
    ScriptedModel(script=[_carrying, lambda messages: f"done: {messages[-1].text}"]),
    tools=[carry],
    middleware=[gate("carry")],
)
making_odd = StateGraph(Odd).add_node(odd).add_edge(START, "odd").compile()
