from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from placet.state.events import Event, EventType
from placet.timeline import describe


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
        ("custom", "\x1b[2J", "\\u001b[2J"),
    ],
)
def test_an_event_is_one_line(type_: EventType, data: Any, line: str | None) -> None:
    assert describe(an_event(type_, data)) == line


def test_a_subgraphs_event_names_it() -> None:
    assert describe(an_event("updates", {"n": {"x": 1}}, ("inner", "deep"))) == 'in inner/deep: n: {"x": 1}'
