"""Forms as Discord's modals, and what was typed into them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import discord
from discord import ui

from ...output import plain
from ..forms import form_of
from .text import exact_json, length

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..card import Action, Card
    from ..forms import Field

# https://docs.discord.com/developers/components/reference
_MOST_FIELDS, _MOST_VALUE, _MOST_LABEL, _MOST_DESCRIPTION = 5, 4000, 45, 100
_MOST_OPTIONS, _MOST_OPTION = 25, 100
ALL = ":json"
"""Ends the id of a form that asks for all arguments as one JSON text."""
_TYPED = re.compile(r"```json\n(.*)\n```", re.DOTALL)


def modal_of(card: Card, action: Action, before: Mapping[str, str]) -> ui.Modal | None:
    """Make the form for a decision, filled with what was typed `before`; None if it cannot hold it.

    Arguments that do not fit into fields, or would come back from them changed, are asked for as JSON.
    """
    fields = form_of(card, action)
    modal = ui.Modal(title=_short(f"{card.label(action)}: {plain(card.approval.tool or 'question')}"))
    modal.custom_id = card.button(action)
    if all(map(_fits, fields)) and len(fields) <= _MOST_FIELDS and fields:
        for field in fields:
            modal.add_item(_item(field, before.get(field.name, field.value), action))
    else:
        text = before.get("", "") or exact_json(card.approval.args)
        if length(text) > _MOST_VALUE:
            return None
        modal.custom_id += ALL
        modal.add_item(
            ui.Label(text="Arguments, as JSON", component=_text_input("json", text, required=True))
        )
    modal.stop()  # what is typed is read from what comes back: the library has nothing to keep
    return modal


def typed_into(components: Iterable[Any]) -> dict[str, str]:
    """What came back from a form, by the ids of its fields."""
    typed: dict[str, str] = {}
    for one in components:
        field = one.get("component") or one.get("components", [{}])[0]
        values = field.get("values")
        typed[field.get("custom_id", "")] = (
            "".join(values[:1]) if values is not None else field.get("value") or ""
        )
    return typed


def quoted(typed: Mapping[str, str]) -> str:
    """What was typed, to be shown to who typed it and read back with `typed_before`."""
    return f"```json\n{exact_json(dict(typed))}\n```"


def typed_before(message: discord.Message | None) -> dict[str, str]:
    """What was typed, from the message of ours that told what was wrong with it."""
    if message is None or not message.flags.ephemeral:
        return {}
    found = _TYPED.search(message.content)
    try:
        read: dict[str, str] = json.loads(found[1]) if found else {}
    except ValueError:
        return {}
    return read


def _fits(field: Field) -> bool:
    """Whether a field of a form holds this one, and gives it back as it was."""
    name, value = field.name, field.value
    if not 0 < length(name) <= _MOST_LABEL or not name.isprintable() or name != name.strip():
        return False
    return length(value) <= _MOST_VALUE and value == value.strip() and value.replace("\n", "").isprintable()


def _item(field: Field, value: str, action: Action) -> ui.Label[ui.Modal]:
    # an argument may be an empty text, which the platform does not take for a required one
    required = field.required and (bool(field.value) or action != "edit")
    long = length(field.label) > _MOST_LABEL
    options = list(dict.fromkeys(field.choices))
    described = field.label[:_MOST_DESCRIPTION] if long else None
    component: ui.Item[ui.Modal]
    if 0 < len(options) <= _MOST_OPTIONS and all(0 < length(one) <= _MOST_OPTION for one in options):
        component = ui.Select(
            custom_id=field.name,
            required=required,
            min_values=int(required),
            options=[
                discord.SelectOption(label=plain(one)[:_MOST_OPTION], value=one, default=one == value)
                for one in options
            ],
        )
    else:
        component = _text_input(field.name, value, required=required, long=field.kind in ("text", "json"))
        if options:
            described = _short(f"One of {', '.join(map(plain, options))}", _MOST_DESCRIPTION)
    return ui.Label(text=_short(field.label), description=described, component=component)


def _text_input(name: str, value: str, *, required: bool, long: bool = True) -> ui.TextInput[ui.Modal]:
    return ui.TextInput(
        custom_id=name,
        style=discord.TextStyle.paragraph if long else discord.TextStyle.short,
        default=value or None,
        required=required,
        max_length=_MOST_VALUE,
    )


def _short(text: str, most: int = _MOST_LABEL) -> str:
    text = text.replace("\n", " ")
    if length(text) <= most:
        return text
    return text.encode("utf-16-le")[: 2 * (most - 1)].decode("utf-16-le", "ignore") + "…"
