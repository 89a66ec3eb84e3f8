"""What callers may send: an allowlist of config, ids within bounds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_ID = 512
_CONFIG_KEYS = ("configurable", "tags", "metadata", "recursion_limit", "run_name", "max_concurrency")
# what steers LangGraph or Placet: from a caller it could answer an interrupt or write to another thread
_RESERVED = re.compile(r"(__|checkpoint_|langgraph_|placet_).*|thread_id|run_id|principal", re.DOTALL)


def checked_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Let through what a caller may set.

    Raises:
        InvalidInput: naming the key that is refused.
    """
    for key in config:
        if key not in _CONFIG_KEYS:
            raise InvalidInput(f"config.{key}", f"is not taken; these are: {', '.join(_CONFIG_KEYS)}")
    for part in ("configurable", "metadata"):
        section = config.get(part, {})
        if not isinstance(section, dict) or not all(isinstance(key, str) for key in section):
            raise InvalidInput(f"config.{part}", "must be an object")
        for key in section:
            if _RESERVED.fullmatch(key):
                raise InvalidInput(f"config.{part}.{key}", "is reserved and cannot be set by a caller")
    limit = config.get("recursion_limit", 1)
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise InvalidInput("config.recursion_limit", "must be a whole number of at least 1")
    return dict(config)


def checked_id(field: str, value: object) -> str:
    """Let through a text that can name something.

    Raises:
        InvalidInput: naming `field`.
    """
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_ID:
        raise InvalidInput(field, f"must be a text of 1 to {MAX_ID} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInput(field, "must be valid Unicode") from None
    return value


def check_one_of(field: str, value: str | None, allowed: tuple[str, ...]) -> None:
    """Refuse a word that is not on the list.

    Raises:
        InvalidInput: naming `field` and the words that are.
    """
    if value is not None and value not in allowed:
        raise InvalidInput(field, f"must be one of {', '.join(allowed)}")
