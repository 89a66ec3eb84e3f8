"""The gates of a graph: middleware that asks people about tool calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import HumanInTheLoopMiddleware
from langgraph.prebuilt import ToolNode

from placet.middleware.gate.approval import HumanInTheLoopMiddleware as OurGate

from .errors import InvalidAgent

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


def check_gates(graph: Graph) -> None:
    """Make sure that each tool that a gate of ours names is there to be asked about.

    Raises:
        InvalidAgent: naming the tool.
    """
    known = sorted({name for _, tools in tool_nodes(graph) for name in tools})
    for middleware in middleware_of(graph):
        gates: Mapping[str, Any] = middleware.interrupt_on if isinstance(middleware, OurGate) else {}
        for tool, config in gates.items():
            if tool not in known and not config.get("dynamic"):
                raise InvalidAgent(
                    f"interrupt_on[{tool!r}]: the agent has no such tool; it has {', '.join(known) or 'none'}"
                    " (one that is registered while it runs is marked 'dynamic': True)"
                )


def middleware_of(graph: Graph) -> list[Any]:
    """The middleware of a graph that has hooks which are nodes, in the order in which it is listed."""
    found: dict[int, Any] = {}
    for node in graph.nodes.values():
        hook = getattr(node.bound, "func", None) or getattr(node.bound, "afunc", None)
        if (middleware := getattr(hook, "__self__", None)) is not None:
            found[id(middleware)] = middleware
    return list(found.values())
