"""JSON text of Python values: strict for what callers send, lenient and fast for what a graph shows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticSerializationError, to_json

from .errors import InvalidInput, TooLarge
from .json_values import MAX_BITS, MAX_DEPTH, canonical, shown

if TYPE_CHECKING:
    from .settings import Settings

_MAX_DIGITS = len(str(1 << MAX_BITS))
_TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"


def dump_input(field: str, value: Any, settings: Settings) -> str:
    """JSON text of a caller's value; pydantic models, dataclasses, datetimes and the like are taken.

    Raises:
        InvalidInput: naming `field`, when part of it has no JSON form or is past a limit.
    """
    limit = "max_input_bytes" if field == "input" else "max_config_bytes"
    most = getattr(settings, limit)
    try:
        _check_containers(value, most=most)
        text = to_json(value, inf_nan_mode="constants").decode()
        check_size("it", text, most_bytes=most, setting=f"PLACET_{limit.upper()}")
        json.loads(text, parse_constant=_no_constant, parse_int=_whole)
    except (PydanticSerializationError, TypeError, ValueError, RecursionError) as error:
        # what pydantic says of a model that is nested too deeply, or holds itself
        reason = _TOO_DEEP if "depth exceeded" in str(error) else str(error)
        raise InvalidInput(field, f"must be JSON values: {reason}") from None
    except TooLarge as error:
        raise InvalidInput(field, str(error)) from None
    return text


def dump_shown(value: Any) -> str:
    """JSON text of anything a graph holds: bytes as base64, what has no JSON form as its `repr`."""
    try:
        return to_json(
            value, serialize_unknown=True, bytes_mode="base64", inf_nan_mode="strings", fallback=repr
        ).decode()
    except Exception:  # noqa: BLE001 - a lone surrogate, too deep, a circle, or code of the value's own
        return _dump_broken(value)


def _dump_broken(value: Any) -> str:
    try:
        return canonical(shown(value)).decode()
    except Exception as error:  # noqa: BLE001 - the value's own code raises what it likes
        return json.dumps(f"cannot be shown: {type(error).__name__}")


def size_of(text: str) -> int:
    """Bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def check_size(what: str, text: str, *, most_bytes: int, setting: str) -> None:
    """Refuse a text that is too long.

    Raises:
        TooLarge: naming `what` it is, and the setting.
    """
    if (size := size_of(text)) > most_bytes:
        raise TooLarge(what, size, most_bytes, setting)


def _check_containers(value: Any, *, most: int) -> None:
    """Refuse sets and what is nested too deeply, without recursion; each value is a byte of JSON at least."""
    waiting = [(value, 0)]
    seen = 0
    while waiting:
        one, depth = waiting.pop()
        seen += 1
        if isinstance(one, set | frozenset):
            # they would be written as lists, in an order that differs from process to process
            raise TypeError("a set has no order")
        if isinstance(one, dict | list | tuple):
            if depth >= MAX_DEPTH or seen > most:
                raise ValueError(_TOO_DEEP if depth >= MAX_DEPTH else "there is too much of it")
            waiting += [(item, depth + 1) for item in (one.values() if isinstance(one, dict) else one)]


def _whole(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a whole number of more than {MAX_BITS} bits")
    return 0  # only its size is of interest here


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
