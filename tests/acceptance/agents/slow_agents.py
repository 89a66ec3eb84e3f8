"""Agents that block until the test lets them go on; acceptance_effects.py says what each does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from acceptance_effects import barrier, logged
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.tools import tool

from placet.middleware.testing import Call, ScriptedModel, Step

if TYPE_CHECKING:
    from collections.abc import Sequence


@tool
async def slow(barrier_name: str) -> str:
    """Block at a barrier."""
    with logged("slow", barrier=barrier_name):
        await barrier(barrier_name)
        return f"passed {barrier_name}"


def _name(messages: Sequence[BaseMessage]) -> str:
    return next(message.text for message in reversed(messages) if isinstance(message, HumanMessage))


def _call(messages: Sequence[BaseMessage]) -> Step:
    return Step("working", calls=[Call("slow", {"barrier_name": _name(messages)})])


def _report(messages: Sequence[BaseMessage]) -> str:
    return f"done: {messages[-1].text}"


async def _slowly(messages: Sequence[BaseMessage]) -> str:
    with logged("model", barrier=_name(messages)):
        await barrier(_name(messages))
        return f"done: {_name(messages)}"


_model = ScriptedModel(script=[_call, _report])
_gate = HumanInTheLoopMiddleware(
    interrupt_on={"slow": {"allowed_decisions": ["approve", "edit", "reject", "respond"]}}
)

slow_tool = create_agent(_model, tools=[slow])
gated_slow_tool = create_agent(_model, tools=[slow], middleware=[_gate])
slow_model = create_agent(ScriptedModel(script=[_slowly]))
