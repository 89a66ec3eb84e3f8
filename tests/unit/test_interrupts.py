from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.types import Interrupt

from placet.approvals.interrupts import Pause, StaticBreakpoint, pause_of
from placet.approvals.response_schema import decision_schema
from placet.approvals.tool_calls import PendingCall, is_tool_approval_interrupt, pending_tool_calls
from placet.digest import own_pause_id


def batched(*names: str, allowed: Any = ("approve", "reject"), **more: Any) -> dict[str, Any]:
    return {
        "action_requests": [{"name": name, "args": {"n": 1}, "description": f"do {name}"} for name in names],
        "review_configs": [{"action_name": name, "allowed_decisions": list(allowed)} for name in names],
        **more,
    }


def per_call(**more: Any) -> dict[str, Any]:
    return {
        "type": "tool_approval",
        "tool_call_id": "c1",
        "name": "pay",
        "args": {"n": 1},
        "description": "d",
        **more,
    }


def pause(*interrupts: Interrupt, **more: Any) -> Pause:
    return pause_of(run_id="r1", agent="support", interrupts=interrupts, **more)


def test_batched_makes_one_request_for_each_action() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/N"}},
        "$defs": {"N": {"type": "integer"}},
        "additionalProperties": False,
    }
    value = batched("pay", "mail", allowed=["edit", "reject"])
    requests = pause(Interrupt(value, id="i"), tool_schemas={"pay": schema}).requests
    assert [(r.tool, r.index, r.count, r.kind, r.mode) for r in requests] == [
        ("pay", 0, 2, "tool_call", "batched"),
        ("mail", 1, 2, "tool_call", "batched"),
    ]
    pay, mail = requests
    assert pay.allowed == ("edit", "reject")
    assert pay.description == "do pay"
    assert pay.args == {"n": 1}
    assert pay.value is None
    assert pay.response_schema == {
        "oneOf": [
            {
                "type": "object",
                "properties": {
                    "type": {"const": "edit"},
                    "edited_action": {
                        "type": "object",
                        "properties": {
                            "name": {"const": "pay"},
                            "args": {
                                "type": "object",
                                "properties": {"n": {"$ref": "#/$defs/N"}},
                                "additionalProperties": False,
                            },
                        },
                        "required": ["name", "args"],
                        "additionalProperties": False,
                    },
                },
                "required": ["type", "edited_action"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {"type": {"const": "reject"}, "message": {"type": "string"}},
                "required": ["type"],
                "additionalProperties": False,
            },
        ],
        "$defs": {"N": {"type": "integer"}},
    }
    assert mail.response_schema is not None
    args = mail.response_schema["oneOf"][0]["properties"]["edited_action"]["properties"]["args"]
    assert args == {"type": "object"}


def test_batched_reads_the_config_by_its_name_not_its_place() -> None:
    value = batched("pay", "mail")
    value["review_configs"] = [
        {"action_name": "mail", "allowed_decisions": ["respond"]},
        {"action_name": "pay", "allowed_decisions": ["reject"]},
    ]
    assert [r.allowed for r in pause(Interrupt(value, id="i")).requests] == [("reject",), ("respond",)]


@pytest.mark.parametrize(
    "value",
    [
        batched(),
        batched("pay", review_configs=[]),
        batched("pay", review_configs=[{"action_name": "other", "allowed_decisions": ["approve"]}]),
        batched("pay", allowed=["approve", "always"]),
        batched("pay", allowed=[]),
        batched("pay", allowed=[["approve"]]),
        batched("pay", review_configs=[{"action_name": "pay", "allowed_decision": ["approve"]}]),
        batched("pay", action_requests=[{"name": "pay", "args": "rm -rf"}]),
        batched("pay", action_requests=[{"name": "pay", "args": {1: "a", "1": "b"}}]),
        batched("pay", action_requests=[{"name": ["pay"], "args": {}}]),
        batched("pay", action_requests=[None]),
        batched(
            "pay",
            "pay",
            review_configs=[
                {"action_name": "pay", "allowed_decisions": ["approve"]},
                {"action_name": "pay", "allowed_decisions": ["reject"]},
            ],
        ),
        {"action_requests": []},
    ],
)
def test_a_malformed_batch_is_a_question(value: Any) -> None:
    (request,) = pause(Interrupt(value, id="i")).requests
    assert (request.kind, request.mode, request.allowed) == ("question", "raw", ("answer",))
    assert request.tool is None


def test_equal_calls_pair_off_only_when_there_are_as_many() -> None:
    def ids(actions: int, *calls: str) -> list[str | None]:
        pending = [PendingCall(call, "pay", {"n": 1}) for call in calls]
        made = pause(Interrupt(batched(*["pay"] * actions), id="i"), pending=pending)
        return [request.tool_call_id for request in made.requests]

    assert ids(1, "a") == ["a"]
    assert ids(2, "a", "b") == ["a", "b"]
    assert ids(1, "a", "b") == [None]
    assert ids(2, "a") == [None, None]
    assert ids(1) == [None]


def test_pending_calls_are_those_of_the_last_ai_message_without_a_result() -> None:
    def ai(*ids: str) -> AIMessage:
        return AIMessage(
            "", tool_calls=[{"name": "pay", "args": {"n": Decimal("1.10")}, "id": i} for i in ids]
        )

    messages = [ai("old"), HumanMessage("go"), ai("a", "b"), ToolMessage("done", tool_call_id="a")]
    assert pending_tool_calls(messages) == [PendingCall("b", "pay", {"n": "1.10"})]
    assert pending_tool_calls([]) == []


def test_per_call_takes_what_its_schema_offers() -> None:
    schema = decision_schema(["approve", "edit"], tool="pay", args={"type": "object", "required": ["n"]})
    (request,) = pause(Interrupt(per_call(), id="i", response_schema=schema)).requests
    assert (request.kind, request.mode, request.index, request.count) == ("tool_call", "per_call", 0, 1)
    # an agent inside a tool may use the id of the call that it runs in
    outside = [PendingCall("c1", "delegate", {})]
    (inside,) = pause(Interrupt(per_call(), id="i", response_schema=schema), pending=outside).requests
    assert (inside.kind, inside.tool) == ("tool_call", "pay")
    assert (request.tool, request.args, request.tool_call_id) == ("pay", {"n": 1}, "c1")
    assert request.allowed == ("approve", "edit")
    assert request.response_schema == schema


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (per_call(), None),
        (per_call(), {"type": "object"}),
        (per_call(), {"oneOf": 5}),
        (
            per_call(),
            {"oneOf": [{"$ref": "other.json#/$defs/A"}], "$defs": {"A": decision_schema(["approve"])}},
        ),
        (per_call(), {"oneOf": [{"$ref": "#"}]}),
        (per_call(), {"oneOf": [{"properties": {"type": {"const": "approve"}}}, {"type": "string"}]}),
        (per_call(), {"properties": {"type": {"const": "always"}}}),
        (per_call(args="x"), decision_schema(["approve"])),
        (per_call(tool_call_id=None), decision_schema(["approve"])),
        (per_call(type="tool_approval "), decision_schema(["approve"])),
    ],
)
def test_what_merely_looks_like_a_tool_approval_is_a_question(value: Any, schema: Any) -> None:
    pending = [PendingCall("c1", "pay", {"n": 1})]
    (request,) = pause(Interrupt(value, id="i", response_schema=schema), pending=pending).requests
    assert (request.kind, request.allowed, request.response_schema) == ("question", ("answer",), schema)
    assert request.value == value


def test_is_tool_approval_interrupt_looks_at_the_shape() -> None:
    assert is_tool_approval_interrupt(Interrupt(per_call(), id="i"))
    assert is_tool_approval_interrupt({"id": "i", "value": per_call()})
    for value in (None, "tool_approval", {}, per_call(name=1), per_call(args=[]), batched("pay")):
        assert not is_tool_approval_interrupt(Interrupt(value, id="i"))


@pytest.mark.parametrize(
    "value", [None, False, 0, "", [], {}, "日本語 🚀", {"type": "placet.timer", "due": 5}]
)
def test_anything_else_is_a_question(value: Any) -> None:
    made = pause(Interrupt(value, id="i", response_schema={"type": "boolean"}))
    (request,) = made.requests
    assert (request.kind, request.mode, request.allowed) == ("question", "raw", ("answer",))
    assert request.value == value
    assert made.wake_at_ms is None
    assert made.interrupts == [{"id": "i", "value": value, "response_schema": {"type": "boolean"}}]


def test_what_cannot_be_shown_cannot_be_approved() -> None:
    value = per_call(args={1: "a", "1": "b"})
    (request,) = pause(Interrupt(value, id="i", response_schema=decision_schema(["approve"]))).requests
    assert (request.kind, request.value) == ("question", "cannot be shown: two keys read alike: '1'")


def test_a_schema_that_cannot_be_shown_takes_nothing() -> None:
    circular: dict[str, Any] = {}
    circular["not"] = circular
    (request,) = pause(Interrupt("ask", id="i", response_schema=circular)).requests
    assert request.response_schema == {"not": {}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Please look", "Please look"),
        ("Approve?\n\nTool: pay\nArgs: {'n': Decimal('1.10')}", "Approve?"),
        ("Approve?\n\nTool: pay\nArgs: read them well", "Approve?\n\nTool: pay\nArgs: read them well"),
    ],
)
def test_langchains_repr_of_the_arguments_is_left_out(text: str, expected: str) -> None:
    args = {"n": Decimal("1.10")}
    batch = batched("pay", action_requests=[{"name": "pay", "args": args, "description": text}])
    single = Interrupt(
        per_call(args=args, description=text), id="j", response_schema=decision_schema(["approve"])
    )
    requests = pause(Interrupt(batch, id="i"), single).requests
    assert [(r.description, r.args, r.kind) for r in requests] == [(expected, {"n": "1.10"}, "tool_call")] * 2


def test_own_timers_are_no_request_but_a_time_to_wake() -> None:
    timers = [{"type": "placet.timer", "key": key, "due": due} for key, due in [("a", 9000), ("b", 5000)]]
    made = pause(*[Interrupt(value, id=own_pause_id(value)) for value in timers], Interrupt("ask", id="i"))
    assert made.wake_at_ms == 5000
    assert [request.interrupt_id for request in made.requests] == ["i"]
    assert [listed["id"] for listed in made.interrupts] == ["i"]


def test_a_timer_that_is_not_ours_or_unsound_is_a_question() -> None:
    unsound = {"type": "placet.timer", "key": "a", "due": "soon"}
    copied = {"type": "placet.timer", "key": "a", "due": 5000}
    made = pause(Interrupt(unsound, id=own_pause_id(unsound)), Interrupt(copied, id="from-langgraph"))
    assert made.wake_at_ms is None
    assert [request.kind for request in made.requests] == ["question", "question"]


def test_a_static_breakpoint_is_asked_about_at_its_checkpoint() -> None:
    stop = StaticBreakpoint(checkpoint_id="1f0", when="before", nodes=("tools", "audit"))
    (request,) = pause(breakpoint_at=stop).requests
    assert (request.kind, request.mode, request.allowed) == ("breakpoint", "static", ("approve", "reject"))
    assert request.tool == "audit, tools"
    assert request.description == "The run has stopped before audit, tools."
    (again,) = pause(breakpoint_at=replace(stop, nodes=("audit", "tools"))).requests
    assert again == request
    others = [
        replace(stop, checkpoint_id="1f1"),
        replace(stop, when="after"),
        replace(stop, nodes=("tools",)),
    ]
    assert len({pause(breakpoint_at=s).requests[0].id for s in [stop, *others]}) == 4


def test_an_interrupt_seen_twice_counts_once() -> None:
    made = pause(Interrupt("ask", id="i"), Interrupt("ask", id="i"))
    assert (len(made.requests), len(made.interrupts)) == (1, 1)


def test_ids_tell_runs_and_pauses_apart_and_digests_what_is_shown() -> None:
    base = pause(Interrupt("ask", id="i")).requests[0]
    other_run = pause_of(run_id="r2", agent="support", interrupts=[Interrupt("ask", id="i")]).requests[0]
    other_agent = pause_of(run_id="r1", agent="x", interrupts=[Interrupt("ask", id="i")]).requests[0]
    other_pause = pause(Interrupt("ask", id="j")).requests[0]
    assert base.digest == other_run.digest == other_pause.digest != other_agent.digest
    assert len({base.id, other_run.id, other_agent.id, other_pause.id}) == 4
    twins = pause(Interrupt(batched("pay", "pay"), id="i")).requests
    assert twins[0].digest == twins[1].digest
    assert twins[0].id != twins[1].id


def test_nothing_to_ask_is_no_request() -> None:
    assert pause() == Pause(requests=(), wake_at_ms=None, sleeps="", interrupts=[])


def unknown(**changes: Any) -> dict[str, Any]:
    return {
        "type": "placet.unknown",
        "run_id": "r1",
        "call": ["key", 1, 1],
        "tool": "pay",
        "args": {"n": 1},
        "tool_call_id": "c1",
        "description": "pay may have run",
        **changes,
    }


def test_a_call_that_may_have_run_is_a_request_of_its_own_kind() -> None:
    value = unknown()
    (request,) = pause(Interrupt(value, id=own_pause_id(value))).requests
    assert (request.kind, request.mode, request.tool, request.args) == (
        "unknown_call",
        "own",
        "pay",
        {"n": 1},
    )
    assert request.allowed == ("approve", "respond", "reject")
    assert request.response_schema == decision_schema(("approve", "respond", "reject"))
    assert (request.tool_call_id, request.description) == ("c1", "pay may have run")


def test_each_start_is_another_question() -> None:
    ids = set()
    for start in (1, 2):
        value = unknown(call=["key", 1, start])
        ids.add(pause(Interrupt(value, id=own_pause_id(value))).requests[0].id)
    assert len(ids) == 2


def test_what_only_copies_such_a_pause_is_a_question() -> None:
    (request,) = pause(Interrupt(unknown(), id="an id of LangGraph's")).requests
    assert request.kind == "question"
