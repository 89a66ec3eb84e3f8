"""The types of an agent's structured answers, which its graph's schemas do not name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
from langgraph._internal._serde import collect_allowlist_from_schemas

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langgraph.pregel import Pregel


def response_types(graph: Pregel[Any, Any, Any, Any]) -> set[tuple[str, ...]]:
    """Return what `RedisSaver.with_allowlist` needs for the `response_format` of `create_agent`.

    The format is not in the compiled graph's schemas; the model node's function closes over it.
    """
    schemas = [schema for node in graph.nodes.values() for schema in _schemas(node.bound)]
    return collect_allowlist_from_schemas(schemas=schemas)


def _schemas(bound: Any) -> Iterator[Any]:
    for function in (getattr(bound, "func", None), getattr(bound, "afunc", None)):
        for cell in getattr(function, "__closure__", None) or ():
            try:
                value = cell.cell_contents
            except ValueError:  # a name that was never bound
                continue
            if isinstance(value, ToolStrategy):
                yield from (spec.schema for spec in value.schema_specs)
            elif isinstance(value, AutoStrategy | ProviderStrategy):
                yield value.schema
