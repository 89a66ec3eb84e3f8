"""A time limit for each call of a tool."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage

from .named_tools import named, tool_names

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from langchain.agents.middleware.types import ToolCallRequest
    from langchain_core.tools import BaseTool
    from langgraph.types import Command

    from .named_tools import NamedTool


class ToolTimeoutMiddleware(AgentMiddleware[Any, Any, Any]):
    """Gives the model an error in place of the result of a call that takes too long, and goes on.

    The call is cancelled. Whether it took effect is not known, and a sync tool runs on in its thread to its
    end: the message says so, and an approval of the call has the outcome `unknown`. A tool's own
    `TimeoutError` is the tool's error. For agents that are run asynchronously, as Placet does.

    Args:
        timeout_seconds: What one call may take.
        tools: Tools, or their names, that it is for; all if None.
    """

    def __init__(self, *, timeout_seconds: float, tools: Sequence[str | BaseTool] | None = None) -> None:
        super().__init__()
        if not timeout_seconds > 0:
            raise ValueError("timeout_seconds: must be over 0")
        self.tools = []
        self._seconds = timeout_seconds
        self._names = tool_names(tools)

    @property
    def named_tools(self) -> list[NamedTool]:
        """The tools that it is for, if not for all."""
        return named("tools", self._names)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """Call the tool, for so long."""
        call = request.tool_call
        if self._names is not None and call["name"] not in self._names:
            return await handler(request)
        try:
            async with asyncio.timeout(self._seconds) as clock:
                return await handler(request)
        except TimeoutError:
            if not clock.expired():
                raise
        return ToolMessage(
            content=f"The call of `{call['name']}` did not end within {self._seconds:g} s and was cancelled;"
            " it may have taken effect.",
            name=call["name"],
            tool_call_id=call["id"],
            status="error",
            additional_kwargs={"placet_outcome": "unknown"},
        )
