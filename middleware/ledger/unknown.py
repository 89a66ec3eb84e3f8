"""What becomes of a tool call that was started and has no result: looked up, run again, ended or asked."""

from __future__ import annotations

import asyncio
import inspect
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog
from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from placet import errors
from placet.digest import own_pause_id
from placet.json_values import shown

from ..pause import pause
from ..shared import UNKNOWN_CALL
from .declared import NOT_DONE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from langchain_core.runnables import RunnableConfig

    from ..shared import CallOutcome, RunContext
    from .declared import Declaration, UnknownCall

log = structlog.get_logger("placet")


class OutcomeUnknown(errors.OutcomeUnknown, GraphBubbleUp):
    """Raised when a tool's `on_unknown` is `fail`; no middleware takes it for a tool's failure."""


class Settled(NamedTuple):
    """What a call without a result is taken to have come to."""

    result: Any
    """What the tool would have returned; None: it is run again."""
    outcome: CallOutcome


AGAIN = Settled(None, "unknown")


class Unknown(NamedTuple):
    """A call without a result, and what tells it from every other: a second death is a new question."""

    call: UnknownCall
    """Its arguments as they may be shown."""
    raw: UnknownCall
    """The same call with those that the tool got."""
    key: str
    attempt: int
    start: int
    note: str
    started_ms: int
    """When it was started, milliseconds since 1970; 0 if it came to its end."""
    policy: Any = None
    """Of the gate that let it run: who may decide what becomes of it too."""

    def question(self, run_id: str, *, told: str) -> dict[str, Any]:
        """The pause that asks a person; whoever answers is a reviewer of ours, not LangGraph."""
        what = f"attempt {self.attempt} at {self.call.tool}" if self.attempt > 1 else self.call.tool
        when = datetime.fromtimestamp(self.started_ms / 1000, UTC)
        at = f" at {when:%Y-%m-%d %H:%M:%S} UTC" if self.started_ms else ""
        died = f"was started{at} and may have taken effect: its worker stopped before a result was kept"
        known = f"{what} {self.note or died}"
        return {
            "type": UNKNOWN_CALL,
            "run_id": run_id,
            "call": [self.key, self.attempt, self.start],
            "tool": self.call.tool,
            "args": shown(self.call.args),
            "tool_call_id": self.call.tool_call_id,
            "description": f"{known.rstrip('.')}. Its idempotency key is {self.call.idempotency_key}. Approve"
            " runs it again, respond takes your message as what it returned, reject gives it up.",
            "told": told,
            **({} if self.policy is None else {"policy": self.policy}),
        }


async def settle(
    unknown: Unknown, declaration: Declaration, run: RunContext, config: RunnableConfig
) -> Settled:
    """Look up, then do as the tool's declaration says; `config` is that of the call's task.

    Raises:
        GraphInterrupt: when a person is asked and has not answered.
        OutcomeUnknown: when it is not to be run again.
    """
    call, told = unknown.call, ""
    log.info("call.unknown", tool=call.tool, attempt=unknown.attempt, on_unknown=declaration.on_unknown)
    if declaration.verify is not None:
        try:
            found = await _verified(declaration.verify, unknown.raw)
        except Exception as error:
            log.exception("call.not_verified", tool=call.tool)
            found, told = None, f"Its verify function failed with {type(error).__name__}."
        if found is NOT_DONE:
            return AGAIN
        if found is not None:
            return Settled(_as_result(call, found), "succeeded")
    if declaration.on_unknown == "rerun":
        return AGAIN
    if declaration.on_unknown == "fail":
        raise OutcomeUnknown(call.tool, call.tool_call_id)
    question = unknown.question(run.run_id, told=told)
    decision = run.answers.get(own_pause_id(question))
    if decision is None:
        pause(question, config)
    return _decided(call, decision)


def _decided(call: UnknownCall, decision: Mapping[str, Any]) -> Settled:
    if decision["type"] == "approve":
        return AGAIN
    if decision["type"] == "respond":
        return Settled(_as_result(call, decision["message"]), "succeeded")
    why = f": {decision['message']}" if decision.get("message") else "."
    text = f"It is not known whether this call of {call.tool} took effect. A reviewer gave it up{why}"
    message = ToolMessage(text, name=call.tool, tool_call_id=call.tool_call_id, status="error")
    return Settled(message, "unknown")


async def _verified(verify: Callable[[UnknownCall], Any], call: UnknownCall) -> Any:
    """Call the tool's `verify`; None if it cannot tell."""
    if inspect.iscoroutinefunction(verify):
        return await verify(call)
    found = await asyncio.to_thread(verify, call)
    return await found if inspect.isawaitable(found) else found


def _as_result(call: UnknownCall, value: Any) -> Any:
    if isinstance(value, ToolMessage | Command):
        return value
    content = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return ToolMessage(content, name=call.tool, tool_call_id=call.tool_call_id)
