"""Text with ranges that say what is literal: sent without a parse mode, so nothing in it needs escaping.

https://core.telegram.org/bots/api#messageentity: offsets and lengths are UTF-16 code units; within `pre` and
`code` Telegram makes no link, mention, hashtag or command of anything.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from aiogram.types import MessageEntity

from ...output import plain

if TYPE_CHECKING:
    from typing import Self

    from aiogram.types import User

TEXT_UNITS = 4096
"""UTF-16 code units of a message: https://core.telegram.org/bots/api#sendmessage."""
_LOST = re.compile("[\u0333\u033f\u030a]")
"""Telegram's servers drop these marks from every text (`clean_input_string` of tdlib), or `å` becomes `a`."""


class Text:
    """A message's text, part by part."""

    def __init__(self) -> None:
        self.text = ""
        self.units = 0
        self.entities: list[MessageEntity] = []

    def add(self, text: str, type_: str = "", *, user: User | None = None) -> Self:
        """Add a part; `type_` is what Telegram calls it: `bold`, `pre`, `code`, `text_mention`."""
        length = units(text)
        if type_ and length:
            entity = MessageEntity(type=type_, offset=self.units, length=length, user=user)
            self.entities.append(entity)
        self.text += text
        self.units += length
        return self

    def section(self, label: str, text: str) -> Self:
        """Add words of ours and, as a block below them, what somebody else wrote."""
        if self.text:
            self.add("\n")
        return self.add(label, "bold").add("\n").add(text, "pre")


def units(text: str) -> int:
    """How long a text is for Telegram, in UTF-16 code units."""
    return len(text.encode("utf-16-le")) // 2


def literal(text: str) -> str:
    """Write out what Telegram would not show."""
    return _LOST.sub(lambda found: f"\\u{ord(found[0]):04x}", plain(text))


def cut(text: str, most: int) -> str:
    """The text if it is at most so many units long, else its beginning and an ellipsis."""
    return text if units(text) <= most else pieces(text, most - 1)[0] + "…"


def pieces(text: str, most: int) -> list[str]:
    """The text in pieces of at most so many units (two or more), no character torn apart."""
    found: list[str] = []
    rest = text.encode("utf-16-le")
    while rest:
        end = most * 2
        # a high surrogate belongs with what follows it
        if len(rest) > end and 0xD8 <= rest[end - 1] <= 0xDB:  # noqa: PLR2004 - Unicode's range
            end -= 2
        found.append(rest[:end].decode("utf-16-le"))
        rest = rest[end:]
    return found or [""]
