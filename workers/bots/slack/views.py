"""Slack's modals and Home: forms, details, what a person is told, what waits for them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..forms import form_of
from .blocks import TEXT, VIEW_BLOCKS, VIEW_BYTES, details, plain, section, shortened, summary, width

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..card import Action, Card
    from ..forms import Field
    from .blocks import Block

FORM = "placet:form"
"""The callback id of a form's submission."""
_TITLE, _LABEL, _OPTION, _OPTIONS, _METADATA = 24, 2000, 75, 100, 3000
_WRONG = "wrong"
_TOO_LARGE = "This does not fit into a form here. On the command line: placet {action} {id}"
_TOO_LONG = "This is too long to be shown here. On the command line: placet approvals show {id}"
View = dict[str, Any]


def form(card: Card, action: Action) -> View:
    """A modal that asks for what `action` needs."""
    fields = form_of(card, action)
    metadata = json.dumps({"token": card.button(action), "fields": [field.name for field in fields]})
    fits = len(fields) <= VIEW_BLOCKS // 2 and len(metadata) <= _METADATA
    if not fits or any(width(field.value) > TEXT for field in fields) or not all(map(_is_shown, fields)):
        return told(_TOO_LARGE.format(action=action, id=card.approval.id))
    return {
        **_modal(card.label(action)),
        "callback_id": FORM,
        "private_metadata": metadata,
        "submit": plain(shortened(card.label(action), _TITLE)),
        "blocks": [
            section((shortened(card.heading, TEXT), True)),
            *(_input(number, field) for number, field in enumerate(fields)),
        ],
    }


def again(view: Mapping[str, Any], typed: Mapping[str, str], wrong: str) -> View:
    """A form that was sent, with what was typed; `wrong` stands above it."""
    names: list[str] = json.loads(view["private_metadata"])["fields"]
    blocks: list[Block] = [{**section((shortened(wrong, TEXT), True)), "block_id": _WRONG}]
    for block in view["blocks"]:
        if block["type"] == "input":
            text = typed.get(names[int(block["block_id"].removeprefix("field:"))], "")
            blocks.append({**block, "element": _refilled(block["element"], text)})
        elif block.get("block_id") != _WRONG:
            blocks.append(block)
    kept = ("type", "callback_id", "title", "submit", "close", "private_metadata")
    return {**{name: view[name] for name in kept}, "blocks": blocks}


def typed_in(view: Mapping[str, Any]) -> tuple[str, dict[str, str], list[str]]:
    """Read a submitted form: its button's token, what was typed by field name, and the fields in order."""
    metadata = json.loads(view["private_metadata"])
    names: list[str] = metadata["fields"]
    typed: dict[str, str] = {}
    for number, name in enumerate(names):
        element = view["state"]["values"].get(f"field:{number}", {}).get("value", {})
        selected = element.get("selected_option")
        typed[name] = (selected["value"] if selected else element.get("value")) or ""
    return metadata["token"], typed, names


def errors_at(issues: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """What is wrong by block, as `response_action: errors` wants it; what is about no field at the first."""
    found: dict[str, str] = {}
    for name, message in issues.items():
        number = names.index(name) if name in names else 0
        found.setdefault(f"field:{number}", shortened(message, TEXT))
    return found


def everything(card: Card) -> View:
    """A modal with all of a request, and the buttons that decide it."""
    blocks = details(card)
    # Slack counts the bytes of a view too, and what is no ASCII is sent as an escape
    if len(blocks) > VIEW_BLOCKS or len(json.dumps(blocks)) > VIEW_BYTES * 0.96:
        return told(_TOO_LONG.format(id=card.approval.id))
    return {**_modal("Details"), "blocks": blocks}


def told(text: str) -> View:
    """A modal that tells something."""
    return {**_modal("Placet"), "blocks": [section((shortened(text, TEXT), False))]}


def home(cards: Iterable[Card]) -> View:
    """The app's Home: what waits for a person, each with its Details."""
    return {"type": "home", "blocks": inbox(cards, most=VIEW_BLOCKS)}


def inbox(cards: Iterable[Card], *, most: int) -> list[Block]:
    """What waits for a person, in so many blocks at most."""
    blocks: list[Block] = []
    for card in cards:
        if len(blocks) + 3 > most:
            break
        button = {
            "type": "button",
            "action_id": "placet:details",
            "text": plain(card.label("details")),
            "value": card.button("details"),
        }
        blocks += [*summary(card), {"type": "actions", "elements": [button]}]
    return blocks or [section(("Nothing waits for your decision.", False))]


def _modal(title: str) -> View:
    return {"type": "modal", "title": plain(shortened(title, _TITLE)), "close": plain("Close")}


def _input(number: int, field: Field) -> Block:
    if field.choices:
        options = [{"text": plain(one), "value": one} for one in field.choices]
        initial = [one for one in options if one["value"] == field.value]
        element: Block = {"type": "static_select", "action_id": "value", "options": options}
        if initial:
            element["initial_option"] = initial[0]
    else:
        element = {"type": "plain_text_input", "action_id": "value", "multiline": True, "max_length": TEXT}
        if field.value:
            element["initial_value"] = field.value
    return {
        "type": "input",
        "block_id": f"field:{number}",
        "label": plain(shortened(field.label, _LABEL)),
        "element": element,
        "optional": not field.required,
    }


def _refilled(element: Block, text: str) -> Block:
    made = {name: value for name, value in element.items() if not name.startswith("initial_")}
    if not text:
        return made
    if element["type"] == "static_select":
        return {**made, "initial_option": {"text": plain(text), "value": text}}
    return {**made, "initial_value": text}


def _is_shown(field: Field) -> bool:
    return len(field.choices) <= _OPTIONS and all(
        one.strip() and width(one) <= _OPTION for one in field.choices
    )
