from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from langgraph.types import Interrupt

from placet.approvals.decisions import (
    MAX_BYTES,
    Answer,
    Approve,
    Edit,
    EditedAction,
    Reject,
    check_decision,
    parse_decision,
)
from placet.approvals.interrupts import StaticBreakpoint, pause_of
from placet.errors import InvalidDecision

PAY = {
    "type": "object",
    "properties": {"amount": {"type": "integer", "minimum": 1}, "to": {"$ref": "#/$defs/Who"}, "note": {}},
    "required": ["amount", "to"],
    "additionalProperties": False,
    "$defs": {"Who": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
}
ALL = ["approve", "edit", "reject", "respond"]


def tool_call(allowed: list[str] = ALL, schema: dict[str, Any] | None = PAY) -> Any:
    value = {
        "action_requests": [{"name": "pay", "args": {"amount": 1}, "description": ""}],
        "review_configs": [{"action_name": "pay", "allowed_decisions": allowed}],
    }
    schemas = {"pay": schema} if schema else {}
    made = pause_of(run_id="r", agent="a", interrupts=[Interrupt(value, id="i")], tool_schemas=schemas)
    return made.requests[0]


def question(schema: Any = None) -> Any:
    raised = Interrupt("how many?", id="i", response_schema=schema)
    return pause_of(run_id="r", agent="a", interrupts=[raised]).requests[0]


def issues(request: Any, decision: Any) -> dict[str, str]:
    with pytest.raises(InvalidDecision) as refused:
        check_decision(request, decision)
    return {issue["path"]: issue["message"] for issue in refused.value.issues}


def edit(**args: Any) -> dict[str, Any]:
    return {"type": "edit", "edited_action": {"name": "pay", "args": args}}


@pytest.mark.parametrize(
    "decision",
    [
        {"type": "approve"},
        {"type": "reject"},
        {"type": "reject", "message": "日本語 🚀"},
        {"type": "respond", "message": ""},
        edit(amount=2, to={"name": "b"}),
    ],
)
def test_a_fitting_decision_comes_back_as_it_is(decision: dict[str, Any]) -> None:
    before = json.dumps(decision)
    assert check_decision(tool_call(), decision) == decision
    assert parse_decision(decision) == decision
    assert json.dumps(decision) == before


def test_the_models_are_decisions_too() -> None:
    action = EditedAction(name="pay", args={"amount": 1, "to": {"name": "b"}, "note": None})
    whole = edit(amount=1, to={"name": "b"}, note=None)
    assert check_decision(tool_call(), Edit(edited_action=action)) == whole
    assert check_decision(tool_call(), Edit(args=action.args)) == whole
    assert check_decision(tool_call(), Reject()) == {"type": "reject"}
    assert check_decision(tool_call(), Approve()) == {"type": "approve"}
    assert check_decision(question(), Answer(value=None)) == {"type": "answer", "value": None}


def test_arguments_alone_are_completed_to_an_edit() -> None:
    args = {"amount": 2, "to": {"name": "b"}}
    assert check_decision(tool_call(), {"type": "edit", "args": args}) == edit(**args)
    null = {"type": "edit", "args": None, "edited_action": {"name": "pay", "args": args}}
    assert check_decision(tool_call(), null) == edit(**args)


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        (None, {"": "a decision is an object, not a NoneType"}),
        ("approve", {"": "a decision is an object, not a str"}),
        ([{"type": "approve"}], {"": "a decision is an object, not a list"}),
        ({}, {"/type": "is required: approve, edit, reject, respond"}),
        ({"type": "always"}, {"/type": "'always' is not allowed here: approve, edit, reject, respond"}),
        ({"type": ["approve"]}, {"/type": "['approve'] is not allowed here: approve, edit, reject, respond"}),
        (
            {"type": "answer", "value": 1},
            {"/type": "'answer' is not allowed here: " + ", ".join(ALL)},
        ),
        ({"type": "approve", "force": True}, {"/force": "is not known here"}),
        (
            {"type": "reject", "mesage": "no"},
            {"/mesage": "is not known here, did you mean 'message'?"},
        ),
        (
            {
                "type": "edit",
                "edited_action": {"name": "pay", "args": {"amount": 1, "to": {"name": "b"}}, "arg": {}},
            },
            {"/edited_action/arg": "is not known here, did you mean 'args'?"},
        ),
        ({"type": "respond"}, {"/message": "is required"}),
        ({"type": "edit", "edited_action": {"name": "pay"}}, {"/edited_action/args": "is required"}),
        (
            {"type": "edit", "edited_action": {"name": "drop", "args": {"amount": 1, "to": {"name": "b"}}}},
            {"/edited_action/name": "an edit keeps its tool, 'pay', not 'drop'"},
        ),
        (
            edit(amount="2", to={"name": 3}),
            {
                "/edited_action/args/amount": "'2' is not of type 'integer'",
                "/edited_action/args/to/name": "3 is not of type 'string'",
            },
        ),
        (
            edit(ammount=2),
            {
                "/edited_action/args/ammount": "is not known here: amount, to, note",
                "/edited_action/args/amount": "is required",
                "/edited_action/args/to": "is required",
            },
        ),
        (
            {"type": "edit", "edited_action": {"name": "x", "args": {"amount": 0}}, "why": 1},
            {
                "/why": "is not known here",
                "/edited_action/name": "an edit keeps its tool, 'pay', not 'x'",
                "/edited_action/args/amount": "0 is less than the minimum of 1",
                "/edited_action/args/to": "is required",
            },
        ),
    ],
)
def test_all_that_is_wrong_is_named_with_its_place(decision: Any, expected: dict[str, str]) -> None:
    assert issues(tool_call(), decision) == expected


def test_only_what_the_request_allows() -> None:
    request = tool_call(["approve", "reject"])
    assert issues(request, edit(amount=1)) == {"/type": "'edit' is not allowed here: approve, reject"}


def test_an_edit_is_neither_both_nor_nothing() -> None:
    assert "an edit takes either edited_action or args" in issues(tool_call(), {"type": "edit"}).values()
    both = {**edit(amount=1, to={"name": "b"}), "args": {}}
    assert "an edit takes either edited_action or args" in issues(tool_call(), both).values()


def test_without_a_tool_schema_an_edit_may_hold_any_object() -> None:
    assert check_decision(tool_call(schema=None), edit(x=[1])) == edit(x=[1])
    assert "/args" in issues(tool_call(schema=None), {"type": "edit", "args": [1]})


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("to [REDACTED_EMAIL] and [REDACTED_EMAIL_2]", ""),
        ("carol@example.net", ""),
        ("[REDACTED_EMAIL_7]", "'[REDACTED_EMAIL_7]' is no placeholder of this call"),
        ("[REDACTED_EMIAL]", "there are [REDACTED_EMAIL], [REDACTED_EMAIL_2]"),
        (["<email_hash:0a1b>"], "'<email_hash:0a1b>' is no placeholder of this call"),
    ],
)
def test_a_placeholder_that_was_not_shown_is_refused(text: Any, refused: str) -> None:
    shown = {"to": "[REDACTED_EMAIL]", "text": "hi, [REDACTED_EMAIL_2]"}
    request = replace(tool_call(schema=None), args=shown)
    if not refused:
        assert check_decision(request, edit(to=text)) == edit(to=text)
    else:
        assert refused in issues(request, edit(to=text))["/edited_action/args/to"]


CONSTRUCTOR = {"lc": 2, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "true"}}


@pytest.mark.parametrize("value", [False, 0, "", [], {}, None, 1.5, "日本語 🚀", CONSTRUCTOR])
def test_falsy_and_other_answers_pass_as_they_are(value: Any) -> None:
    assert check_decision(question(), {"type": "answer", "value": value})["value"] is value


def test_an_answer_is_checked_against_the_schema() -> None:
    request = question({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    assert check_decision(request, {"type": "answer", "value": {"n": 0}})["value"] == {"n": 0}
    wrong = {"type": "answer", "value": {"n": "0"}}
    assert issues(request, wrong) == {"/value/n": "'0' is not of type 'integer'"}
    assert issues(request, {"type": "answer", "value": None}) == {"/value": "None is not of type 'object'"}
    assert issues(request, {"type": "answer"})["/value"] == "is required"
    assert issues(request, {"type": "approve"}) == {"/type": "'approve' is not allowed here: answer"}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://example.invalid/schema.json"},
        {"$ref": "#/$defs/Gone"},
        {"type": "nonsense"},
        {"type": "string", "pattern": "("},
    ],
)
def test_a_schema_that_cannot_be_used_refuses_and_fetches_nothing(schema: Any) -> None:
    found = issues(question(schema), {"type": "answer", "value": "x"})
    assert list(found) == ["/value"]
    assert found["/value"].startswith("cannot be checked, the response schema is unusable")


def test_of_several_branches_the_nearest_is_told() -> None:
    who = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    request = question({"properties": {"who": {"anyOf": [who, {"type": "null"}]}}})
    assert issues(request, {"type": "answer", "value": {"who": {}}}) == {"/value/who/name": "is required"}
    assert issues(request, {"type": "answer", "value": {"who": {"name": 1}}}) == {
        "/value/who/name": "1 is not of type 'string'"
    }


def test_what_is_no_json_is_refused_before_anything_else() -> None:
    found = issues(tool_call(), edit(amount=float("nan"), to={"name": b"b"}))
    assert found == {
        "/edited_action/args/amount": "nan is not a JSON number",
        "/edited_action/args/to/name": "a bytes is not a JSON value",
    }


def test_size_is_bounded() -> None:
    fits = {"type": "answer", "value": "x" * (MAX_BYTES - 100)}
    assert check_decision(question(), fits) == fits
    assert issues(question(), {"type": "answer", "value": "x" * MAX_BYTES}) == {
        "": f"is larger than {MAX_BYTES} bytes of JSON"
    }
    long = issues(question({"type": "integer"}), fits)["/value"]
    assert len(long) < 400
    assert long.endswith("is not of type 'integer'")


def test_a_breakpoint_takes_approve_and_reject() -> None:
    stop = StaticBreakpoint(checkpoint_id="c", when="after", nodes=("n",))
    (request,) = pause_of(run_id="r", agent="a", breakpoint_at=stop).requests
    assert check_decision(request, {"type": "reject", "message": "no"}) == {"type": "reject", "message": "no"}
    assert issues(request, edit()) == {"/type": "'edit' is not allowed here: approve, reject"}


def test_shape_alone() -> None:
    assert parse_decision({"type": "edit", "args": {}}) == {"type": "edit", "args": {}}
    with pytest.raises(InvalidDecision, match="/value: is required"):
        parse_decision({"type": "answer"})


def test_importing_loads_neither_jsonschema_nor_langchain() -> None:
    code = "import placet.approvals.answers, placet.approvals.interrupts, sys; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert {"jsonschema", "langchain", "langchain_core", "langgraph", "celery"}.isdisjoint(out.stdout.split())
