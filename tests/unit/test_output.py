from __future__ import annotations

import io
import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from records import NOW, an_approval
from rich.console import Console

from placet.cli.approvals import decided
from placet.cli.runs import Status
from placet.output import (
    age,
    approval_details,
    approvals_table,
    as_data,
    beginning,
    call,
    compact,
    details,
    plain,
    run_details,
    runs_table,
)
from placet.state.cards import PostedCard
from placet.state.runs import Run, RunStatus


def a_run(**changes: Any) -> Run:
    fields: dict[str, Any] = {
        "id": "r-1",
        "thread_id": "t-1",
        "agent": "support",
        "status": "success",
        "queue": "placet",
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Run(**fields | changes)


def printed(renderable: object) -> str:
    out = io.StringIO()
    Console(file=out, width=200).print(renderable)
    return out.getvalue()


def test_a_request_tells_where_it_is_shown_and_what_could_not_be_delivered() -> None:
    cards = [
        PostedCard(channel="slack", destination="C1", reference="1.2"),
        PostedCard(channel="slack", destination="C2", number=2, tries=3, error="no such channel", due_ms=1),
        PostedCard(channel="slack", destination="C3", reference="1.3", tries=1, error="busy", due_ms=1),
    ]
    shown = printed(approval_details(an_approval(), cards=cards))
    assert "slack:C1 posted" in shown
    assert "slack:C2 (reminder 2) not posted after 3 tries: no such channel; again at " in shown
    assert "slack:C3 not up to date after 1 tries: busy" in shown
    assert "cards" not in printed(approval_details(an_approval()))


def test_a_call_is_one_line() -> None:
    assert call(an_approval()) == 'refund(order="A-17", amount=42.0)'
    assert call(an_approval(kind="question", tool=None, args=None, value={"ask": "ü?"})) == '{"ask": "ü?"}'
    assert call(an_approval(kind="breakpoint", tool="pay", args=None)) == "breakpoint at pay"
    assert call(an_approval(kind="unknown_call", args={"n": 1})) == "may have run: refund(n=1)"
    assert len(call(an_approval(args={"text": "x" * 500}))) == 60


def test_what_a_model_wrote_cannot_steer_the_terminal() -> None:
    assert plain("a\x1b[2Jb\u202ec\r\n") == "a\\u001b[2Jb\\u202ec\\u000d\n"
    assert plain("DE89\ufe01\u3164\u2800\U000e0100") == "DE89\\ufe01\\u3164\\u2800\\udb40\\udd00"
    for hidden in ("\U000e0001", "\ud800", "\u202e"):  # what is typed back as JSON is what was there
        assert json.loads(f'"{plain(hidden)}"') == hidden
    shown = printed(approval_details(an_approval(args={"to": "\x1b[31mx\u202e [bold]y[/bold]"})))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "[bold]y[/bold]" in shown


def test_details_show_all_arguments_and_the_commands_that_decide() -> None:
    shown = printed(approval_details(an_approval()))
    assert '"amount": 42.0' in shown
    assert "placet edit ap-1 --seen abc --args JSON" in shown
    assert "placet respond" not in shown
    assert "asked" not in shown
    late = an_approval(status="decided", decision={"type": "approve"}, decided_by="alice", decided_at=NOW)
    assert "placet approve" not in printed(approval_details(late))


def test_details_show_what_the_gate_says_of_who_may_decide() -> None:
    shown = printed(approval_details(an_approval(policy={"groups": ["finance"]})))
    assert "policy" in shown
    assert "finance" in shown
    assert "policy" not in printed(approval_details(an_approval()))


def test_details_say_what_waits_for_another_deployment() -> None:
    why = "node 'ask', where it waits, is gone"
    assert f"incompatible  {why}" in printed(approval_details(an_approval(incompatible=why)))
    assert f"incompatible  {why}" in printed(run_details(a_run(status="pending", incompatible=why)))
    assert "incompatible" not in printed(run_details(a_run()))


def test_a_call_that_may_have_run_says_what_each_decision_means() -> None:
    asked = an_approval(kind="unknown_call", allowed=("approve", "respond", "reject"))
    lines = printed(approval_details(asked)).splitlines()
    assert any(line.split() == ["tool", "refund"] for line in lines)
    assert [line.partition("  # ")[2].strip() for line in lines if "placet " in line] == [
        "run it again",
        "it is done, this is its result",
        "give it up",
    ]


def test_details_say_why_a_call_did_not_run() -> None:
    decision = {"type": "respond", "message": "I did it"}
    told = an_approval(
        status="decided",
        decision=decision,
        decided_by="al",
        decided_at=NOW,
        outcome="not_run",
        outcome_reason="the reviewer answered in its place",
    )
    assert "not_run (the reviewer answered in its place)" in printed(approval_details(told))


def test_an_edit_shows_what_was_asked_and_what_was_decided() -> None:
    decision = {"type": "edit", "edited_action": {"name": "refund", "args": {"amount": 21.0}}}
    edited = an_approval(status="decided", decision=decision, decided_by="alice", decided_at=NOW)
    lines = printed(approval_details(edited)).splitlines()
    labels = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert labels[:3] == ["approval", "kind", "status"]
    assert labels[4:6] == ["asked", "agent"]
    assert labels[-4:] == ["decided", "decision", "by", "outcome"]
    assert "edit -> amount=21.0" in printed(approvals_table([edited]))


def test_the_command_line_takes_the_status_of_every_run() -> None:
    assert get_args(Status) == get_args(RunStatus)


def test_tables_have_a_line_each_with_whole_ids() -> None:
    run = a_run(id="r-" + "0" * 36, worker="host:12")
    assert run.id in printed(runs_table([run]))
    assert "ap-1" in printed(approvals_table([an_approval()]))
    assert "error" in printed(run_details(a_run(error={"type": "E", "message": "m", "node": None})))


def test_json_of_a_record_has_iso_times() -> None:
    data = json.loads(json.dumps(as_data(a_run())))
    assert data["created_at"] == "2026-11-30T12:00:00+00:00"
    assert data["started_at"] is None


@pytest.mark.parametrize(
    ("decision", "line"),
    [
        ({"type": "approve"}, 'approved by al: refund(order="A-17", amount=42.0) [run r-1]'),
        (
            {"type": "reject", "message": "no"},
            'rejected by al: refund(order="A-17", amount=42.0) (no) [run r-1]',
        ),
        (
            {"type": "edit", "edited_action": {"name": "refund", "args": {"amount": 21.0}}},
            'edited and approved by al: refund(order="A-17", amount=42.0) -> amount=21.0 [run r-1]',
        ),
    ],
)
def test_a_decision_is_told_on_one_line(decision: dict[str, Any], line: str) -> None:
    assert decided(an_approval(status="decided", decision=decision, decided_by="al")) == line


@pytest.mark.parametrize(("seconds", "text"), [(5, "5s"), (65, "1m"), (7300, "2h"), (200_000, "2d")])
def test_age_in_its_largest_unit(seconds: int, text: str) -> None:
    assert age(datetime.now(UTC) - timedelta(seconds=seconds)) == text


HUGE: list[Any] = [{"text": "x" * 12_000_000}, [{"n": n} for n in range(600_000)], "y" * 12_000_000]


@pytest.mark.parametrize("huge", HUGE, ids=["a text", "many values", "no JSON"])
def test_a_huge_value_is_shortened_before_it_is_laid_out(huge: Any) -> None:
    started = time.monotonic()
    for table in (run_details(a_run(input=huge, result=huge)), details({"thread": "t", "values": huge})):
        shown = printed(table)
        assert "(--json shows all of it)" in shown
        assert len(shown) < 100_000
    assert call(an_approval(args={"v": huge})).endswith("…")
    assert "(--json shows all of it)" in printed(approval_details(an_approval(args={"v": huge})))
    assert time.monotonic() - started < 10


def test_what_a_reviewer_is_asked_is_not_shortened() -> None:
    shown = printed(approval_details(an_approval(args={"text": "x" * 50_000})))
    assert shown.count("x") >= 50_000
    assert "--json shows" not in shown


def test_the_list_of_runs_shows_neither_inputs_nor_results() -> None:
    assert "secret" not in printed(runs_table([a_run(input={"a": "secret"}, result="secret")]))


def test_a_cut_text_stays_within_its_limit() -> None:
    assert beginning("abc", limit=3) == "abc"
    assert beginning([1], limit=100) == "[\n  1\n]"
    assert beginning("abcd", limit=3).startswith("abc…")
    assert len(compact("\u202e" * 100)) == 60
    assert compact("x" * 61) == "x" * 59 + "…"
