"""The JSON Schema of a decision: one branch for each decision type, as LangChain writes it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DECISION_TYPES = ("approve", "edit", "reject", "respond")
"""LangChain's four, in its order."""

_DEFINITIONS = ("$defs", "definitions")


def decision_schema(
    allowed: Sequence[str],
    *,
    tool: str | None = None,
    args: Mapping[str, Any] | None = None,
    others: Mapping[str, Mapping[str, Any] | None] | None = None,
) -> dict[str, Any]:
    """Build the schema that takes exactly the `allowed` decision types.

    Branches are closed, so that a misspelt key is told. An edit's name is pinned to `tool`; its
    arguments follow `args`, the tool's JSON Schema, whose definitions move to the top, where its
    `#/$defs/…` references then point. Without `args` an edit may hold any object. `others` are the
    tools that an edit may name instead, with their schemas.
    """
    action = _action(tool, args)
    definitions = _definitions(args or {})
    if others:
        actions = [action]
        for number, (name, other) in enumerate(others.items()):
            own, more = _apart(other or {}, number)
            actions.append(_action(name, own))
            definitions.setdefault("$defs", {}).update(more)
        action = {"anyOf": actions}
    branches = {
        "approve": _closed({"type": {"const": "approve"}}),
        "edit": _closed({"type": {"const": "edit"}, "edited_action": action}),
        "reject": _closed({"type": {"const": "reject"}, "message": {"type": "string"}}, "message"),
        "respond": _closed({"type": {"const": "respond"}, "message": {"type": "string"}}),
    }
    schema: dict[str, Any] = {"oneOf": [branches[name] for name in allowed]}
    if "edit" in allowed:
        schema |= definitions
    return schema


def _action(tool: str | None, args: Mapping[str, Any] | None) -> dict[str, Any]:
    arguments = {k: v for k, v in (args or {"type": "object"}).items() if k not in _DEFINITIONS}
    return _closed({"name": {"const": tool}, "args": arguments})


def _apart(schema: Mapping[str, Any], number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Rename a schema's definitions, so that those of several can stand together; gives both parts."""
    text = json.dumps({name: part for name, part in schema.items() if name not in _DEFINITIONS})
    definitions = {name: part for group in _definitions(schema).values() for name, part in group.items()}
    whole = json.dumps(definitions)
    for group in _DEFINITIONS:
        start = json.dumps(f"#/{group}/")[:-1]
        renamed = json.dumps(f"#/$defs/{number}.")[:-1]
        text, whole = text.replace(start, renamed), whole.replace(start, renamed)
    return json.loads(text), {f"{number}.{name}": part for name, part in json.loads(whole).items()}


def branches(schema: Any) -> dict[str, dict[str, Any]]:
    """Split a schema into its branches by the `type` each pins, in order; empty if it has no such shape.

    Every branch carries the top level's definitions, so that it stands alone.
    """
    if not isinstance(schema, dict):
        return {}
    found: dict[str, dict[str, Any]] = {}
    definitions = _definitions(schema)
    choices = schema.get("oneOf") or schema.get("anyOf") or [schema]
    for choice in choices if isinstance(choices, list) else []:
        branch = _resolve(choice, definitions)
        name = _pinned_type(branch)
        if name is None or name in found:
            return {}
        found[name] = {**branch, **definitions}
    return found


def editable_tools(schema: Any) -> list[str]:
    """Names of the tools that an edit may name; empty if the schema has no such shape."""
    return list(_actions(schema))


def declared_arguments(schema: Any, tool: str) -> list[str] | None:
    """Names of the arguments that an edit's tool declares; None where its schema itself says what of others.

    JSON Schema lets undeclared properties through unless it is told not to, and a tool then drops them: an
    argument that a reviewer misspelt would be lost without a word.
    """
    args = arguments_schema(schema, tool)
    properties = args.get("properties")
    if not isinstance(properties, dict) or "additionalProperties" in args:
        return None
    return list(properties)


def arguments_schema(schema: Any, tool: str) -> dict[str, Any]:
    """The JSON Schema of the arguments that an edit gives `tool`; empty if it has no such shape."""
    return _actions(schema).get(tool, {})


def _actions(schema: Any) -> dict[str, dict[str, Any]]:
    """The schemas of an edit's arguments, by the tool that it names."""
    branch = branches(schema).get("edit", {})
    definitions = _definitions(branch)
    action = _property(branch, "edited_action", definitions)
    choices = action.get("anyOf") or action.get("oneOf") or [action]
    found: dict[str, dict[str, Any]] = {}
    for choice in choices if isinstance(choices, list) else []:
        one = _resolve(choice, definitions)
        name = _property(one, "name", definitions).get("const")
        if isinstance(name, str):
            found[name] = _property(one, "args", definitions)
    return found


def _property(schema: Mapping[str, Any], name: str, definitions: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return _resolve(properties.get(name) if isinstance(properties, dict) else None, definitions)


def _closed(properties: dict[str, Any], *optional: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def _definitions(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {name: schema[name] for name in _DEFINITIONS if isinstance(schema.get(name), dict)}


def _resolve(choice: Any, definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Follow `#/$defs/Name`, the only reference LangChain's branches are written with."""
    ref = choice.get("$ref") if isinstance(choice, dict) else None
    if isinstance(ref, str):
        start, group, name = (*ref.split("/", 2), "", "")[:3]
        choice = definitions.get(group, {}).get(name) if start == "#" else None
    return choice if isinstance(choice, dict) else {}


def _pinned_type(branch: Mapping[str, Any]) -> str | None:
    properties = branch.get("properties")
    pin = properties.get("type") if isinstance(properties, dict) else None
    name = pin.get("const") if isinstance(pin, dict) else None
    return name if isinstance(name, str) else None
