"""Agents with middleware of an author's own, in both of its forms."""

# ruff: noqa: ARG002 - LangGraph knows a hook's parameters by their names
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acceptance_effects import logged
from langchain.agents import create_agent
from tool_agents import gate, pay

from placet.middleware import AgentMiddleware, after_agent, before_agent, before_model
from placet.middleware.testing import Call, ScriptedModel, Step

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain_core.messages import ToolMessage
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command

_paying = Step("paying", calls=[Call("pay", {"to": "ann", "amount": 10})])


def _noted(hook: str) -> None:
    with logged("hook", hook=hook):
        pass


class Noting(AgentMiddleware[Any, Any, Any]):
    """Notes each of its hooks."""

    async def abefore_agent(self, state: Any, runtime: Any) -> None:
        _noted("before_agent")

    async def abefore_model(self, state: Any, runtime: Any) -> None:
        _noted("before_model")

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        _noted("wrap_model_call")
        return await handler(request)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> ToolMessage | Command[Any]:
        _noted("wrap_tool_call")
        answer: ToolMessage | Command[Any] = await handler(request)
        return answer

    async def aafter_model(self, state: Any, runtime: Any) -> None:
        _noted("after_model")

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        _noted("after_agent")


@before_agent
def early(state: Any, runtime: Any) -> None:
    """Note it, from a thread."""
    _noted("sync before_agent")


@after_agent
def late(state: Any, runtime: Any) -> None:
    """Note it, from a thread."""
    _noted("sync after_agent")


custom = create_agent(
    ScriptedModel(script=[_paying, "done"]), tools=[pay], middleware=[Noting(), early, late, gate("pay")]
)


@before_model
def fail(state: Any, runtime: Any) -> None:
    """Fail when the tool has run."""
    if len(state["messages"]) > 1:
        raise RuntimeError("no more")


custom_failing = create_agent(
    ScriptedModel(script=[_paying, "done"]), tools=[pay], middleware=[Noting(), fail, gate("pay")]
)
