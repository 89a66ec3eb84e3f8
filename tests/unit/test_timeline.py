from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from placet.execution.timeline import describe
from placet.state.events import Event, EventType

if TYPE_CHECKING:
    from placet.state.runs import RunError


def an_event(type_: EventType, data: Any, ns: tuple[str, ...] = ()) -> Event:
    at = datetime(2026, 11, 30, tzinfo=UTC)
    return Event(id=1, run_id="r-1", type=type_, data=data, at=at, attempt=1, ns=ns, pid=7)


@pytest.mark.parametrize(
    ("type_", "data", "line"),
    [
        ("updates", {"gate": None}, None),
        ("updates", {"gate": None, "act": {"n": 1}}, 'act: {"n": 1}'),
        ("updates", {"tools": {"messages": [{"type": "tool", "content": "paid"}]}}, "tools: paid"),
        (
            "updates",
            {"model": {"messages": [{"content": "", "tool_calls": [{"name": "pay", "args": {"n": 1}}]}]}},
            'model: calls pay({"n": 1})',
        ),
        ("run.interrupted", {"interrupts": [], "approvals": ["a", "b"]}, "waits for a person: a, b"),
        (
            "approval.decided",
            {"approval_id": "a", "reviewer": "ann", "decision": "approve"},
            "approve by ann: a",
        ),
        ("run.ended", {"status": "cancelled", "reason": "no need"}, "cancelled no need"),
        ("run.ended", {"status": "success", "reason": ""}, "success"),
        ("run.incompatible", {"reason": "no agent 'a'"}, "waits for another deployment: no agent 'a'"),
        ("custom", "\x1b[2J", "\\u001b[2J"),
    ],
)
def test_an_event_is_one_line(type_: EventType, data: Any, line: str | None) -> None:
    assert describe(an_event(type_, data)) == line


def test_a_subgraphs_event_names_it() -> None:
    assert describe(an_event("updates", {"n": {"x": 1}}, ("inner", "deep"))) == 'in inner/deep: n: {"x": 1}'


def test_a_call_that_a_node_repeats_is_told_once() -> None:
    calls: dict[str, Any] = {}
    call = {"id": "c-1", "name": "pay", "args": {"n": 1}}
    asks = {"type": "ai", "content": "", "tool_calls": [call]}
    refused = {"type": "tool", "content": "no"}

    def told(node: str, *messages: dict[str, Any]) -> str | None:
        return describe(an_event("updates", {node: {"messages": list(messages)}}), calls=calls)

    assert told("model", asks) == 'model: calls pay({"n": 1})'
    assert told("gate", asks) is None
    assert told("gate", asks, refused) == "gate: no"
    assert told("gate", asks | {"tool_calls": [call | {"args": {"n": 2}}]}) == 'gate: calls pay({"n": 2})'


def test_the_end_of_a_failed_run_says_why() -> None:
    ended = an_event("run.ended", {"status": "error", "reason": "an error ended the run"})
    error: RunError = {"type": "ZeroDivisionError", "message": "division by zero", "node": "slow"}
    assert describe(ended, error=error) == "error ZeroDivisionError: division by zero (node slow)"
