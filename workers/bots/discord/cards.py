"""Cards as Discord's components."""

from __future__ import annotations

from typing import TYPE_CHECKING

import discord
from discord import ui

from .text import code_block, escape, length

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..card import Action, Card

MOST = 4000
"""Of all texts of a message together: https://docs.discord.com/developers/components/reference"""
_MOST_HEADING, _MOST_STATE, _MOST_FACT, _MOST_DESCRIPTION = 300, 600, 220, 800
_STYLES = {
    "approve": discord.ButtonStyle.success,
    "reject": discord.ButtonStyle.danger,
    "details": discord.ButtonStyle.primary,
}
_COLOURS = {
    "approve": 0x3BA55D,
    "edit": 0x3BA55D,
    "answer": 0x3BA55D,
    "respond": 0x3BA55D,
    "reject": 0xED4245,
}
_WAITS, _OVER = 0xFAA61A, 0x747F8D


def message_of(card: Card) -> ui.LayoutView:
    """Draw a card. What does not fit is not decided on from it, but for rejecting it: Details shows all."""
    texts, whole = _texts(card)
    actions = card.actions
    if not whole:
        actions = ("reject", "details") if "reject" in actions else ("details",)
    box: ui.Container[ui.LayoutView] = ui.Container(accent_colour=_colour(card))
    for text in texts:
        box.add_item(ui.TextDisplay(text))
    if card.open:
        box.add_item(ui.ActionRow(*_buttons(card, actions)))
    view = ui.LayoutView(timeout=None)
    view.add_item(box)
    view.stop()  # clicks are read from their tokens: the library has nothing to keep
    return view


def buttons_of(card: Card, actions: Sequence[Action]) -> ui.View:
    """Draw buttons below a text for one person."""
    view = ui.View(timeout=None)
    for button in _buttons(card, actions):
        view.add_item(button)
    view.stop()
    return view


def all_of(card: Card) -> str:
    """Tell all of a card as a text file."""
    facts = "\n".join(f"{label}: {text}" for label, text in card.facts)
    parts = [card.heading, card.state, facts, card.description, card.content]
    return "\n\n".join(part for part in parts if part) + "\n"


def _buttons(card: Card, actions: Iterable[Action]) -> list[ui.Button[ui.View]]:
    return [
        ui.Button(
            style=_STYLES.get(action, discord.ButtonStyle.secondary),
            label=card.label(action),
            custom_id=card.button(action),
        )
        for action in actions
    ]


def _texts(card: Card) -> tuple[list[str], bool]:
    """The texts of a card, each a component so that none reaches into the next; and whether all is there."""
    heading, all_heading = escape(card.heading, _MOST_HEADING)
    state, all_state = escape(card.state, _MOST_STATE)
    top = [f"### {heading}", f"**{state}**"]
    facts = [(label, *escape(text, _MOST_FACT)) for label, text in card.facts]
    bottom = "\n".join(f"-# {label}: {text}" for label, text, _ in facts)
    wholes = [all_heading, all_state, *(whole for _, _, whole in facts)]
    middle: list[str] = []
    left = MOST - sum(map(length, [*top, bottom]))
    is_json = card.approval.kind != "question" or not isinstance(card.approval.value, str)
    # the content goes before what is said about it
    most = left - (min(length(card.description) + 50, _MOST_DESCRIPTION) if card.description else 0)
    content, whole = _block(
        "Question" if card.approval.kind == "question" else "Arguments", card.content, most, is_json
    )
    wholes.append(whole)
    description, whole = _block("Description", card.description, left - length(content))
    wholes.append(whole)
    middle = [text for text in (description, content) if text]
    return [*(top if card.open else reversed(top)), *middle, bottom], all(wholes)


def _block(label: str, text: str, most: int, is_json: bool = False) -> tuple[str, bool]:
    before = f"-# {label}\n"
    block, whole = code_block(text, most - length(before), "json" if is_json else "")
    return before + block if block else "", whole


def _colour(card: Card) -> int:
    if card.open:
        return _WAITS
    return _COLOURS.get(str((card.approval.decision or {}).get("type")), _OVER)
