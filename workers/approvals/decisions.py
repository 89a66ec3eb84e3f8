"""Decisions: their types, and the check of one against the request it answers."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from ..errors import AlreadyDecided, ChangedSinceSeen, InvalidDecision, NotPending
from ..json_values import canonical, not_json, pointer, shortened
from ..spelling import meant
from .response_schema import DECISION_TYPES, branches, declared_arguments, editable_tools

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from ..errors import Issue
    from ..state.approvals import Approval, ApprovalRequest

MAX_BYTES = 1024 * 1024
"""Size of a decision, as JSON, unless a setting says otherwise."""


class _Decision(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Approve(_Decision):
    """Run the tool call as shown, or go on past a breakpoint."""

    type: Literal["approve"] = "approve"


class EditedAction(_Decision):
    """The call that runs instead: the same tool, other arguments."""

    name: str
    args: dict[str, Any]


class Edit(_Decision):
    """Run the tool with other arguments: the whole action, or `args` alone for short."""

    type: Literal["edit"] = "edit"
    edited_action: EditedAction | None = None
    args: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.edited_action is None) == (self.args is None):
            raise PydanticCustomError("edit", "an edit takes either edited_action or args")
        return self


class Reject(_Decision):
    """Do not run the tool call, or cancel at a breakpoint; the model is told `message`."""

    type: Literal["reject"] = "reject"
    message: str | None = None


class Respond(_Decision):
    """Answer in the tool's place: the model reads `message` as its result."""

    type: Literal["respond"] = "respond"
    message: str


class Answer(_Decision):
    """Answer a question; `value` arrives verbatim, None and other falsy ones included."""

    type: Literal["answer"] = "answer"
    value: Any


Decision = Annotated[Approve | Edit | Reject | Respond | Answer, Field(discriminator="type")]

_MODELS: dict[str, type[_Decision]] = {
    "approve": Approve,
    "edit": Edit,
    "reject": Reject,
    "respond": Respond,
    "answer": Answer,
}
_INSIDE: dict[str, type[_Decision]] = {"edited_action": EditedAction}
_ADAPTER: TypeAdapter[Approve | Edit | Reject | Respond | Answer] = TypeAdapter(Decision)
_PLACEHOLDER = re.compile(r"\[REDACTED_\w+\]|<\w+_hash:\w+>")
"""What stands for personal data in the arguments that a reviewer is shown."""
_ALL_TYPES = (*DECISION_TYPES, "answer")


def parse_decision(data: Any) -> dict[str, Any]:
    """Check that `data` has the shape of a decision: one of the models, or its JSON.

    Raises:
        InvalidDecision: naming all that is wrong; also for values that are not JSON, or over `MAX_BYTES`.
    """
    decision = _read(data, _ALL_TYPES)
    _refuse(_shape_issues(decision))
    return decision


def check_open(approval: Approval, seen: str | None) -> None:
    """Check that a request takes a decision, and is what its reviewer has seen: the digest `seen`, if any.

    Raises:
        AlreadyDecided, NotPending, ChangedSinceSeen: when it is not so.
    """
    if approval.status == "decided":
        decision = (approval.decision or {}).get("type", "")
        raise AlreadyDecided(approval.id, approval.decided_by or "", decision)
    if approval.status != "pending":
        raise NotPending(approval.id, approval.status, approval.reason)
    if seen is not None and seen != approval.digest:
        raise ChangedSinceSeen(approval.id)


def check_decision(request: ApprovalRequest, decision: Any, *, most_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Check a decision against the request it answers and return it as LangChain wants it.

    Its type must be allowed and it must fit the response schema: an edit, a reject and so on the
    branch their `type` names, an answer's value the whole. An edit keeps its tool; `args` alone are
    completed to an `edited_action`. A schema that cannot be used refuses everything it should check.

    Raises:
        InvalidDecision: naming all that is wrong.
    """
    data = _read(decision, request.allowed, most_bytes)
    issues = _shape_issues(data)
    if data["type"] == "edit":
        data, more = _edited(request, data)
        issues += more or [*_undeclared(request, data), *_not_shown(request, data)]
    told = {issue["path"] for issue in issues}
    issues += [issue for issue in _schema_issues(request, data) if issue["path"] not in told]
    _refuse(issues)
    return data


def _edited(request: ApprovalRequest, edit: dict[str, Any]) -> tuple[dict[str, Any], list[Issue]]:
    """Complete `args` alone to an edited action; make sure that the tool stays."""
    action = edit.get("edited_action")
    if action is None and edit.get("args") is not None:
        return {"type": "edit", "edited_action": {"name": request.tool, "args": edit["args"]}}, []
    name = action.get("name") if isinstance(action, dict) else None
    if isinstance(name, str) and name != request.tool:
        tools = editable_tools(request.response_schema)
        message = f"an edit keeps its tool, {request.tool!r}, not {name!r}"
        if len(tools) > 1:
            message = f"an edit's tool is one of {', '.join(tools)}, not {name!r}"
        return edit, [] if name in tools else [_issue("/edited_action/name", message)]
    return {key: value for key, value in edit.items() if value is not None}, []


def _undeclared(request: ApprovalRequest, edit: dict[str, Any]) -> list[Issue]:
    """Arguments that the tool does not declare and the model did not give either."""
    action = edit.get("edited_action")
    args = action.get("args") if isinstance(action, dict) else None
    if not isinstance(action, dict) or not isinstance(args, dict):
        return []
    tool = action.get("name")
    declared = declared_arguments(request.response_schema, tool) if isinstance(tool, str) else None
    if declared is None:
        return []
    message = f"is no argument of {tool!r}: {', '.join(declared) or 'it takes none'}"
    given = request.args if isinstance(request.args, dict) and tool == request.tool else {}
    return [
        _issue(pointer(("edited_action", "args", name)), message)
        for name in args
        if name not in declared and name not in given
    ]


def _not_shown(request: ApprovalRequest, edit: dict[str, Any]) -> Iterator[Issue]:
    """Placeholders in an edit that what was shown has not: nothing would be put in their place."""
    action = edit.get("edited_action")
    args = action.get("args") if isinstance(action, dict) else None
    known = set(_PLACEHOLDER.findall(json.dumps(request.args, ensure_ascii=False)))
    if not known or not isinstance(args, dict):
        return
    for name, value in args.items():
        for found in _PLACEHOLDER.findall(json.dumps(value, ensure_ascii=False)):
            if found not in known:
                message = f"{found!r} is no placeholder of this call; there are {', '.join(sorted(known))}"
                yield _issue(pointer(("edited_action", "args", name)), message)


def _read(data: Any, allowed: tuple[str, ...], most_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Take a decision in: JSON, not too large, of an allowed type."""
    if isinstance(data, BaseModel):
        # what a model was not given is left out; an answer of None is one
        data = {key: item for key, item in data.model_dump().items() if item is not None or key == "value"}
    if not isinstance(data, dict):
        _refuse([_issue("", f"a decision is an object, not a {type(data).__name__}")])
    _refuse(list(not_json(data)))
    if len(canonical(data)) > most_bytes:
        _refuse([_issue("", f"is larger than {most_bytes} bytes of JSON")])
    if "type" not in data:
        _refuse([_issue("/type", f"is required: {', '.join(allowed)}")])
    if data["type"] not in allowed:
        _refuse([_issue("/type", f"{data['type']!r} is not allowed here: {', '.join(allowed)}")])
    checked: dict[str, Any] = data
    return checked


def _shape_issues(data: dict[str, Any]) -> list[Issue]:
    try:
        _ADAPTER.validate_python(data)
    except ValidationError as error:
        # the first step of each place is the type's name
        return [_issue(pointer(e["loc"][1:]), _said(e["type"], e["msg"], e["loc"])) for e in error.errors()]
    return []


def _said(kind: str, message: str, place: tuple[int | str, ...]) -> str:
    if kind == "missing":
        return "is required"
    if kind != "extra_forbidden":
        return message
    model = _INSIDE.get(str(place[-2])) or _MODELS[str(place[0])]
    return f"is not known here{meant(str(place[-1]), model.model_fields)}"


def _schema_issues(request: ApprovalRequest, decision: dict[str, Any]) -> Iterator[Issue]:
    # imported late: whoever only lists approvals does not pay for it
    from .schema_check import issues_of  # noqa: PLC0415

    schema = request.response_schema
    if schema is None or decision == {"type": "answer"}:
        return iter(())
    if decision["type"] == "answer":
        return issues_of(decision["value"], schema, at=("value",))
    branch = branches(schema).get(decision["type"])
    if branch is None:
        return iter([_issue("/type", f"the response schema has no branch for {decision['type']!r}")])
    return issues_of(decision, branch)


def _refuse(issues: list[Issue]) -> None:
    if issues:
        raise InvalidDecision(issues)


def _issue(path: str, message: str) -> Issue:
    return {"path": path, "message": shortened(message)}
