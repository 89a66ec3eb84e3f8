"""JSON values: how Python data is shown to a reviewer, and what is accepted from one."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any

import pydantic_core

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .errors import Issue

MAX_DEPTH = 100
"""Levels of nesting that are shown or accepted."""

MAX_BITS = 8192
"""Size of a whole number that is shown or accepted."""

MESSAGE_LENGTH = 300
"""Characters of a message about a value."""

_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")


def to_json(value: Any, *, depth: int = 0) -> Any:
    """Turn any Python value into the JSON value that stands for it, alike in every process.

    Decimal, UUID, dates and durations become text, bytes their UTF-8 text or else a `data:` URL,
    sets sorted lists, models and dataclasses objects, NaN and infinities their names, and what is
    of no known kind its `str`. Nothing is imported, and nothing constructed but plain data.

    Raises:
        ValueError: when it cannot be shown whole: nested over `MAX_DEPTH` levels, circular, or with
            two keys that read alike.
    """
    if depth > MAX_DEPTH:
        raise ValueError(f"nested more than {MAX_DEPTH} levels deep")
    for kind, convert in _CONVERTERS:
        if isinstance(value, kind):
            return convert(value, depth + 1)
    return _other(value, depth + 1)


def shown(value: Any) -> Any:
    """Turn a value into what a reviewer is shown of it, come what may.

    What cannot be shown whole becomes text that says so: text has no shape of a tool call, so it
    cannot be approved as one.
    """
    try:
        return to_json(value)
    except ValueError as error:
        return f"cannot be shown: {error}"


def shown_schema(schema: Any) -> dict[str, Any] | None:
    """Turn a JSON Schema into plain JSON; None if it is no object.

    One that cannot be shown whole becomes the schema that takes nothing.
    """
    if not isinstance(schema, Mapping):
        return None
    plain = shown(schema)
    return plain if isinstance(plain, dict) else {"not": {}}


def canonical(value: Any) -> bytes:
    """Write a JSON value in one way only: sorted keys, no white space, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def pointer(parts: Iterable[str | int]) -> str:
    """Join steps into a JSON Pointer (RFC 6901): `/edited_action/args/amount`."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def shortened(message: str) -> str:
    """Cut the middle out of a long message: it quotes a value first and says what is wrong last."""
    if len(message) <= MESSAGE_LENGTH:
        return message
    return message[: MESSAGE_LENGTH // 2] + " … " + message[-MESSAGE_LENGTH // 2 :]


def not_json(value: Any, *, path: tuple[str | int, ...] = ()) -> Iterator[Issue]:
    """Name every place of `value` that is not JSON, or cannot be stored as such."""
    if len(path) > MAX_DEPTH:
        yield {"path": pointer(path[:8]), "message": f"nested more than {MAX_DEPTH} levels deep"}
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(key, str) and not _flaw(key):
                yield from not_json(item, path=(*path, key))
            else:
                yield {"path": pointer(path), "message": shortened(f"the key {key!r} is no text")}
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from not_json(item, path=(*path, index))
    elif flaw := _flaw(value):
        yield {"path": pointer(path), "message": flaw}


def _flaw(value: Any) -> str:
    """What keeps a single value from being JSON; empty if nothing does."""
    if isinstance(value, str) and _text(value) != value:
        return "holds half of a surrogate pair, which is no text"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value} is not a JSON number"
    if type(value) is int and value.bit_length() > MAX_BITS:
        return f"a whole number of more than {MAX_BITS} bits"
    if value is not None and type(value) not in (bool, int, float, str):
        return f"a {type(value).__name__} is not a JSON value"
    return ""


def _text(value: str) -> str:
    # a lone surrogate, which a model can write, cannot be encoded
    return value.encode("utf-8", "backslashreplace").decode()


def _whole(value: int) -> int:
    # Python refuses to write, or read, an integer of more than 4,300 digits
    if value.bit_length() > MAX_BITS:
        raise ValueError(f"a whole number of more than {MAX_BITS} bits")
    return int(value)


def _float(value: float) -> float | str:
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        encoded: str = pydantic_core.to_jsonable_python(value, bytes_mode="base64")
        return "data:;base64," + encoded.replace("-", "+").replace("_", "/")


def _object(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, item in value.items():
        name = to_json(key, depth=depth)
        text = name if isinstance(name, str) else canonical(name).decode()
        if text in plain:
            raise ValueError(f"two keys read alike: {text!r}")
        plain[text] = to_json(item, depth=depth)
    return plain


def _array(value: Iterable[Any], depth: int) -> list[Any]:
    return [to_json(item, depth=depth) for item in value]


def _other(value: Any, depth: int) -> Any:
    try:
        plain = pydantic_core.to_jsonable_python(value, serialize_unknown=True, bytes_mode="base64")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"a {type(value).__name__} that cannot be written as JSON: {error}") from None
    if isinstance(plain, str):
        # an address differs in every process
        return _text(_ADDRESS.sub("", plain))
    return to_json(plain, depth=depth)


# an Enum may be a str or an int too, a bool is an int: the order matters
_CONVERTERS: tuple[tuple[type | UnionType, Callable[[Any, int], Any]], ...] = (
    (Enum, lambda value, depth: to_json(value.value, depth=depth)),
    (bool | NoneType, lambda value, _: value),
    (str, lambda value, _: _text(value)),
    (int, lambda value, _: _whole(value)),
    (float, lambda value, _: _float(value)),
    (bytes | bytearray, lambda value, _: _bytes(bytes(value))),
    (Mapping, _object),
    (list | tuple, _array),
    (AbstractSet, lambda value, depth: sorted(_array(value, depth), key=canonical)),
)
