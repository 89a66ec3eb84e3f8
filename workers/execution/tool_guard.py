"""Puts every tool call of this process through its gates and the ledger while a run is under way.

Agents are compiled by their authors, built by factories and invoked inside tools: which ToolNodes a run will
come to cannot be listed beforehand, so the class is changed where it executes a tool, inside all middleware,
and where it takes a call on, outside of it. Without a run it does as before. Ledger, limits and
results go by a call's id: what an agent keeps of a model's answer has one for each call.
"""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain.agents import factory
from langchain_core.messages import AIMessage
from langgraph.prebuilt import ToolNode

from placet.middleware.calling import with_distinct_ids
from placet.middleware.gate.questions import asked_first
from placet.middleware.ledger.ledger import acall, call
from placet.middleware.pii.masked_calls import aexecute
from placet.middleware.pii.masked_calls import execute as execute_masked
from placet.middleware.shared import current_run

from ..errors import InvalidSettings

if TYPE_CHECKING:
    from placet.middleware.shared import RunContext

_PARAMETERS = {
    "_execute_tool_async": ("self", "request", "input_type", "config"),
    "_execute_tool_sync": ("self", "request", "input_type", "config"),
    "_arun_one": ("self", "call", "input_type", "tool_runtime"),
    "_run_one": ("self", "call", "input_type", "tool_runtime"),
}
_KEEPS = "_build_commands"
"""LangChain's function that makes of a model's answer what an agent's model node writes."""
_plain: dict[str, Any] = {}


def guard_tools() -> None:
    """Guard them from now on; a second time changes nothing.

    Raises:
        InvalidSettings: when LangGraph's ToolNode is not the one that this was written for.
    """
    if _plain:
        return
    for name, parameters in _PARAMETERS.items():
        method = getattr(ToolNode, name, None)
        if method is None or tuple(inspect.signature(method).parameters) != parameters:
            raise InvalidSettings(f"langgraph: ToolNode.{name} is not that of 1.2: tools cannot be guarded")
    _plain.update({name: getattr(ToolNode, name) for name in _PARAMETERS})
    guards = (_execute_async, _execute_sync, _run_async, _run_sync)
    for name, guarded in zip(_PARAMETERS, guards, strict=True):
        setattr(ToolNode, name, guarded)
    # another LangChain may have it elsewhere: then gates and PII rules alone tell calls apart
    if keeps := getattr(factory, _KEEPS, None):
        _plain[_KEEPS] = keeps
        setattr(factory, _KEEPS, _keep)


def _keep(model_response: Any, *args: Any, **kwargs: Any) -> Any:
    given = getattr(model_response, "result", None)
    if given and _guarded_run() is not None:
        made = [with_distinct_ids(one) if isinstance(one, AIMessage) else one for one in given]
        model_response = replace(model_response, result=made)
    return _plain[_KEEPS](model_response, *args, **kwargs)


def _guarded_run() -> RunContext | None:
    run = current_run()
    return run if run is not None and run.guarded else None


async def _execute_async(self: Any, request: Any, input_type: Any, config: Any) -> Any:
    async def execute(request: Any) -> Any:
        return await _plain["_execute_tool_async"](self, request, input_type, config)

    async def masked(request: Any) -> Any:
        return await aexecute(request, execute, messages_key=self._messages_key)

    if (run := _guarded_run()) is None:
        return await execute(request)
    return await acall(run, request, masked, messages_key=self._messages_key)


def _execute_sync(self: Any, request: Any, input_type: Any, config: Any) -> Any:
    def execute(request: Any) -> Any:
        return _plain["_execute_tool_sync"](self, request, input_type, config)

    def masked(request: Any) -> Any:
        return execute_masked(request, execute, messages_key=self._messages_key)

    if (run := _guarded_run()) is None:
        return execute(request)
    return call(run, request, masked, messages_key=self._messages_key)


async def _run_async(self: Any, call: Any, input_type: Any, tool_runtime: Any) -> Any:
    if _guarded_run() is None:
        return await _plain["_arun_one"](self, call, input_type, tool_runtime)
    if self._awrap_tool_call is None and self._wrap_tool_call is not None:
        # LangGraph would call a sync wrapper on the event loop, where it cannot wait for the ledger
        return await asyncio.to_thread(self._run_one, call, input_type, tool_runtime)
    with asked_first(call, tool_runtime, self.tools_by_name):
        return await _plain["_arun_one"](self, call, input_type, tool_runtime)


def _run_sync(self: Any, call: Any, input_type: Any, tool_runtime: Any) -> Any:
    if _guarded_run() is None:
        return _plain["_run_one"](self, call, input_type, tool_runtime)
    with asked_first(call, tool_runtime, self.tools_by_name):
        return _plain["_run_one"](self, call, input_type, tool_runtime)
