"""Which types of its own a graph may keep in checkpoints, read from its schemas.

LangGraph collects them too, but loses them when a graph is copied, as `create_agent` does.
"""

from __future__ import annotations

import dataclasses
from enum import Enum
from functools import lru_cache
from inspect import signature
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from langchain.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from pydantic import BaseModel
from typing_extensions import is_typeddict

if TYPE_CHECKING:
    from collections.abc import Iterator


def allowed_types(graph: Pregel[Any, Any, Any, Any]) -> set[tuple[str, str]]:
    """Collect `(module, name)` of the types in the schemas of a graph and its subgraphs.

    Taken are pydantic models, dataclasses, enums and named tuples, and those that their fields name:
    from the state, the nodes' inputs, the context and the `response_format` of `create_agent`.
    """
    found: dict[Any, None] = {}
    for schema in _schemas(graph):
        _collect(schema, found)
    return {(t.__module__, t.__name__) for t in found if isinstance(t, type) and _is_own(t)}


def _schemas(graph: Pregel[Any, Any, Any, Any]) -> Iterator[Any]:
    yield graph.context_schema
    for channel in graph.channels.values():
        yield getattr(channel, "ValueType", None)
        yield getattr(channel, "UpdateType", None)
    if isinstance(graph, CompiledStateGraph):
        yield from (node.input_schema for node in graph.builder.nodes.values())
    for node in graph.nodes.values():
        function = getattr(node.bound, "func", None) or getattr(node.bound, "afunc", None)
        if isinstance(graph, CompiledStateGraph):
            yield from _response_formats(function)
        elif function is not None:  # of @entrypoint, whose channels know no annotation that is a string
            hints = _hints(function)
            yield from (hints.get(name) for name in (next(iter(signature(function).parameters)), "return"))
    for _, subgraph in graph.get_subgraphs():
        if isinstance(subgraph, Pregel):
            yield from _schemas(subgraph)


def _response_formats(function: object) -> Iterator[Any]:
    """Find what `create_agent(response_format=…)` was given: only its model node still knows it."""
    for cell in getattr(function, "__closure__", None) or ():
        try:
            value = cell.cell_contents
        except ValueError:  # an empty cell: the name is not bound yet
            continue
        if isinstance(value, ToolStrategy):
            yield from (spec.schema for spec in value.schema_specs)
        elif isinstance(value, AutoStrategy | ProviderStrategy):
            yield value.schema


def _collect(schema: Any, found: dict[Any, None]) -> None:
    """Walk a type and the types its arguments and fields name; `found` is what was walked."""
    try:
        if schema in found:
            return
        found[schema] = None
    except TypeError:  # an unhashable argument of Annotated or Literal
        pass
    for argument in get_args(schema):
        _collect(argument, found)
    if (
        isinstance(schema, type)
        and (is_typeddict(schema) or _is_own(schema))
        and not issubclass(schema, Enum)
    ):
        for field in _hints(schema).values():  # type: ignore[arg-type] # a class can be hashed
            _collect(field, found)
    if supertype := getattr(schema, "__supertype__", None):
        _collect(supertype, found)


@lru_cache(maxsize=2048)  # a factory's graph is looked at for each segment
def _hints(value: Any) -> dict[str, Any]:
    try:
        return get_type_hints(value)
    except (NameError, TypeError):  # names that exist for type checkers only
        return {}


def _is_own(schema: type) -> bool:
    return (
        issubclass(schema, BaseModel | Enum)
        or dataclasses.is_dataclass(schema)
        or (issubclass(schema, tuple) and hasattr(schema, "_fields"))
    )
