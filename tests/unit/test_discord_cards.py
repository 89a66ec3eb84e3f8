"""Cards, forms and details as Discord gets them: golden payloads, within limits, hostile texts too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from platforms.cards import ALL, card, requests
from platforms.discord_limits import message_problems, modal_problems, size, walk
from platforms.discord_markdown import read
from platforms.discord_reading import buttons_of, pings_of, text_of

from placet.bots import discord
from placet.bots.discord.cards import all_of, message_of
from placet.bots.discord.forms import ALL as AS_JSON
from placet.bots.discord.forms import modal_of, quoted, typed_into
from placet.bots.discord.text import code_block, escape, exact_json
from placet.errors import InvalidSettings

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

    from placet.bots.card import Action

NOBODY: dict[str, Any] = {"parse": []}
HOSTILE = """``` @everyone <@80351> <#3> </pay:1> [pay](https://e.x) https://e.x **b** ||s|| `c` \\ :bomb:
# heading
> quote
-# Request: 1
**Approved by alice**
1. item \u202egnp \x07 ```"""
CARDS = requests(HOSTILE)


def drawn(**changes: Any) -> dict[str, Any]:
    view: Any = message_of(card(**changes))
    made: dict[str, Any] = {"components": view.to_components()}
    assert message_problems({**made, "allowed_mentions": NOBODY}, layout=True) == []
    return made


@pytest.mark.parametrize("name", CARDS)
async def test_messages_are_as_they_were_and_within_discords_limits(
    name: str, snapshot: SnapshotAssertion
) -> None:
    made = drawn(**CARDS[name])
    assert pings_of(made) == []
    assert made == snapshot


async def test_what_does_not_fit_has_no_approval_and_details_show_all_of_it() -> None:
    long: dict[str, Any] = {
        "args": {"note": "x" * 4000},
        "description": "x" * 4000,
        "tool": "x" * 4000,
        "principal": "x" * 4000,
        "policy": {"reviewers": ["x" * 4000]},
    }
    for name, value in long.items():
        changes = {"allowed": ALL, name: value}
        made = drawn(**changes)
        assert set(buttons_of(made)) == {"reject", "details"}
        assert "x" * 200 in text_of(made)
        assert "x" * 4000 in all_of(card(**changes))


async def test_a_closed_request_has_no_buttons_and_its_state_stands_first() -> None:
    made = drawn(**CARDS["decided"])
    assert buttons_of(made) == {}
    assert text_of(made).startswith("Edited and approved by alice")


PIECES = [*"`*_~|<>@#:[]()\\/-. \n1a", "```", "https://e.x", "@here", "<@1>", "-# ", "\U0001f4a3"]
HOSTILE_TEXT = st.lists(st.sampled_from(PIECES)).map("".join)


@given(HOSTILE_TEXT, HOSTILE_TEXT)
async def test_nothing_gets_out_of_a_text_and_all_of_it_is_read(text: str, other: str) -> None:
    made = drawn(args={"note": text}, description=other, tool=text, principal=other, allowed=ALL)
    assert pings_of(made) == []
    question = drawn(kind="question", value=text, args=None, description=other, allowed=("answer",))
    assert pings_of(question) == []
    escaped, whole = escape(text)
    assert whole
    assert read(escaped)[0] == text.replace("\n", " ↵ ")


@given(st.text(), st.integers(20, 200))
def test_a_cut_leaves_nothing_half(text: str, most: int) -> None:
    escaped, whole = escape(text, most)
    assert size(escaped) <= most
    assert whole == (not escaped.endswith("…") or text.endswith("…"))
    block, _ = code_block(text, most, "json")
    assert size(block) <= most
    assert not block or [mark for mark, _ in read(block)[1]] == ["block"]


async def test_a_form_has_a_field_for_each_argument(snapshot: SnapshotAssertion) -> None:
    modal = modal_of(card(**CARDS["a call"]), "edit", {})
    assert modal is not None
    assert modal_problems(modal.to_dict()) == []
    assert modal.to_dict() == snapshot


AWKWARD: dict[str, Any] = {
    "six arguments": {str(number): number for number in range(6)},
    "a name that is long": {"n" * 46: 1},
    "a text that is trimmed": {"note": " a "},
    "a text that cannot be seen": {"note": "a\u202eb\U000e0001`"},
    "no arguments": {},
}


@pytest.mark.parametrize("name", AWKWARD)
async def test_arguments_that_fields_would_not_give_back_are_one_json_text(name: str) -> None:
    modal = modal_of(card(args=AWKWARD[name], allowed=ALL), "edit", {})
    assert modal is not None
    made = modal.to_dict()
    assert modal_problems(made) == []
    assert made["custom_id"].endswith(AS_JSON)
    assert json.loads(made["components"][0]["component"]["value"]) == AWKWARD[name]


async def test_arguments_that_no_form_holds_have_none() -> None:
    assert modal_of(card(args={"note": "x" * 4001}, allowed=ALL), "edit", {}) is None


async def test_every_form_is_within_limits_whatever_a_schema_says() -> None:
    for choices in (
        ["a", "b"],
        [str(number) for number in range(26)],
        ["", "x"],
        ["y" * 101, "z"],
        ["q", "q"],
    ):
        question = card(
            kind="question", value="?", args=None, allowed=("answer",), response_schema={"enum": choices}
        )
        modal = modal_of(question, "answer", {})
        assert modal is not None
        assert modal_problems(modal.to_dict()) == []
    actions: tuple[Action, ...] = ("edit", "reject", "respond")
    for action in actions:
        modal = modal_of(card(kind="unknown_call", tool="t" * 99, allowed=ALL), action, {})
        assert modal is not None
        assert modal_problems(modal.to_dict()) == []


def test_what_was_typed_is_read_from_fields_and_choices() -> None:
    sent = [
        {"type": 18, "component": {"type": 4, "custom_id": "note", "value": "a"}},
        {"type": 18, "component": {"type": 3, "custom_id": "reason", "values": ["late"]}},
        {"type": 18, "component": {"type": 3, "custom_id": "express", "values": []}},
        {"type": 1, "components": [{"type": 4, "custom_id": "old", "value": "b"}]},
    ]
    assert typed_into(sent) == {"note": "a", "reason": "late", "express": "", "old": "b"}


@given(st.dictionaries(st.text(), st.text()))
def test_what_was_typed_is_told_without_loss(typed: dict[str, str]) -> None:
    shown, marks = read(quoted(typed))
    assert [mark for mark, _ in marks] == ["block"]
    assert json.loads(shown) == typed
    assert json.loads(exact_json(typed)) == typed


async def test_buttons_are_short_whatever_ids_are() -> None:
    made = drawn(run_id="r" * 200, thread_id="t" * 200, allowed=ALL)
    ids = [one["custom_id"] for one in walk(made["components"]) if "custom_id" in one]
    assert ids
    assert max(map(len, ids)) <= 60


def test_settings_that_are_missing_or_wrong_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLACET_DISCORD_BOT_TOKEN", raising=False)
    with pytest.raises(InvalidSettings, match="PLACET_DISCORD_BOT_TOKEN: must be the token"):
        discord.channel()
    monkeypatch.setenv("PLACET_DISCORD_BOT_TOKEN", "x")
    monkeypatch.setenv("PLACET_DISCORD_API_URL", "discord.example")
    with pytest.raises(InvalidSettings, match="PLACET_DISCORD_API_URL: must be a URL"):
        discord.channel()
