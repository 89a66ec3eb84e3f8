"""JSON text of Python values: strict for what callers send, lenient and fast for what a graph shows."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from .errors import InvalidInput


def dump_input(field: str, value: Any) -> str:
    """JSON text of a caller's value; pydantic models, dataclasses, datetimes and the like are taken.

    Raises:
        InvalidInput: naming `field`, when part of it has no JSON form.
    """
    try:
        _refuse_sets(value)
        text = to_json(value, inf_nan_mode="constants").decode()
        json.loads(text, parse_constant=_no_constant)
    except (PydanticSerializationError, TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(field, f"must be JSON values: {error}") from None
    return text


def dump_shown(value: Any) -> str:
    """JSON text of anything a graph holds: bytes as base64, what has no JSON form as its `repr`."""
    return to_json(
        value, serialize_unknown=True, bytes_mode="base64", inf_nan_mode="strings", fallback=repr
    ).decode()


def _refuse_sets(value: Any) -> None:
    # they would be written as lists, in an order that differs from process to process
    if isinstance(value, set | frozenset):
        msg = "a set has no order"
        raise TypeError(msg)
    if isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            _refuse_sets(item)


def _no_constant(name: str) -> None:
    msg = f"{name} is no JSON number"
    raise ValueError(msg)
