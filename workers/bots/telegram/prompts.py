"""Forms on Telegram: a message that asks for a reply, and what the reply says.

All that is needed to take the reply stands in the prompt, at its end, as `code`: no other message of the
bot's ends so. A bot that was restarted, or another replica, takes the reply as well.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import InvalidInput
from ...output import plain, pretty
from ..forms import form_of
from .cards import Drawn
from .text import Text, cut, literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiogram.types import Message, User

    from ..card import Action, Card
    from ..forms import Field

NOTHING = "-"
"""What is replied for an empty text."""
_CARRIED = re.compile(r"(placet:\w+:\w+:\w+) (\d+) (-?\d+:\d+)")
_FIELDS_UNITS, _ISSUES_UNITS, _NAME_UNITS, _LABEL_UNITS = 2400, 800, 64, 200
_HOW_TO_EDIT = (
    "Reply to this message with a line for each argument that changes, such as name=value; "
    "or with JSON of all arguments, which leaves out those that it does not name."
)
_KINDS = {"number": "a number", "integer": "a whole number", "json": "JSON (a text in quotes)"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a prompt of the bot's own carries."""

    token: str
    """The button's."""
    person: int
    """Who clicked, and may answer."""
    reference: str
    """The message that was clicked."""


def draw_prompt(card: Card, action: Action, prompt: Prompt, who: User, issues: Mapping[str, str]) -> Drawn:
    """Ask for what `action` needs; `issues` are what was wrong with the last reply, by field."""
    fields = form_of(card, action)
    text = Text().add(cut(plain(who.first_name), _NAME_UNITS) or "Reviewer", "text_mention", user=who)
    text.add(f", {card.label(action)}: ")
    if action == "edit":
        text.add(_HOW_TO_EDIT)
        text.section("Arguments", cut("\n".join(_told(one) for one in fields), _FIELDS_UNITS))
    else:
        field = fields[0]
        text.add(
            f"{field.label}. Reply to this message" + ("." if field.required else f"; {NOTHING} for none.")
        )
        if field.kind != "text":
            text.section("Value", cut(_told(field), _LABEL_UNITS))
    if issues:
        wrong = "\n".join(f"{name}: {message}" if name else message for name, message in issues.items())
        text.section("Not taken", cut(literal(wrong), _ISSUES_UNITS))
    text.add("\n").add(f"{prompt.token} {prompt.person} {prompt.reference}", "code")
    return Drawn(text=text.text, entities=text.entities)


def read_prompt(message: Message | None, *, bot_id: int) -> Prompt | None:
    """Read what a message carries; None if it is no prompt of ours."""
    if message is None or message.from_user is None or message.from_user.id != bot_id:
        return None
    text = message.text or ""
    if not message.entities or message.entities[-1].type != "code":
        return None
    carried = message.entities[-1].extract_from(text)
    found = _CARRIED.fullmatch(carried)
    if found is None or not text.endswith(carried):
        return None
    return Prompt(token=found[1], person=int(found[2]), reference=found[3])


def read_reply(card: Card, action: Action, text: str) -> dict[str, str]:
    """Read what was typed, by field name, as `decision_of` takes it.

    Raises:
        InvalidInput: when the text cannot be read; its message tells what would be right.
    """
    fields = form_of(card, action)
    if action != "edit":
        empty = not fields[0].required and text.strip() == NOTHING
        return {fields[0].name: "" if empty else text}
    known = {field.name: field for field in fields}
    return _from_json(text, known) if text.lstrip().startswith("{") else _from_lines(text, known)


def _from_json(text: str, known: Mapping[str, Field]) -> dict[str, str]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("reply", f"is no JSON: {error}") from None
    _check_known(values, known)
    for name, field in known.items():
        if field.required and name not in values:
            raise InvalidInput("reply", f"names all arguments as JSON; {name!r} is required")
    left_out = dict.fromkeys(known, "")
    return left_out | {name: _typed(value, known[name]) for name, value in values.items()}


def _from_lines(text: str, known: Mapping[str, Field]) -> dict[str, str]:
    changed: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise InvalidInput(
                "reply", f"line {number} must be name=value; send JSON if a text has several lines"
            )
        if name.strip() in changed:
            raise InvalidInput("reply", f"has {name.strip()} twice")
        changed[name.strip()] = value.strip()
    _check_known(changed, known)
    return {name: field.value for name, field in known.items()} | changed


def _check_known(names: Mapping[str, Any], known: Mapping[str, Field]) -> None:
    for name in names:
        if name not in known:
            raise InvalidInput("reply", f"names {name!r}, which is none of {', '.join(known)}")


def _typed(value: Any, field: Field) -> str:
    """A JSON value as a person would type it into its field."""
    if value is None and field.kind != "json":
        return ""
    return value if isinstance(value, str) and field.kind in ("text", "choice") else pretty(value)


def _told(field: Field) -> str:
    """What a field is: `amount: a number, required`."""
    kind = f"one of {', '.join(field.choices)}" if field.choices else _KINDS.get(field.kind, "a text")
    return literal(f"{field.name}: {kind}{', required' if field.required else ''}".replace("\n", " "))
