"""What a search and a listing of the store look for: filters on values, patterns of namespaces."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from langgraph.store.base import MatchCondition

_ORDERED: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def fits(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether an item's value passes a filter, by the rules of LangGraph's InMemoryStore.

    Where that store raises because two values have no order, this one says no; two texts that are no
    numbers are compared as texts.

    Raises:
        ValueError: for an operator that LangGraph does not have.
    """
    return all(_equals(value.get(key), condition) for key, condition in wanted.items())


def _equals(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        if any(key.startswith("$") for key in wanted):
            return all(_compares(value, name, other) for name, other in wanted.items())
        return isinstance(value, dict) and all(_equals(value.get(key), item) for key, item in wanted.items())
    if isinstance(wanted, list | tuple):
        return (
            isinstance(value, list | tuple) and len(value) == len(wanted) and all(map(_equals, value, wanted))
        )
    return bool(value == wanted)


def _compares(value: Any, name: str, other: Any) -> bool:
    if name in ("$eq", "$ne"):
        return bool(value == other) is (name == "$eq")
    if name not in _ORDERED:
        raise ValueError(f"Unsupported operator: {name}")
    try:
        return _ORDERED[name](float(value), float(other))
    except (TypeError, ValueError):
        try:
            return bool(_ORDERED[name](value, other))
        except TypeError:
            return False


def matches(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    """Whether a namespace begins or ends as the condition says; `*` stands for any label.

    Raises:
        ValueError: for a kind of match that LangGraph does not have.
    """
    path = condition.path
    if condition.match_type not in ("prefix", "suffix"):
        raise ValueError(f"Unsupported match type: {condition.match_type}")
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=False))
