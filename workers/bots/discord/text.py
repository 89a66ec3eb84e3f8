"""Text as Discord shows it: whatever a model wrote stays text, and fits."""

from __future__ import annotations

import json
import re
from typing import Any

_MARKUP = re.compile(r"[!-/:-@\[-`{-~]")
_FENCE = re.compile(r"`{3,}")


def length(text: str) -> int:
    """How long Discord may say a text is: UTF-16 units, which are never fewer than its characters."""
    return len(text.encode("utf-16-le")) // 2


def escape(text: str, most: int = 1 << 30) -> tuple[str, bool]:
    """One line of a text, each sign that may be markup escaped, in `most` units; and whether all is there.

    Discord's markup takes a backslash before any character that is no letter, digit or blank.
    """
    escaped: list[str] = []
    used = 1  # the mark of a cut has its place
    for character in text:
        shown = " ↵ " if character == "\n" else _MARKUP.sub(r"\\\g<0>", character)
        used += length(shown)
        if used > most:
            return "".join([*escaped, "…"]), False
        escaped.append(shown)
    return "".join(escaped), True


def code_block(text: str, most: int, language: str = "") -> tuple[str, bool]:
    r"""A block of code that its text cannot end, in `most` units; empty for a blank text.

    Three backticks in it, which would end it, are written out by number: `\u0060`.
    """
    lines = _FENCE.sub(lambda found: "\\u0060" * len(found[0]), text).strip("\n")
    if not lines:
        return "", True
    before, after = f"```{language}\n", "\n```"
    room = most - length(before) - length(after)
    if length(lines) <= room:
        return before + lines + after, True
    kept = lines.encode("utf-16-le")[: 2 * max(room - 1, 0)].decode("utf-16-le", "ignore")
    return f"{before}{kept}…{after}", False


def exact_json(value: Any) -> str:
    """JSON that reads back as the same value, with what cannot be seen, and backticks, written out."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return "".join(_visible(character) for character in text)


def _visible(character: str) -> str:
    if character == "`":
        return "\\u0060"
    return character if character.isprintable() or character == "\n" else json.dumps(character)[1:-1]
