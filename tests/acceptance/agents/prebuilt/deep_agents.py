"""Agents with deepagents' subagents and files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acceptance_effects import barrier, logged
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from tool_agents import gate, pay, report

from placet.middleware import AgentMiddleware, ToolCallLimitMiddleware
from placet.middleware.deepagents import (
    CompositeBackend,
    FilesystemMiddleware,
    StateBackend,
    StoreBackend,
    SubAgentMiddleware,
)
from placet.middleware.testing import Call, ScriptedModel, Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import BaseMessage

    Middleware = list[AgentMiddleware[Any, Any, Any]]


_pay = Call("pay", {"to": "ann", "amount": 10})


def _task(description: str, kind: str = "general-purpose") -> Call:
    return Call("task", {"description": description, "subagent_type": kind})


def _pay_whom(messages: Sequence[BaseMessage]) -> Step:
    return Step(calls=[Call("pay", {"to": messages[-1].text, "amount": 10})])


_clerk = ScriptedModel(script=[_pay_whom, report])
_clerks: Middleware = [
    SubAgentMiddleware(default_model=_clerk, default_tools=[pay], default_middleware=[gate("pay")])
]
clerks = create_agent(
    ScriptedModel(script=[Step(calls=[_task("ann"), _task("bob")]), report]), middleware=_clerks
)
_limited: Middleware = [
    ToolCallLimitMiddleware(tool_name="pay", run_limit=1),
    SubAgentMiddleware(default_model=_clerk, default_tools=[pay]),
]
limited_clerks = create_agent(
    ScriptedModel(script=[Step(calls=[_task("ann")]), Step(calls=[_task("bob")]), report]),
    middleware=_limited,
)


@tool
async def send(to: str) -> str:
    """Send something, and wait until it has gone."""
    with logged("send", to=to):
        pass
    await barrier("send")
    return f"sent to {to}"


_sender = ScriptedModel(script=[Step(calls=[_pay]), Step(calls=[Call("send", {"to": "ann"})]), report])
_senders: Middleware = [
    SubAgentMiddleware(
        subagents=[{"name": "sender", "description": "sends", "tools": [pay, send]}], default_model=_sender
    )
]
senders = create_agent(
    ScriptedModel(script=[Step(calls=[_task("send it", "sender")]), report]), middleware=_senders
)

_files: Middleware = [
    FilesystemMiddleware(backend=CompositeBackend(StateBackend(), {"/memories/": StoreBackend()})),
    gate("pay"),
]


def _noting(messages: Sequence[BaseMessage]) -> Step:
    text = messages[-1].text
    paths = ("/memories/note.txt", "/draft.txt")
    if text == "read":
        return Step(calls=[Call("read_file", {"file_path": path}) for path in paths])
    return Step(calls=[Call("write_file", {"file_path": path, "content": text}) for path in paths])


def _all(messages: Sequence[BaseMessage]) -> str:
    return " | ".join(message.text for message in messages if isinstance(message, ToolMessage))


notes = create_agent(
    ScriptedModel(script=[_noting, Step(calls=[_pay]), _all]), tools=[pay], middleware=_files
)
