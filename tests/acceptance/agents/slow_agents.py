"""Agents that block until the test lets them go on; acceptance_effects.py says what each does."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from acceptance_effects import barrier, is_open, logged
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.tools import tool
from tool_agents import gate, look_up, mail, report

from placet.middleware import idempotent
from placet.middleware.testing import Call, ScriptedModel, Step
from placet.middleware.timeout import ToolTimeoutMiddleware

if TYPE_CHECKING:
    from collections.abc import Sequence


@tool
@idempotent
async def slow(barrier_name: str) -> str:
    """Block at a barrier."""
    with logged("slow", barrier=barrier_name):
        await barrier(barrier_name)
        return f"passed {barrier_name}"


@tool
@idempotent
def slow_thread(barrier_name: str) -> str:
    """Block a thread at a barrier."""
    with logged("slow_thread", barrier=barrier_name):
        while not is_open(barrier_name):
            time.sleep(0.01)
        return f"passed {barrier_name}"


@tool
async def stubborn(barrier_name: str) -> str:
    """Block at a barrier, deaf to cancellation."""
    with logged("stubborn", barrier=barrier_name):
        while not is_open(barrier_name):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
        return f"passed {barrier_name}"


def _name(messages: Sequence[BaseMessage]) -> str:
    return next(message.text for message in reversed(messages) if isinstance(message, HumanMessage))


def _call(messages: Sequence[BaseMessage]) -> Step:
    return Step("working", calls=[Call("slow", {"barrier_name": _name(messages)})])


def _call_thread(messages: Sequence[BaseMessage]) -> Step:
    return Step("working", calls=[Call("slow_thread", {"barrier_name": _name(messages)})])


def _call_stubborn(messages: Sequence[BaseMessage]) -> Step:
    return Step("working", calls=[Call("stubborn", {"barrier_name": _name(messages)})])


def _call_two(messages: Sequence[BaseMessage]) -> Step:
    return Step("working", calls=[Call("look_up", {"key": "a"}), *_call(messages).calls])


def _call_both(messages: Sequence[BaseMessage]) -> Step:
    return Step("working", calls=[*_call(messages).calls, Call("mail", {"to": "bob", "text": "hello"})])


def _report(messages: Sequence[BaseMessage]) -> str:
    return f"done: {messages[-1].text}"


async def _call_slowly(messages: Sequence[BaseMessage]) -> Step:
    with logged("model", barrier=_name(messages)):
        await barrier(_name(messages))
        return Step("working", calls=[Call("slow", {"barrier_name": f"{_name(messages)}-tool"})])


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
gated_brief_tool = create_agent(
    _model, tools=[slow], middleware=[_gate, ToolTimeoutMiddleware(timeout_seconds=0.2, tools=[slow])]
)
slow_model = create_agent(ScriptedModel(script=[_slowly]))
slow_thread_tool = create_agent(ScriptedModel(script=[_call_thread, _report]), tools=[slow_thread])
stubborn_tool = create_agent(ScriptedModel(script=[_call_stubborn, _report]), tools=[stubborn])
slow_sibling = create_agent(ScriptedModel(script=[_call_two, report]), tools=[slow, look_up])
slow_per_call = create_agent(
    ScriptedModel(script=[_call_both, report]),
    tools=[slow, mail],
    middleware=[gate("slow", "mail", mode="per_call")],
)
slow_twice = create_agent(ScriptedModel(script=[_call_slowly, _report]), tools=[slow])
