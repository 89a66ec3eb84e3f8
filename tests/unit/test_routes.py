"""The routing file: which request goes where, and when again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from records import an_approval

from placet.bots.routes import Routes
from placet.errors import InvalidSettings

if TYPE_CHECKING:
    from pathlib import Path

FILE = """
routes:
- match: {agent: support, tool: [refund*, pay]}
  to: [slack:C1, "telegram:-100"]
  remind_seconds: 600
  escalate:
  - {after_seconds: 300, to: slack:CLEADS}
- match: {reviewers: group:finance}
  to: slack:CFIN
- match: {principal: "vip-*", kind: question}
  to: slack:CVIP
- to: [slack:CALL]
"""


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def make(text: str = FILE, channel: str = "slack") -> Routes:
        path = tmp_path / "routes.yaml"
        path.write_text(text)
        return Routes.read(str(path), channel=channel)

    return make


def test_the_first_route_that_matches_is_taken(read: Any) -> None:
    routes = read()

    def to(**changes: Any) -> list[str]:
        return list(routes.wanted(an_approval(**changes), "slack", 0))

    assert to(agent="support", tool="refund_all") == ["C1"]
    assert to(agent="support", tool="pay") == ["C1"]
    assert to(agent="support", tool="mail") == ["CALL"]
    assert to(agent="sales", tool="pay", policy={"reviewers": ["bob", "group:finance"]}) == ["CFIN"]
    assert to(agent="sales", kind="question", principal="vip-7") == ["CVIP"]
    assert to(agent="sales", kind="tool_call", principal="vip-7") == ["CALL"]
    assert list(routes.wanted(an_approval(agent="support", tool="pay"), "telegram", 0)) == ["-100"]


def test_reminders_and_escalations_come_in_time(read: Any) -> None:
    routes, one = read(), an_approval(agent="support", tool="pay")
    assert routes.wanted(one, "slack", 299) == {"C1": 0}
    assert routes.next_change(one, 299) == pytest.approx(1)
    assert routes.wanted(one, "slack", 300) == {"C1": 0, "CLEADS": 0}
    assert routes.next_change(one, 300) == pytest.approx(300)
    assert routes.wanted(one, "slack", 1900) == {"C1": 3, "CLEADS": 0}
    assert routes.next_change(an_approval(agent="sales"), 5) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("routes: []", "routes: "),
        ("routes:\n- to: C1", "'C1' must be channel:destination"),
        ("routes:\n- {to: slack:C1, remind: 5}", "routes.0.remind: "),
        ("routes:\n- {to: slack:C1, remind_seconds: 0}", "routes.0.remind_seconds: "),
        ("routes:\n- {to: slack:C1, match: {tools: x}}", "routes.0.match.tools: "),
        ("routes:\n- {to: slack:C1, match: {kind: toolcall}}", "'toolcall' is none of tool_call, question"),
        ("routes:\n- to: telegram:5", "no route leads to slack:"),
        ("x", "the file: "),
    ],
)
def test_a_file_that_cannot_be_used_is_told(read: Any, text: str, told: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        read(text)
    assert str(caught.value).startswith("PLACET_ROUTES: ")
    assert told in str(caught.value)


def test_no_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="PLACET_ROUTES: must name a YAML file"):
        Routes.read("", channel="slack")
    with pytest.raises(InvalidSettings, match=r"none\.yaml: No such file"):
        Routes.read(str(tmp_path / "none.yaml"), channel="slack")
