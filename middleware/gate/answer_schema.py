"""What answers a gate takes, as the types that LangGraph checks one against before it saves it."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from langchain.agents.middleware.human_in_the_loop import (
    ApproveDecision,
    DecisionType,
    RejectDecision,
    RespondDecision,
)
from pydantic import (
    AfterValidator,
    BaseModel,
    Discriminator,
    PlainValidator,
    TypeAdapter,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    create_model,
)

from placet.approvals.response_schema import decision_schema
from placet.approvals.schema_check import issues_of
from placet.json_values import canonical

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .tool_arguments import ToolArguments

_PLAIN: dict[DecisionType, Any] = {
    "approve": ApproveDecision,
    "reject": RejectDecision,
    "respond": RespondDecision,
}


def decision_type(allowed: Sequence[DecisionType], tools: Mapping[str, Any]) -> Any:
    """Make the type of one decision, as LangChain's `per_call` mode shows it.

    Args:
        allowed: The decisions that are taken.
        tools: What an edit may name, each with the type of its arguments, see `arguments_type`.
    """
    kinds = [_edit_type(tools) if name == "edit" else _PLAIN[name] for name in dict.fromkeys(allowed)]
    if len(kinds) == 1:
        return kinds[0]
    return Annotated[Union[tuple(kinds)], Discriminator("type")]  # noqa: UP007 - made at run time


def arguments_type(arguments: ToolArguments | None, model: Any = None) -> Any:
    """Make the type of a tool's arguments: its model, if it has one, else an object that fits its schema."""
    if arguments is None:
        return dict[str, Any]
    schema = arguments["schema"]
    if isinstance(model, type) and issubclass(model, BaseModel) and arguments["undeclared"] != "refuse":
        return model

    def fits(args: dict[str, Any]) -> dict[str, Any]:
        if issues := list(issues_of(args, schema)):
            raise ValueError("; ".join(f"{issue['path'] or '/'} {issue['message']}" for issue in issues))
        return args

    return Annotated[dict[str, Any], AfterValidator(fits), WithJsonSchema(schema)]


def batched_type(
    asked: Sequence[tuple[Sequence[DecisionType], str, Mapping[str, ToolArguments | None]]], *, shown: bool
) -> Any:
    """Make the type of the answer to several calls: exactly one decision for each, in their order.

    Args:
        asked: Of each call the decisions that are taken, its tool, and what an edit may name.
        shown: Whether the schema that is published says so too.
    """
    asked_as_text = canonical(list(asked)).decode()

    def check(answer: Any) -> Any:
        _response(asked_as_text).validate_python(answer)
        return answer

    schema = _batched_schema(asked) if shown else {"type": "object", "required": ["decisions"]}
    return Annotated[Any, PlainValidator(check), WithJsonSchema(schema)]


@lru_cache(maxsize=256)  # pydantic takes milliseconds to make one, and a pause without an answer needs none
def _response(asked: str) -> TypeAdapter[Any]:
    kinds = tuple(
        decision_type(allowed, {name: arguments_type(args) for name, args in tools.items()})
        for allowed, _, tools in json.loads(asked)
    )
    return TypeAdapter(_model("HITLResponse", decisions=tuple.__class_getitem__(kinds)))


def _batched_schema(
    asked: Sequence[tuple[Sequence[DecisionType], str, Mapping[str, ToolArguments | None]]],
) -> dict[str, Any]:
    items = []
    for index, (allowed, tool, tools) in enumerate(asked):
        schemas = {name: None if args is None else args["schema"] for name, args in tools.items()}
        own = schemas.pop(tool, None)
        schema = decision_schema(allowed, tool=tool, args=own, others=schemas)
        items.append(_moved(schema, f"#/properties/decisions/prefixItems/{index}/$defs/"))
    count = len(items)
    decisions = {
        "type": "array",
        "prefixItems": items,
        "items": False,
        "minItems": count,
        "maxItems": count,
    }
    return {"type": "object", "properties": {"decisions": decisions}, "required": ["decisions"]}


def _moved(schema: Any, to: str) -> Any:
    """Let a schema's references find its definitions where it is put."""
    if isinstance(schema, list):
        return [_moved(item, to) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: to + value.removeprefix("#/$defs/")
        if name == "$ref" and isinstance(value, str) and value.startswith("#/$defs/")
        else _moved(value, to)
        for name, value in schema.items()
    }


def _edit_type(tools: Mapping[str, Any]) -> Any:
    """An edit as LangChain's; its arguments are checked and passed on as they were sent."""
    actions = tuple(_model("EditedAction", name=Literal[name], args=args) for name, args in tools.items())
    action = actions[0]
    if len(actions) > 1:
        action = Annotated[Union[actions], Discriminator("name")]  # noqa: UP007 - made at run time
    edit = _model("EditDecision", type=Literal["edit"], edited_action=action)
    return Annotated[edit, WrapValidator(_as_sent)]


def _model(name: str, /, **fields: Any) -> Any:
    return create_model(name, **{field: (kind, ...) for field, kind in fields.items()})  # type: ignore[call-overload]


def _as_sent(answer: object, check: ValidatorFunctionWrapHandler) -> object:
    check(answer)
    return answer
