"""What an author's functions say of a call: whether a person is asked, and how it is described."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import structlog
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolCallRequest, ToolRuntime

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.messages import ToolCall
    from langchain_core.tools import BaseTool
    from langgraph.runtime import Runtime

log = structlog.get_logger("placet")


async def wants_review(
    config: Any, call: ToolCall, tools: Mapping[str, BaseTool], state: Any, runtime: Runtime[Any]
) -> bool:
    """Whether `when` wants a person to be asked; if it cannot tell, one is."""
    if (when := config.get("when")) is None:
        return True
    try:
        verdict = when(_request(call, tools, state, runtime))
        return bool(await verdict if inspect.isawaitable(verdict) else verdict)
    except GraphBubbleUp:
        raise
    except Exception as error:  # noqa: BLE001 - the author's; a gate that fails stays shut
        log.warning("gate.undecided", tool=call["name"], error=type(error).__name__)
        return True


async def described(config: Any, call: ToolCall, state: Any, runtime: Runtime[Any], *, prefix: str) -> str:
    """How the call is described; LangChain's default if the author's function fails."""
    text = config.get("description")
    if callable(text):
        try:
            text = text(call, state, runtime)
            text = await text if inspect.isawaitable(text) else text
        except GraphBubbleUp:
            raise
        except Exception as error:  # noqa: BLE001 - the author's; a person is asked all the same
            log.warning("call.not_described", tool=call["name"], error=type(error).__name__)
            text = None
    return f"{prefix}\n\nTool: {call['name']}\nArgs: {call['args']}" if text is None else str(text)


def _request(
    call: ToolCall, tools: Mapping[str, BaseTool], state: Any, runtime: Runtime[Any]
) -> ToolCallRequest:
    """What `when` is shown of a call, as if it were about to be executed."""
    about = ToolRuntime(
        state=state,
        context=runtime.context,
        config=get_config(),
        stream_writer=runtime.stream_writer,
        tool_call_id=call["id"],
        store=runtime.store,
        tools=list(tools.values()),
        execution_info=runtime.execution_info,
        server_info=runtime.server_info,
    )
    return ToolCallRequest(tool_call=call, tool=tools.get(call["name"]), state=state, runtime=about)
