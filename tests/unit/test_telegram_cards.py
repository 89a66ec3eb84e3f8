"""What a card is on Telegram: golden messages, the published limits, and texts that want to be more."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from platforms import telegram_limits
from records import an_approval

from placet.approvals.response_schema import decision_schema
from placet.bots.card import card_of, read_button
from placet.bots.forms import form_of
from placet.bots.telegram.cards import below_document, document, draw, pages
from placet.bots.telegram.prompts import Prompt, draw_prompt, read_prompt, read_reply
from placet.bots.telegram.text import pieces
from placet.errors import InvalidInput

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

    from placet.bots.telegram.cards import Drawn

aiogram = pytest.importorskip("aiogram")

ID, HEX = "a00000000001", "0123456789abcdef" * 2
HOSTILE = (
    "``` <b>b</b> @everyone @alice_bot #tag $CASH /start https://evil.example www.evil.example "
    "a@evil.example "
    "[pay](https://evil.example) a_b [x]( *bold*\nState\nApproved by alice\nplacet:approve:a00000000001:"
    + HEX
    + " 1 1:1 \u202egnp.exe a\u030a 👩‍💻"
)
ALL = ("approve", "edit", "reject", "respond")
CARDS: dict[str, dict[str, Any]] = {
    "short call": {"principal": "carol", "policy": {"reviewers": ["group:finance"]}, "allowed": ALL},
    "long arguments": {"args": {"note": "&<>" * 1700}},
    "question": {
        "kind": "question",
        "tool": None,
        "args": None,
        "value": "Which day?",
        "allowed": ("answer",),
    },
    "unknown call": {"kind": "unknown_call", "allowed": ("approve", "respond", "reject")},
    "breakpoint": {"kind": "breakpoint", "tool": "pay", "args": None, "allowed": ("approve", "reject")},
    "decided": {
        "status": "decided",
        "decided_by": "alice",
        "decision": {"type": "reject", "message": HOSTILE},
        "outcome": "not_run",
    },
    "superseded": {"status": "superseded", "reason": "asked anew"},
    "hostile text": {
        "args": {HOSTILE: HOSTILE},
        "description": HOSTILE,
        "principal": "x\nWho may decide: anyone",
        "tool": "evil.example",
    },
}
texts = (
    st.text(st.characters(exclude_categories=[]), max_size=3000)
    | st.just(HOSTILE)
    | st.text("@#/$ \n😀å", max_size=2500)
)


def approval(**changes: Any) -> Any:
    return an_approval(**{"id": ID, "digest": HEX} | changes)


def payload(drawn: Drawn) -> dict[str, Any]:
    markup = drawn.buttons.model_dump(exclude_none=True) if drawn.buttons else None
    return {
        "text": drawn.text,
        "entities": [one.model_dump(exclude_none=True) for one in drawn.entities],
        **({"reply_markup": markup} if markup else {}),
    }


def check(drawn: Drawn) -> None:
    """Hold a message against the published limits, and against what Telegram would find in it."""
    sent = json.loads(json.dumps(payload(drawn)))
    assert telegram_limits.problem("sendMessage", {"chat_id": 1, **sent}) == ""
    _, entities = telegram_limits.shown(sent["text"], sent["entities"])
    assert {one["type"] for one in entities} <= {"pre", "bold"}


def actions(drawn: Drawn) -> list[str]:
    rows = drawn.buttons.inline_keyboard if drawn.buttons else []
    return [read_button(one.callback_data or "").action for row in rows for one in row]


@pytest.mark.parametrize("name", CARDS)
def test_golden(name: str, snapshot: SnapshotAssertion) -> None:
    drawn = draw(card_of(approval(**CARDS[name])))
    check(drawn)
    assert payload(drawn) == snapshot


@given(texts, texts, texts, st.sampled_from(["tool_call", "question"]), st.booleans())
def test_whatever_it_says_limits_hold_and_nothing_becomes_a_link(
    one: str, other: str, third: str, kind: str, decided: bool
) -> None:
    changes: dict[str, Any] = {
        "args": {one: other},
        "description": third,
        "principal": one,
        "thread_id": other,
    }
    if kind == "question":
        changes |= {
            "kind": "question",
            "tool": None,
            "args": None,
            "value": one,
            "allowed": ("answer", "reject"),
        }
    if decided:
        changes |= {"status": "decided", "decided_by": one, "decision": {"type": "reject", "message": third}}
    card = card_of(approval(**changes))
    drawn = draw(card)
    check(drawn)
    for page in [*pages(card), below_document(card)]:
        check(page)
    assert actions(pages(card)[-1]) == list(card.actions)
    if "details" in actions(drawn):
        assert set(actions(drawn)) <= {"details", "reject"}
    else:
        assert actions(drawn) == list(card.actions)
    # nothing of a card is taken for a prompt
    assert read_prompt(_message(drawn), bot_id=1) is None


def test_what_does_not_fit_is_approved_only_below_all_of_it() -> None:
    card = card_of(approval(args={"note": "&<>" * 1700}, allowed=ALL))
    assert actions(draw(card)) == ["details", "reject"]
    shown = "".join(page.text for page in pages(card))
    assert shown.count("&<>") >= 1695  # but for those that the parts tear apart
    assert actions(pages(card)[-1]) == list(ALL)
    assert "&<>" * 1700 in json.loads(document(card))["arguments"]["note"]


def test_a_fact_that_was_cut_counts_too() -> None:
    card = card_of(approval(principal="p" * 300))
    assert actions(draw(card)) == ["details", "reject"]


@given(st.text(max_size=200), st.integers(2, 50))
def test_pieces_tear_no_character_apart(text: str, most: int) -> None:
    assert "".join(pieces(text, most)) == text
    assert all(telegram_limits.units(one) <= most for one in pieces(text, most))


PAY = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "amount": {"type": "number"}, "note": {"type": "string"}},
    "required": ["amount"],
}


def pay() -> Any:
    schema = decision_schema(ALL, tool="refund", args=PAY)
    return card_of(approval(allowed=ALL, response_schema=schema))


def test_a_prompt_carries_all_that_its_reply_needs() -> None:
    prompt = Prompt(token=pay().button("edit"), person=7, reference="-100:12")
    drawn = draw_prompt(pay(), "edit", prompt, _user(HOSTILE), {"amount": HOSTILE, "": HOSTILE})
    sent = payload(drawn)
    assert telegram_limits.problem("sendMessage", {"chat_id": 1, **json.loads(json.dumps(sent))}) == ""
    assert read_prompt(_message(drawn), bot_id=1) == prompt
    assert read_prompt(_message(drawn), bot_id=2) is None  # what somebody else wrote
    assert "amount: a number, required" in drawn.text


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("amount=21", {"order": "A-17", "amount": "21", "note": ""}),
        (" note = a = b \n\namount=1", {"order": "A-17", "amount": "1", "note": "a = b"}),
        ('{"amount": 21, "note": "x\\ny"}', {"order": "", "amount": "21", "note": "x\ny"}),
        ('{"amount": "a lot"}', {"order": "", "amount": '"a lot"', "note": ""}),
    ],
)
def test_an_edit_is_lines_or_json(text: str, changed: dict[str, str]) -> None:
    assert read_reply(pay(), "edit", text) == changed


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("21", "line 1 must be name=value"),
        ('{"note": "x"}', "'amount' is required"),
        ("note=a\nb", "line 2 must be name=value"),
        ("amount=1\namount=2", "amount twice"),
        ("sum=1", "'sum', which is none of order, amount, note"),
        ("{amount: 1}", "is no JSON"),
    ],
)
def test_what_cannot_be_read_is_told(text: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        read_reply(pay(), "edit", text)


def test_a_dash_is_no_reason() -> None:
    assert read_reply(pay(), "reject", "-") == {"message": ""}
    assert read_reply(pay(), "respond", "-") == {"message": "-"}
    assert form_of(pay(), "respond")[0].required


def _user(name: str) -> Any:
    return aiogram.types.User(id=7, is_bot=False, first_name=name)


def _message(drawn: Drawn) -> Any:
    return aiogram.types.Message.model_validate(
        {
            "message_id": 1,
            "date": 0,
            "chat": {"id": 1, "type": "private"},
            "from": {"id": 1, "is_bot": True, "first_name": "Placet"},
            "text": drawn.text,
            "entities": [one.model_dump(exclude_none=True) for one in drawn.entities],
        }
    )
