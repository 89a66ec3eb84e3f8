"""The agents under fault: they make the calls that a run's input lists, and tell the witness of each."""

from __future__ import annotations

import asyncio
import json
import os
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain.tools import ToolRuntime  # noqa: TC002 - tools' annotations are read at run time
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.types import interrupt

from chaos.plan import GATED, MOST_STEPS
from chaos.witness import Effect, Witness
from placet.middleware import HumanInTheLoopMiddleware, idempotent, side_effect
from placet.middleware.testing import Call, ScriptedModel, Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from placet.middleware import UnknownCall

WITNESS = Witness(Path(os.environ.get("CHAOS_WITNESS", "witness.sqlite")))


async def act(runtime: ToolRuntime, name: str, seconds: float, *, fails: bool = False, **args: Any) -> str:
    """Tell the witness of a start, take some time, tell it of the end; `fails` raises the first time."""
    key = args["key"]

    def row(what: str, result: str = "") -> Effect:
        return Effect(
            at=time.time(),
            what=what,
            run=runtime.config["metadata"]["run_id"],
            call=runtime.tool_call_id or "",
            tool=name,
            key=key,
            args=args,
            pid=os.getpid(),
            token=runtime.config["configurable"]["__placet_token"],
            result=result,
        )

    # in a thread: the loop must not wait for a process that was stopped in the middle of its row
    await asyncio.to_thread(WITNESS.effect, row("start"))
    await asyncio.sleep(seconds)
    if fails and not any(one.what == "error" for one in await asyncio.to_thread(WITNESS.effects, key)):
        await asyncio.to_thread(WITNESS.effect, row("error"))
        raise ConnectionError(f"{key} fails the first time")
    result = f"{name} {key} {uuid4().hex[:8]}"
    await asyncio.to_thread(WITNESS.effect, row("end", result))
    return result


@tool
async def pay(key: str, amount: int, seconds: float, runtime: ToolRuntime) -> str:
    """Pay; a person is asked."""
    return await act(runtime, "pay", seconds, key=key, amount=amount)


@tool
async def mail(key: str, amount: int, seconds: float, runtime: ToolRuntime) -> str:
    """Write to someone; a person is asked."""
    return await act(runtime, "mail", seconds, key=key, amount=amount)


@tool
async def flaky(key: str, amount: int, seconds: float, runtime: ToolRuntime) -> str:
    """Fail once, then work; a person is asked."""
    return await act(runtime, "flaky", seconds, fails=True, key=key, amount=amount)


@tool
async def look_up(key: str, amount: int, seconds: float, runtime: ToolRuntime) -> str:
    """Find something; nobody is asked."""
    return await act(runtime, "look_up", seconds, key=key, amount=amount)


@tool
@side_effect(on_unknown="fail")
async def wire(key: str, amount: int, seconds: float, runtime: ToolRuntime) -> str:
    """Wire money, never on suspicion a second time; a person is asked."""
    return await act(runtime, "wire", seconds, key=key, amount=amount)


def _charged(call: UnknownCall) -> str | None:
    """Look a charge up; a start alone says nothing."""
    return next((one.result for one in WITNESS.effects(call.args["key"]) if one.what == "end"), None)


@tool
@side_effect(verify=_charged)
async def charge(key: str, amount: int, seconds: float, runtime: ToolRuntime) -> str:
    """Charge someone; nobody is asked, and whether it was done can be looked up."""
    return await act(runtime, "charge", seconds, key=key, amount=amount)


@tool
@idempotent
async def count(key: str, amount: int, seconds: float, runtime: ToolRuntime) -> str:
    """Count; a second time changes nothing."""
    return await act(runtime, "count", seconds, key=key, amount=amount)


@tool
async def ask(key: str, amount: int, seconds: float, runtime: ToolRuntime) -> str:
    """Ask a person a question, then act on the answer."""
    answer = interrupt({"key": key, "ask": "Which one?"})
    return await act(runtime, "ask", seconds, key=key, amount=amount, answer=answer)


def _calls(step: int, messages: Sequence[BaseMessage]) -> Step:
    """Make the calls of the run's `step`, or end when there are no more."""
    last = next(message for message in reversed(messages) if isinstance(message, HumanMessage))
    steps = json.loads(last.text)
    if step >= len(steps):
        return Step("done")
    return Step("working", calls=[Call(one["tool"], one["args"], one["id"]) for one in steps[step]])


def _agent(mode: Literal["batched", "per_call"]) -> Any:
    return create_agent(
        ScriptedModel(script=[partial(_calls, step) for step in range(MOST_STEPS + 1)]),
        tools=[pay, mail, flaky, wire, look_up, charge, count, ask],
        middleware=[
            HumanInTheLoopMiddleware(interrupt_on=dict.fromkeys(GATED, True), interrupt_mode=mode),
            ToolRetryMiddleware(tools=["flaky"], max_retries=2, initial_delay=0.0, on_failure="error"),
        ],
    )


batched, per_call = _agent("batched"), _agent("per_call")
