"""How a card looks on Telegram: labels of ours, each with a block of literal text, and inline buttons."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiogram.types import InlineKeyboardButton, InlineKeyboardMarkup

from ...output import pretty
from .text import TEXT_UNITS, Text, cut, literal, pieces, units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiogram.types import MessageEntity

    from ..card import Action, Card

FACT_UNITS = 256
_CUTS = {"Request": 300, "State": 600, "Description": 500}
"""What each section keeps of a card that does not fit; the arguments, or the question, get the rest."""
_NOT_ALL = "This is not all of it. Details shows all, with the buttons that decide."
_END = "That is all of it."
_ROW = 2
_PIECE = 3800
_LABEL_ROOM = 150
MOST_PAGES = 4
"""Details of more pages than these are a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A message as Telegram takes it."""

    text: str
    entities: list[MessageEntity]
    buttons: InlineKeyboardMarkup | None = None


def draw(card: Card) -> Drawn:
    """Draw a card. What does not fit is cut, and then it has no button that takes it as it is."""
    sections = _sections(card)
    whole = _written(sections)
    if whole.units <= TEXT_UNITS and not any(units(text) > FACT_UNITS for _, text in card.facts):
        return Drawn(text=whole.text, entities=whole.entities, buttons=_buttons(card, card.actions))
    short = {label: cut(text, _CUTS[label]) if label in _CUTS else text for label, text in sections}
    short["About"] = literal(_facts(card, most=FACT_UNITS))
    last = "Question" if "Question" in short else "Arguments"
    if content := short.pop(last, ""):
        room = TEXT_UNITS - _written([*short.items()]).units - _LABEL_ROOM
        short[last] = cut(content, room)
    written = _written([*short.items()])
    actions: list[Action] = []
    if card.open:
        written.add("\n").add(_NOT_ALL, "bold")
        actions = ["details", *(one for one in card.actions if one == "reject")]
    return Drawn(text=written.text, entities=written.entities, buttons=_buttons(card, actions))


def pages(card: Card) -> list[Drawn]:
    """All of a card as messages, the last with the buttons that decide."""
    written = [Text()]
    for label, text in _sections(card):
        parts = pieces(text, _PIECE)
        for number, part in enumerate(parts, 1):
            named = label if len(parts) == 1 else f"{label}, part {number} of {len(parts)}"
            if written[-1].units + units(part) > TEXT_UNITS - _LABEL_ROOM:
                written.append(Text())
            written[-1].section(named, part)
    for number, page in enumerate(written, 1):
        # a page ends with words of ours, because Telegram drops blanks at the end of a message
        end = f"Page {number} of {len(written)}." + (f" {_END}" if page is written[-1] else "")
        page.add("\n").add(end, "bold")
    drawn = [Drawn(text=page.text, entities=page.entities) for page in written]
    last = drawn[-1]
    drawn[-1] = Drawn(text=last.text, entities=last.entities, buttons=_buttons(card, card.actions))
    return drawn


def document(card: Card) -> bytes:
    """All of a card as a JSON file."""
    asked = card.approval.value if card.approval.kind == "question" else card.approval.args
    told = {
        "request": card.heading,
        "state": card.state,
        "about": dict(card.facts),
        "description": card.description,
        "question" if card.approval.kind == "question" else "arguments": asked,
    }
    return pretty(told).encode()


def below_document(card: Card) -> Drawn:
    """The message below the file: what it is of, and the buttons that decide."""
    text = Text().section("Request", cut(literal(card.heading), FACT_UNITS))
    text.add("\n").add("The file above is all of it.", "bold")
    return Drawn(text=text.text, entities=text.entities, buttons=_buttons(card, card.actions))


def _sections(card: Card) -> list[tuple[str, str]]:
    about = [("Request", card.heading), ("State", card.state)]
    content = "Question" if card.approval.kind == "question" else "Arguments"
    told = [
        *(about if card.open else reversed(about)),
        ("About", _facts(card)),
        ("Description", card.description),
        (content, card.content),
    ]
    return [(label, literal(text)) for label, text in told if text.strip()]


def _facts(card: Card, *, most: int | None = None) -> str:
    """One line a fact: a line break within one would look like another."""
    lines = []
    for label, text in card.facts:
        line = json.dumps(text, ensure_ascii=False)[1:-1] if "\n" in text else text
        lines.append(f"{label}: {line if most is None else cut(line, most)}")
    return "\n".join(lines)


def _written(sections: Sequence[tuple[str, str]]) -> Text:
    text = Text()
    for label, told in sections:
        text.section(label, told)
    return text


def _buttons(card: Card, actions: Sequence[Action]) -> InlineKeyboardMarkup | None:
    made = [InlineKeyboardButton(text=card.label(one), callback_data=card.button(one)) for one in actions]
    rows = [made[start : start + _ROW] for start in range(0, len(made), _ROW)]
    return InlineKeyboardMarkup(inline_keyboard=rows) if rows else None
