"""What a card says of a request, before any platform draws it."""

from __future__ import annotations

from typing import Any

import pytest
from records import an_approval

from placet.bots.card import card_of, read_button
from placet.bots.forms import decision_of, form_of
from placet.errors import InvalidDecision

HEX = "0123456789abcdef" * 2
ID = "a00000000001"


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "Waits for a decision"),
        ({"incompatible": "no node x"}, "Waits for another deployment: no node x"),
        ({"status": "cancelled", "reason": "not needed"}, "Cancelled: not needed"),
        ({"status": "superseded"}, "Superseded"),
        ({"status": "expired", "reason": "too late"}, "Expired: too late"),
        ({"decision": {"type": "approve"}}, "Approved by alice"),
        ({"decision": {"type": "approve"}, "outcome": "succeeded"}, "Approved by alice: it ran"),
        ({"decision": {"type": "approve"}, "outcome": "failed"}, "Approved by alice: it ran and failed"),
        (
            {"decision": {"type": "approve"}, "outcome": "unknown"},
            "Approved by alice: whether it ran is not known",
        ),
        (
            {"decision": {"type": "edit", "edited_action": {"name": "refund", "args": {"amount": 1}}}},
            "Edited and approved by alice -> amount=1",
        ),
        ({"decision": {"type": "reject", "message": "no"}, "outcome": "not_run"}, "Rejected by alice (no)"),
        ({"decision": {"type": "answer", "value": False}, "kind": "question"}, "Answered by alice -> false"),
    ],
)
def test_its_state_tells_what_became_of_it(changes: dict[str, Any], state: str) -> None:
    if "decision" in changes:
        changes = {"status": "decided", "decided_by": "alice", **changes}
    card = card_of(an_approval(**changes))
    assert card.state == state
    assert bool(card.actions) == card.open == (card.approval.status == "pending")


def test_it_is_drawn_anew_when_anything_that_it_shows_changes() -> None:
    first = an_approval()
    changes: list[dict[str, Any]] = [
        {"args": {"order": "A-18"}},
        {"digest": "other"},
        {"status": "cancelled"},
        {"description": "x"},
        {"principal": "carol"},
        {"policy": {"reviewers": ["alice"]}},
        {"allowed": ("approve",)},
        {"incompatible": "x"},
    ]
    drawn = {card_of(an_approval(**one)).drawn for one in changes}
    assert len(drawn) == len(changes)
    assert card_of(first).drawn not in drawn
    assert card_of(first).drawn == card_of(an_approval(tool_call_id="c-2")).drawn


def test_what_cannot_be_seen_is_written_out_everywhere() -> None:
    hidden = "a\u202eb\u200bc\x07\N{ZERO WIDTH JOINER}"
    card = card_of(
        an_approval(args={hidden: hidden}, description=hidden, tool=f"{hidden}\nRejected", principal=hidden)
    )
    shown = "\n".join([card.heading, card.state, card.description, card.content, *(v for _, v in card.facts)])
    assert not set(shown) & set("\u202e\u200b\x07\N{ZERO WIDTH JOINER}")
    assert "\\u202e" in card.heading
    assert "\n" not in card.heading


def test_a_button_comes_back_as_it_went() -> None:
    card = card_of(an_approval(id=ID, digest=HEX))
    for action in ("approve", "edit", "reject", "respond", "answer", "details"):
        found = read_button(card.button(action))
        assert (found.action, found.approval_id, found.digest) == (action, ID, HEX)


def test_a_call_that_may_have_run_has_buttons_that_say_what_they_come_to() -> None:
    card = card_of(an_approval(kind="unknown_call", allowed=("approve", "respond", "reject")))
    labels = [card.label(action) for action in card.actions]
    assert labels == ["Run it again", "It is done", "Give it up"]
    assert [one.label for one in form_of(card, "respond")] == [
        "What the call came to (the agent reads it as its result)"
    ]


def test_without_a_schema_an_edit_keeps_the_types_that_were_shown() -> None:
    args = {"text": "1", "number": 1, "truth": True, "list": [1]}
    card = card_of(an_approval(args=args))
    assert [one.kind for one in form_of(card, "edit")] == ["text", "json", "boolean", "json"]
    typed = {"text": "2", "number": "2", "truth": "false", "list": "[2]"}
    assert decision_of(card, "edit", typed)["edited_action"]["args"] == {
        "text": "2",
        "number": 2,
        "truth": False,
        "list": [2],
    }
    with pytest.raises(InvalidDecision) as caught:
        decision_of(card, "edit", {"number": "two", "truth": "maybe"})
    assert [issue["path"] for issue in caught.value.issues] == [
        "/edited_action/args/number",
        "/edited_action/args/truth",
    ]


def test_json_that_is_nested_without_end_is_told_to_be_none() -> None:
    question = card_of(
        an_approval(kind="question", value="?", allowed=("answer",), response_schema={"type": "array"})
    )
    with pytest.raises(InvalidDecision, match="must be JSON"):
        decision_of(question, "answer", {"value": "[" * 4000})
