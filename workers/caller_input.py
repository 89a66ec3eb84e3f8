"""What callers may send: ids, words and numbers within bounds, an allowlist of config."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from .errors import InvalidInput

MAX_ID = 512
MAX_REASON = 1_000
MAX_STEPS = 1_000_000
"""Of a run's `recursion_limit` and `max_concurrency`."""
MAX_WHOLE = 2**53
AHEAD = timedelta(days=3653)
"""How far ahead a run may start: ten years; no wait is longer either."""
_CONFIG_KEYS = ("configurable", "tags", "metadata", "recursion_limit", "run_name", "max_concurrency")
# what steers LangGraph or Placet: from a caller it could answer an interrupt or write to another thread
_RESERVED = re.compile(r"(__|checkpoint_|langgraph_|placet_).*|thread_id|run_id|principal", re.DOTALL)
# PLACET_QUEUES is split at commas, and brokers read braces and white space in their own ways
_NO_QUEUE = re.compile(r"[,{}\s]")


def checked_config(config: object) -> dict[str, Any]:
    """Let through what a caller may set; None sets nothing.

    Raises:
        InvalidInput: naming the key that is refused.
    """
    checked = checked_object("config", {} if config is None else config)
    for key in checked:
        if key not in _CONFIG_KEYS:
            raise InvalidInput(f"config.{key}", f"is not taken; these are: {', '.join(_CONFIG_KEYS)}")
    for part in ("configurable", "metadata"):
        for key in checked_object(f"config.{part}", checked.get(part, {})):
            if _RESERVED.fullmatch(key):
                raise InvalidInput(f"config.{part}.{key}", "is reserved and cannot be set by a caller")
    for number in ("recursion_limit", "max_concurrency"):
        checked_whole(f"config.{number}", checked.get(number, 1), least=1, most=MAX_STEPS)
    tags = checked.get("tags", [])
    if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) for tag in tags):
        raise InvalidInput("config.tags", "must be a list of texts")
    if not isinstance(checked.get("run_name", ""), str):
        raise InvalidInput("config.run_name", "must be a text")
    return checked


def checked_object(field: str, value: object) -> dict[str, Any]:
    """Let through a mapping of texts to anything.

    Raises:
        InvalidInput: naming `field`.
    """
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidInput(field, "must be an object")
    return dict(value)


def checked_id(field: str, value: object, *, most: int = MAX_ID) -> str:
    """Let through a text that can name something.

    Raises:
        InvalidInput: naming `field`.
    """
    if not isinstance(value, str) or not value.strip() or len(value) > most:
        raise InvalidInput(field, f"must be a text of 1 to {most} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInput(field, "must be valid Unicode") from None
    return value


def check_filters(**filters: object) -> None:
    """Refuse a filter that can match no id; None filters nothing.

    Raises:
        InvalidInput: naming it.
    """
    for field, value in filters.items():
        if value is not None:
            checked_id(field, value)


def checked_queue(value: object) -> str:
    """Let through a queue's name.

    Raises:
        InvalidInput: naming it.
    """
    name = checked_id("queue", value)
    if _NO_QUEUE.search(name) or not name.isprintable():
        raise InvalidInput("queue", "must not hold commas, braces, white space or control characters")
    return name


def checked_whole(field: str, value: object, *, least: int, most: int = MAX_WHOLE) -> int:
    """Let through a whole number.

    Raises:
        InvalidInput: naming `field`.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidInput(field, f"must be a whole number from {least} to {most}")
    return value


def checked_seconds(field: str, value: object) -> float | None:
    """Read a duration as seconds, at most `AHEAD`; None is without end.

    Raises:
        InvalidInput: naming `field`.
    """
    if value is None:
        return None
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    # what is not a number is not over 0 either
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not seconds >= 0:
        raise InvalidInput(field, "must be a number of seconds, or a timedelta, of at least 0")
    return float(min(seconds, AHEAD.total_seconds()))


def checked_timeout(field: str, value: object) -> int | None:
    """Read a timeout in seconds as milliseconds, at least one; None is without end.

    Raises:
        InvalidInput: naming `field`.
    """
    seconds = checked_seconds(field, value)
    if seconds == 0:
        raise InvalidInput(field, "must be over 0")
    return None if seconds is None else max(1, round(seconds * 1000))


def checked_start(value: object) -> datetime | None:
    """Read when a run may start: a time, or how long from now; None is at once, as is what is past.

    Raises:
        InvalidInput: naming `start_at`.
    """
    if value is None:
        return None
    now = datetime.now(UTC)
    if isinstance(value, timedelta):
        when = now + min(max(value, timedelta()), 2 * AHEAD)
    elif isinstance(value, datetime) and value.utcoffset() is not None:
        when = value
    else:
        raise InvalidInput("start_at", "must be a datetime with its time zone, or a timedelta")
    if when > now + AHEAD:
        raise InvalidInput("start_at", "must not be more than ten years ahead")
    return when if when > now else None


def check_decisions(decisions: object, *, reviewer: object, seen: object) -> None:
    """Refuse what is no map of request ids to decisions, by someone, with digests that were seen or none.

    Raises:
        InvalidInput: naming the argument.
    """
    checked_id("reviewer", reviewer)
    if not isinstance(decisions, Mapping) or not decisions:
        raise InvalidInput("decisions", "must be an object of request ids and decisions, not empty")
    for approval_id in decisions:
        checked_id("approval_id", approval_id)
    for digest in checked_object("seen", {} if seen is None else seen).values():
        checked_id("seen", digest)


def check_messages(given: object, *, most: int) -> None:
    """Refuse an input of too many messages.

    Raises:
        InvalidInput: naming them, and the setting.
    """
    messages = given.get("messages") if isinstance(given, Mapping) else None
    if isinstance(messages, list | tuple) and len(messages) > most:
        raise InvalidInput(
            "input.messages", f"there are {len(messages):,}; the most is {most:,} (PLACET_MAX_MESSAGES)"
        )


def check_one_of(field: str, value: object, allowed: tuple[str | None, ...]) -> None:
    """Refuse a word that is not on the list.

    Raises:
        InvalidInput: naming `field` and the words that are.
    """
    if value not in allowed:
        raise InvalidInput(field, f"must be one of {', '.join(filter(None, allowed))}")
