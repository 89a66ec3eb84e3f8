"""LangChain's emulator of tools, which without a model of its own asks the agent's."""

from __future__ import annotations

import copy
import inspect
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import tool_emulator as stock
from langchain_core.language_models import BaseChatModel, FakeListChatModel

from .named_tools import named, tool_names

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain.agents.middleware import ToolCallRequest
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import BaseTool
    from langgraph.types import Command

    from .named_tools import NamedTool

_UNUSED = FakeListChatModel(responses=[])


class LLMToolEmulator(stock.LLMToolEmulator[Any]):
    """LangChain's; `model=None` is the model that the agent was made with, not one of Anthropic's.

    For trying an agent out: an emulated tool does nothing, and what the model reads is invented.
    """

    def __init__(
        self,
        *,
        tools: list[str | BaseTool] | None = None,
        model: str | BaseChatModel | None = None,
    ) -> None:
        names: Any = tool_names(tools)
        super().__init__(tools=names, model=_UNUSED if model is None else model)
        self._agents = model is None

    @property
    def named_tools(self) -> list[NamedTool]:
        """The tools that it is for, if not for all."""
        return named("tools", sorted(self.tools_to_emulate))

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Invent the tool's answer."""
        return super(LLMToolEmulator, self._with_model(request)).wrap_tool_call(request, handler)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """As `wrap_tool_call`."""
        return await super(LLMToolEmulator, self._with_model(request)).awrap_tool_call(request, handler)

    def _with_model(self, request: ToolCallRequest) -> LLMToolEmulator:
        if not self._agents or not (self.emulate_all or request.tool_call["name"] in self.tools_to_emulate):
            return self
        made = copy.copy(self)
        made.model = _agents_model(request)
        return made


def _agents_model(request: ToolCallRequest) -> BaseChatModel:
    """Find what `create_agent` was given, in the graph that executes the call.

    LangChain tells middleware the model in model calls alone, and a run that goes on in another process may
    begin with a tool.
    """
    call = request.runtime.config.get("configurable", {}).get("__pregel_call")
    loop = getattr(getattr(call, "keywords", {}).get("schedule_task"), "__self__", None)
    node = getattr(loop, "nodes", {}).get("model")
    function = getattr(getattr(node, "bound", None), "func", None)
    found = inspect.getclosurevars(function).nonlocals.get("model") if function else None
    if not isinstance(found, BaseChatModel):
        raise ValueError("LLMToolEmulator: model: the agent's was not found; give one")  # noqa: TRY004
    return found
