"""What a paused run needs to find again in a graph: its nodes, gates, tools and state, as plain JSON."""

from __future__ import annotations

import dataclasses
import re
import sys
from enum import Enum
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from langchain_core.runnables import RunnableLambda
from langgraph.pregel import Pregel
from pydantic import BaseModel

from ..digest import digest_of
from ..json_values import canonical
from ..state.fingerprints import Fingerprint
from .allowed_types import allowed_types
from .gates import gated_tools, tool_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .factories import Graph

_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")
_LIBRARIES = ("langgraph", "langchain", "langchain-core")


_known: WeakKeyDictionary[Graph, Fingerprint] = WeakKeyDictionary()


def fingerprint(graph: Graph) -> Fingerprint:
    """Take a graph's fingerprint, once for each compiled graph; equal graphs have equal ones everywhere."""
    found = _known.get(graph)
    if found is None:
        content = {"level": _level(graph, ()), "types": _types(graph)}
        found = _known[graph] = Fingerprint(
            digest=digest_of(content)[:16],
            content=content,
            text=canonical(content).decode(),
            versions=_versions(),
        )
    return found


@cache
def _versions() -> str:
    return canonical({name: version(name) for name in _LIBRARIES}).decode()


def levels(graph: Graph) -> list[Graph]:
    """A graph and all graphs inside it."""
    found = [graph]
    for one in found:
        found += [inner for inner in subgraphs(one).values() if inner not in found]
    return found


def subgraphs(graph: Graph) -> dict[str, Graph]:
    """The graphs that run inside a graph's nodes, by `node`, or `node/tool` for those that a tool calls.

    Of tools those are found that their functions refer to by name; a graph that a tool makes while it
    runs cannot be seen.
    """
    found: dict[str, Graph] = {
        name: inner for name, inner in graph.get_subgraphs() if isinstance(inner, Pregel)
    }
    for node, tools in tool_nodes(graph):
        for name, tool in tools.items():
            inside = [one for one in _referred(tool) if isinstance(one, Pregel)]
            for number, one in enumerate(dict.fromkeys(inside)):
                found[f"{node}/{name}" + (f"#{number}" if number else "")] = one
    return found


def _level(graph: Graph, above: tuple[Graph, ...]) -> dict[str, Any]:
    """One graph, and under `graphs` those inside it but for itself."""
    inside = {key: one for key, one in subgraphs(graph).items() if one not in (*above, graph)}
    return {
        "nodes": {
            name: sorted(set(node.triggers) - {f"branch:to:{name}"}) for name, node in graph.nodes.items()
        },
        "middleware": sorted(
            {name.rpartition(".")[0] for name in graph.nodes if name.endswith(_MIDDLEWARE_NODES)}
        ),
        "gates": gated_tools(graph),
        "tools": sorted({name for _, tools in tool_nodes(graph) for name in tools}),
        "keys": {
            name: f"{type(channel).__name__}:{_type_digest(channel)}"
            for name, channel in graph.channels.items()
            if not name.startswith(("__", "branch:to:"))
        },
        "before": _listed(graph.interrupt_before_nodes),
        "after": _listed(graph.interrupt_after_nodes),
        "graphs": {key: _level(one, (*above, graph)) for key, one in sorted(inside.items())},
    }


_MIDDLEWARE_NODES = (".before_agent", ".before_model", ".after_model", ".after_agent")


def _referred(tool: Any) -> list[Any]:
    """The objects that a tool's function refers to from outside itself, those in lists and dicts too."""
    function = getattr(tool, "coroutine", None) or getattr(tool, "func", None)
    if function is None:
        return []
    found: list[Any] = list(RunnableLambda(function).deps)
    for cell in getattr(function, "__closure__", None) or ():
        try:
            value = cell.cell_contents
        except ValueError:  # an empty cell: the name is not bound yet
            continue
        if isinstance(value, dict | list | tuple):
            found += value.values() if isinstance(value, dict) else value
    return found


def _types(graph: Graph) -> str:
    """Digest the fields of the classes that the state may hold, but for LangChain's own."""
    told = {}
    for module, name in sorted(allowed_types(graph)):
        if not module.startswith(("langchain_core.", "langgraph.")):
            told[f"{module}:{name}"] = _fields(getattr(sys.modules.get(module), name, None))
    return digest_of(told)[:8] if told else ""


def _fields(cls: Any) -> list[list[str]]:
    if isinstance(cls, type) and issubclass(cls, BaseModel):
        return [[name, _plain(field.annotation)] for name, field in sorted(cls.model_fields.items())]
    if isinstance(cls, type) and issubclass(cls, Enum):
        return [[member.name, repr(member.value)] for member in cls]
    if dataclasses.is_dataclass(cls):
        return [[field.name, _plain(field.type)] for field in dataclasses.fields(cls)]
    return [[name, ""] for name in getattr(cls, "_fields", ())]


def _type_digest(channel: Any) -> str:
    try:
        kind = channel.ValueType
    except (AttributeError, NotImplementedError):  # a channel that carries no value of its own
        return ""
    return digest_of(_plain(kind))[:8]


def _plain(kind: Any) -> str:
    """A type as text, alike in every process."""
    return _ADDRESS.sub("", repr(kind))


def _listed(nodes: Any) -> list[str]:
    return [nodes] if isinstance(nodes, str) else sorted(cast("Iterable[str]", nodes))
