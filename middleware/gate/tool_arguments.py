"""What a tool takes as arguments, as plain data, and what it does with those that it does not declare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel
from typing_extensions import TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.tools import BaseTool


class ToolArguments(TypedDict):
    """A tool's arguments as the model sees them."""

    schema: dict[str, Any]
    """JSON Schema."""
    undeclared: Literal["drop", "keep", "refuse"]
    """What the tool does with an argument that it does not declare."""


def arguments_of(tool: BaseTool) -> ToolArguments:
    """Read them off a tool: pydantic drops what is undeclared unless told otherwise, JSON Schema keeps it."""
    shown: Any = tool.tool_call_schema
    if isinstance(shown, dict):
        refuses = shown.get("additionalProperties") is False
        return ToolArguments(schema=shown, undeclared="refuse" if refuses else "keep")
    schema = shown.model_json_schema() if hasattr(shown, "model_json_schema") else shown.schema()
    whole: Any = tool.args_schema
    if isinstance(whole, type) and issubclass(whole, BaseModel):
        extra = whole.model_config.get("extra")
    else:  # pydantic's first version
        extra = getattr(getattr(getattr(whole, "__config__", None), "extra", None), "value", None)
    if extra == "allow":
        return ToolArguments(schema=schema | {"additionalProperties": True}, undeclared="keep")
    if extra == "forbid":
        return ToolArguments(schema=schema | {"additionalProperties": False}, undeclared="refuse")
    return ToolArguments(schema=schema, undeclared="drop")


def names_alone(arguments: ToolArguments) -> ToolArguments:
    """Leave the arguments' names of a schema: what `fitted` needs, where answers were checked before."""
    declared = arguments["schema"].get("properties")
    schema: dict[str, Any] = {} if declared is None else {"properties": {name: {} for name in declared}}
    return ToolArguments(schema=schema, undeclared=arguments["undeclared"])


def fitted(args: Mapping[str, Any], arguments: ToolArguments | None) -> dict[str, Any]:
    """Leave out the arguments that the tool would drop; None knows nothing of the tool."""
    declared = None if arguments is None else arguments["schema"].get("properties")
    if arguments is None or declared is None or arguments["undeclared"] != "drop":
        return dict(args)
    return {name: value for name, value in args.items() if name in declared}
