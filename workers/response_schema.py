"""The JSON Schema of a decision: one branch for each decision type, as LangChain writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DECISION_TYPES = ("approve", "edit", "reject", "respond")
"""LangChain's four, in its order."""

_DEFINITIONS = ("$defs", "definitions")


def decision_schema(
    allowed: Sequence[str], *, tool: str | None = None, args: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Build the schema that takes exactly the `allowed` decision types.

    Branches are closed, so that a misspelt key is told. An edit's name is pinned to `tool`; its
    arguments follow `args`, the tool's JSON Schema, whose definitions move to the top, where its
    `#/$defs/…` references then point. Without `args` an edit may hold any object.
    """
    arguments = {k: v for k, v in (args or {"type": "object"}).items() if k not in _DEFINITIONS}
    action = _closed({"name": {"const": tool}, "args": arguments})
    branches = {
        "approve": _closed({"type": {"const": "approve"}}),
        "edit": _closed({"type": {"const": "edit"}, "edited_action": action}),
        "reject": _closed({"type": {"const": "reject"}, "message": {"type": "string"}}, "message"),
        "respond": _closed({"type": {"const": "respond"}, "message": {"type": "string"}}),
    }
    schema: dict[str, Any] = {"oneOf": [branches[name] for name in allowed]}
    if "edit" in allowed:
        schema |= _definitions(args or {})
    return schema


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


def declared_arguments(schema: Any) -> list[str] | None:
    """Names of the arguments that an edit's tool declares; None where its schema itself says what of others.

    JSON Schema lets undeclared properties through unless it is told not to, and a tool then drops them: an
    argument that a reviewer misspelt would be lost without a word.
    """
    branch = branches(schema).get("edit", {})
    definitions = _definitions(branch)
    for step in ("edited_action", "args"):
        properties = branch.get("properties")
        branch = _resolve(properties.get(step) if isinstance(properties, dict) else None, definitions)
    properties = branch.get("properties")
    if not isinstance(properties, dict) or "additionalProperties" in branch:
        return None
    return list(properties)


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
