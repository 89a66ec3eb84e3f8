"""Whether an agent has the tools that its middleware is for: to a misspelt one nothing would apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import ToolErrorMiddleware

from placet.middleware.named_tools import DynamicTool, NamesTools, named

from ..errors import InvalidAgent
from ..spelling import meant
from .fingerprint import levels
from .gates import middleware_of, tool_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from placet.middleware.named_tools import NamedTool

    from .factories import Graph


def check_named_tools(graph: Graph) -> None:
    """Make sure that each tool that middleware of ours names is there.

    Raises:
        InvalidAgent: naming the tool, and those that are.
    """
    own = _tools([graph])
    everywhere = _tools(levels(graph))
    for middleware in middleware_of(graph):
        for one in _named(middleware):
            known = everywhere if one.inside else own
            if one.name not in known and not isinstance(one.name, DynamicTool):
                hint = meant(one.name, known) or ";"
                raise InvalidAgent(
                    f"{middleware.name}: {one.where}: the agent has no such tool as {one.name!r}{hint} it has"
                    f" {', '.join(known) or 'none'} (one that is registered while it runs is named"
                    f" DynamicTool({one.name!r}))"
                )


def _named(middleware: Any) -> Iterable[NamedTool]:
    if isinstance(middleware, ToolErrorMiddleware):  # LangChain's, which placet.middleware has as it is
        return named("tools", middleware._tool_filter)  # noqa: SLF001 - it has no other name
    return middleware.named_tools if isinstance(middleware, NamesTools) else ()


def _tools(graphs: list[Graph]) -> list[str]:
    return sorted({name for graph in graphs for _, tools in tool_nodes(graph) for name in tools})
