"""Forms: what to ask for before a decision, from its response schema; the decision from what was typed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..approvals.response_schema import arguments_schema
from ..errors import InvalidDecision
from ..json_values import pointer
from ..output import plain, pretty

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..errors import Issue
    from .card import Action, Card

FieldKind = Literal["text", "number", "integer", "boolean", "choice", "json"]
_READERS: dict[str, type | tuple[type, ...]] = {"number": (int, float), "integer": int, "boolean": bool}
_WRONG = {
    "number": "must be a number",
    "integer": "must be a whole number",
    "boolean": "must be true or false",
    "json": "must be JSON (a text in quotes)",
}
_REASON = "Why (the agent reads it)"
_RESULT = "What the agent gets as the tool's result"
_DONE = "What the call came to (the agent reads it as its result)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One thing to fill in; what a person types is a text, whatever `kind` it stands for."""

    name: str
    label: str
    kind: FieldKind
    value: str
    """What it holds at first; typed back unchanged it stands for the very value that was shown."""
    required: bool
    choices: tuple[str, ...] = ()
    """What a `choice` or a `boolean` is one of."""


def form_of(card: Card, action: Action) -> tuple[Field, ...]:
    """Tell what to ask for before `action`; empty where the button alone decides."""
    approval = card.approval
    if action == "edit":
        return tuple(_argument_fields(card))
    if action == "reject":
        return (Field(name="message", label=_REASON, kind="text", value="", required=False),)
    if action == "respond":
        label = _DONE if approval.kind == "unknown_call" else _RESULT
        return (Field(name="message", label=label, kind="text", value="", required=True),)
    if action == "answer":
        return (_value_field(approval.response_schema),)
    return ()


def decision_of(card: Card, action: Action, typed: Mapping[str, str]) -> dict[str, Any]:
    """Make a decision of what was typed, by field name.

    Of an edit, a field that is not there stays as it was shown, and one that is empty is left out.

    Raises:
        InvalidDecision: when a text is no value of its field, or there is no such field; `field_of` tells
            which field an issue is about.
    """
    fields = form_of(card, action)
    names = [field.name for field in fields]
    if strangers := [name for name in typed if name not in names]:
        known = f"is none of the fields: {', '.join(names)}" if names else "there is nothing to fill in"
        raise InvalidDecision([{"path": pointer((name,)), "message": known} for name in strangers])
    if action in ("approve", "details"):
        return {"type": action}
    if action == "reject":
        text = typed.get("message", "").strip()
        return {"type": action, "message": text} if text else {"type": action}
    if fields[:1] and action != "edit" and fields[0].name not in typed:
        raise InvalidDecision([{"path": pointer((fields[0].name,)), "message": "is required"}])
    if action == "respond":
        return {"type": action, "message": typed["message"].strip()}
    if action == "answer":
        return {"type": "answer", "value": _read(fields[0], typed["value"], ("value",))}
    return {
        "type": "edit",
        "edited_action": {"name": card.approval.tool, "args": _edited(card, fields, typed)},
    }


def _edited(card: Card, fields: tuple[Field, ...], typed: Mapping[str, str]) -> dict[str, Any]:
    """All arguments of an edited call."""
    given = card.approval.args if isinstance(card.approval.args, dict) else {}
    args: dict[str, Any] = {}
    issues: list[Issue] = []
    for field in fields:
        text = typed.get(field.name, field.value)
        if field.name in given and text == field.value:
            args[field.name] = given[field.name]
        elif text or field.required:
            try:
                args[field.name] = _read(field, text, ("edited_action", "args", field.name))
            except InvalidDecision as error:
                issues += error.issues
    if issues:
        raise InvalidDecision(issues)
    return args


def field_of(issue: Issue, fields: tuple[Field, ...]) -> str:
    """Name the field that an issue of `placet.decide` is about; empty if it is about the whole."""
    for field in fields:
        for place in (("edited_action", "args", field.name), (field.name,)):
            path = pointer(place)
            if issue["path"] == path or issue["path"].startswith(f"{path}/"):
                return field.name
    return ""


def _argument_fields(card: Card) -> Iterator[Field]:
    approval = card.approval
    schema = arguments_schema(approval.response_schema, approval.tool or "")
    properties = schema.get("properties")
    declared: dict[str, Any] = properties if isinstance(properties, dict) else {}
    given = approval.args if isinstance(approval.args, dict) else {}
    required = schema.get("required", [])
    for name in [*given, *(one for one in declared if one not in given)]:
        kind, choices = _kind(declared.get(name), given.get(name, ""))
        yield Field(
            name=name,
            label=plain(name).replace("\n", " "),
            kind=kind,
            value=_shown(given[name], kind) if name in given else "",
            required=name in required,
            choices=choices,
        )


def _value_field(schema: dict[str, Any] | None) -> Field:
    """Without a schema an answer is the text that is typed."""
    kind, choices = _kind(schema, "") if schema else ("text", ())
    return Field(name="value", label="Answer", kind=kind, value="", required=True, choices=choices)


def _kind(schema: Any, value: Any) -> tuple[FieldKind, tuple[str, ...]]:
    """What a schema takes, or, where it does not say, what the value is."""
    found = _not_null(schema if isinstance(schema, dict) else {})
    choices = found.get("enum")
    if isinstance(choices, list) and choices and all(isinstance(one, str) for one in choices):
        return "choice", tuple(choices)
    named = found.get("type")
    if named == "boolean" or (named is None and isinstance(value, bool)):
        return "boolean", ("true", "false")
    if named in ("number", "integer"):
        return named, ()
    # what may be a text or something else is typed as JSON, or "1" would be one of two values
    if named == "string" or (not found and isinstance(value, str)):
        return "text", ()
    return "json", ()


def _not_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Of what may be something or null, the something: null is what is left empty."""
    several = schema.get("anyOf")
    some = [one for one in several if one != {"type": "null"}] if isinstance(several, list) else []
    return some[0] if len(some) == 1 and isinstance(some[0], dict) else schema


def _shown(value: Any, kind: FieldKind) -> str:
    if value is None:
        return ""
    return value if kind in ("text", "choice") and isinstance(value, str) else pretty(value)


def _read(field: Field, text: str, place: tuple[str, ...]) -> Any:
    if field.kind == "text":
        return text
    path = pointer(place)
    if field.kind == "choice":
        if text not in field.choices:
            raise InvalidDecision([{"path": path, "message": f"must be one of {', '.join(field.choices)}"}])
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidDecision([{"path": path, "message": _WRONG[field.kind]}]) from None
    wanted = _READERS.get(field.kind)
    if wanted and (not isinstance(value, wanted) or (isinstance(value, bool) and field.kind != "boolean")):
        raise InvalidDecision([{"path": path, "message": _WRONG[field.kind]}])
    return value
