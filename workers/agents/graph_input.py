"""Whether a graph takes a run's input: LangGraph drops keys that it does not know, and says nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput
from ..spelling import meant

if TYPE_CHECKING:
    from .factories import Graph

_WHOLE = "__root__"
"""The one key of a state that is a single value."""


def check_input(graph: Graph, given: Any) -> None:
    """Refuse an input of which the graph would take nothing.

    Raises:
        InvalidInput: naming its first key, and those that the graph has.
    """
    builder = getattr(graph, "builder", None)  # what is made with the functional API has none
    known = getattr(builder, "schemas", {}).get(getattr(builder, "input_schema", None), {})
    if not known or _WHOLE in known:
        return
    keys = ", ".join(known)
    if not isinstance(given, dict):
        raise InvalidInput("input", f"must be an object; the agent's keys are {keys}")
    if given and not known.keys() & given.keys():
        first = next(iter(given))
        hint = meant(first, known) or ";"
        raise InvalidInput(f"input.{first}", f"is no key of the agent's input{hint} it has {keys}")
