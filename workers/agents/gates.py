"""The gates of a graph: middleware that asks people about tool calls."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langgraph.prebuilt import ToolNode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from .factories import Graph


def gated_tools(graph: Graph) -> dict[str, list[str]]:
    """The tools that middleware asks people about: name to mode, then the decision types it takes.

    One that is not LangChain's tells of its gates in the same form, as an attribute `placet_gates`.
    """
    found: dict[str, list[str]] = {}
    for middleware in middleware_of(graph):
        if isinstance(middleware, HumanInTheLoopMiddleware):
            for tool, config in middleware.interrupt_on.items():
                found[tool] = [middleware.interrupt_mode, *sorted(config["allowed_decisions"])]
        gates: Mapping[str, Iterable[str]] = getattr(middleware, "placet_gates", None) or {}
        found |= {tool: list(told) for tool, told in gates.items()}
    return found


def tool_nodes(graph: Graph) -> Iterator[tuple[str, dict[str, Any]]]:
    """The nodes that execute tools, and their tools by name."""
    for name, node in graph.nodes.items():
        if isinstance(node.bound, ToolNode):
            yield name, node.bound.tools_by_name


def middleware_of(graph: Graph) -> list[Any]:
    """The middleware of a graph that has hooks which are nodes, in its list's order, then what wraps calls.

    What wraps only model calls of a graph is not found.
    """
    found: dict[int, Any] = {}
    for node in graph.nodes.values():
        hook = getattr(node.bound, "func", None) or getattr(node.bound, "afunc", None)
        if (middleware := getattr(hook, "__self__", None)) is not None:
            found[id(middleware)] = middleware
    for node in graph.nodes.values():
        if isinstance(node.bound, ToolNode):
            for wrap in (node.bound._wrap_tool_call, node.bound._awrap_tool_call):  # noqa: SLF001 - no other way
                found |= {id(middleware): middleware for middleware in _within(wrap)}
    return list(found.values())


def _within(wrap: Any) -> Iterator[Any]:
    """The middleware whose methods `create_agent` has made one function of."""
    functions = [wrap]
    while functions:
        function = inspect.unwrap(functions.pop())
        if isinstance(middleware := getattr(function, "__self__", None), AgentMiddleware):
            yield middleware
            continue
        cells = getattr(function, "__closure__", None) or ()
        functions += [cell.cell_contents for cell in reversed(cells) if callable(cell.cell_contents)]
