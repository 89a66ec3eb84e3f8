"""The agents that are measured; made anew for each checkpointer, so that every way runs the same."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool

from placet.middleware import HumanInTheLoopMiddleware
from placet.middleware.testing import Call, ScriptedModel, Step

INPUT: dict[str, Any] = {"messages": [{"role": "user", "content": "Order A-17 arrived broken. Refund it."}]}
APPROVE: dict[str, Any] = {"decisions": [{"type": "approve"}]}


@tool
async def refund(order_id: str, amount: float) -> str:  # noqa: ARG001 - what a model would give
    """Pay an amount in EUR back to the customer."""
    return str(time.monotonic_ns())  # when it started, on a clock that all processes of a machine share


@tool
async def look_up(order_id: str) -> str:
    """Look up an order, which takes a second."""
    await asyncio.sleep(1)
    return f"Order {order_id}: one kettle."


@tool
async def note(text: str) -> str:
    """Note something down."""
    return f"Noted: {text}"


def make_cycle(checkpointer: Any = None) -> Any:
    """One gated tool: pauses once for an approval."""
    return create_agent(
        ScriptedModel(
            script=[Step(calls=[Call("refund", {"order_id": "A-17", "amount": 42.0})]), "It is refunded."]
        ),
        tools=[refund],
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"refund": True})],
        checkpointer=checkpointer,
    )


def make_waits(checkpointer: Any = None) -> Any:
    """A model and a tool that take a second each."""
    script = [Step(calls=[Call("look_up", {"order_id": "A-17"})], delay_seconds=1), "A kettle."]
    return create_agent(ScriptedModel(script=script), tools=[look_up], checkpointer=checkpointer)


def make_turns(checkpointer: Any = None) -> Any:
    """A turn of four messages."""
    script = [Step(calls=[Call("note", {"text": "a kettle"})]), "Noted."]
    return create_agent(ScriptedModel(script=script), tools=[note], checkpointer=checkpointer)


cycle, waits, turns = make_cycle(), make_waits(), make_turns()


def thread_of(thread_id: str) -> Any:
    """The config of a thread."""
    return {"configurable": {"thread_id": thread_id}}


def tool_started(result: dict[str, Any]) -> int:
    """When `refund` started, from the result of a run of `cycle` (messages, or their JSON)."""
    message = result["messages"][-2]
    return int(message["content"] if isinstance(message, dict) else message.content)


def long_history(count: int = 1000) -> dict[str, Any]:
    """A thread's first input: `count` messages."""
    texts = [f"Message {number} of a long conversation about a kettle." for number in range(count)]
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]}
