"""Changing the texts inside plain data, its shape kept."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Leaf = Callable[[Any], Any]


def walk(value: Any, leaf: Leaf) -> Any:
    """Put every leaf, and every key that is text, through `leaf`; what stays the same is the same object."""
    if isinstance(value, dict):
        made = {leaf(key) if isinstance(key, str) else key: walk(item, leaf) for key, item in value.items()}
        return value if _same(made.items(), value.items()) else made
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        items = [walk(item, leaf) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else type(value)(items)
    return leaf(value)


def walk_json(text: str, leaf: Leaf) -> str:
    """As `walk` for the JSON text of an object or list; another text, or what is cut off, is one leaf."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            value = json.loads(text)
        except ValueError:
            return str(leaf(text))
        made = walk(value, leaf)
        return text if made is value else json.dumps(made, ensure_ascii=False)
    return str(leaf(text))


def _same(made: Any, given: Any) -> bool:
    return len(made) == len(given) and all(
        a[0] is b[0] and a[1] is b[1] for a, b in zip(made, given, strict=True)
    )
