"""What a click on a card comes to: for the right person, the wrong one, twice, too late."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from core import open_core, request

from placet.approvals.response_schema import decision_schema
from placet.bots.card import card_of, read_button
from placet.bots.forms import form_of
from placet.bots.reviews import Reviews
from placet.digest import digest_of
from placet.errors import InvalidInput, NotAllowed, StoreUnavailable
from placet.state.cards import Deliveries

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from core import Core

    from placet.bots.card import Action

ID = "a00000000001"
PEOPLE = """
reviewers:
  alice: {groups: [finance], identities: ["wall:1"]}
  anna: {groups: [finance], identities: ["wall:2"]}
  bob: {identities: ["wall:3"]}
"""
PAY = {
    "type": "object",
    "properties": {"amount": {"type": "number"}, "note": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
    "required": ["amount"],
}
ALL: tuple[Any, ...] = ("approve", "edit", "reject", "respond")
FINANCE = {"reviewers": ["group:finance"]}


@pytest.fixture
async def core(redis_url: str, tmp_path: Path) -> AsyncIterator[Core]:
    path = tmp_path / "reviewers.yaml"
    path.write_text(PEOPLE)
    async with open_core(redis_url, reviewers=str(path)) as made:
        yield made


def reviews_of(core: Core) -> Reviews:
    return Reviews(placet=core.placet, deliveries=Deliveries(core.connection))


def pay(**changes: Any) -> Any:
    given: dict[str, Any] = {
        "args": {"amount": 100, "to": "x"},
        "allowed": ALL,
        "response_schema": decision_schema(ALL, tool="pay", args=PAY),
        "policy": FINANCE,
        "digest": digest_of("pay"),
    }
    return request(ID, **given | changes)


async def button(core: Core, action: Action, approval_id: str = ID) -> str:
    return card_of(await core.placet.approval(approval_id)).button(action)


async def test_who_may_decides_and_is_recorded_as_a_reviewer(core: Core) -> None:
    await core.paused(pay())
    reviews = reviews_of(core)
    reply = await reviews.decide("wall:1", await button(core, "approve"))
    assert (reply.recorded, reply.text) == (True, "Approved by alice")
    assert reply.card is not None
    assert reply.card.actions == ()
    assert (await core.placet.approval(ID)).decided_by == "alice"


@pytest.mark.parametrize("identity", ["wall:9", "wall:alice", "alice@wall", "wall:3", "slack:1", "wall:"])
@pytest.mark.parametrize("action", ["approve", "edit", "reject"])
async def test_who_may_not_is_told_why_and_the_request_still_waits(
    core: Core, identity: str, action: Action
) -> None:
    await core.paused(pay())
    reviews = reviews_of(core)
    token = await button(core, action)
    typed = {"message": "always", "amount": "?"}
    for reply in (await reviews.decide(identity, token, typed), await reviews.look(identity, token)):
        assert reply.text.startswith("You may not decide on this: ")
        assert (reply.recorded, reply.card) == (False, None)
    assert (await core.placet.approval(ID)).status == "pending"
    with pytest.raises(NotAllowed):
        await core.placet.decide(ID, {"type": "reject"}, reviewer="bob")


async def test_the_same_click_three_times_is_one_decision(core: Core) -> None:
    await core.paused(pay())
    reviews, token = reviews_of(core), await button(core, "approve")
    replies = await asyncio.gather(*(reviews.decide("wall:1", token) for _ in range(3)))
    assert [(reply.recorded, reply.text) for reply in replies] == [(True, "Approved by alice")] * 3
    assert [kind for kind, _ in await core.told()].count("approval.decided") == 1


async def test_of_two_reviewers_one_wins_and_the_other_is_told_who(core: Core) -> None:
    await core.paused(pay())
    reviews = reviews_of(core)
    tokens = [await button(core, "approve"), await button(core, "reject")]
    one, two = await asyncio.gather(reviews.decide("wall:1", tokens[0]), reviews.decide("wall:2", tokens[1]))
    winner, loser = (one, two) if one.recorded else (two, one)
    assert (winner.recorded, loser.recorded) == (True, False)
    assert loser.text.startswith("Too late, you decided nothing. ")
    assert winner.text in loser.text
    # who decided one thing is not told that the other was recorded
    decided = (await core.placet.approval(ID)).decision
    assert decided is not None
    other = tokens[1] if decided["type"] == "approve" else tokens[0]
    again = await reviews.decide("wall:1" if one.recorded else "wall:2", other)
    assert (again.recorded, again.text) == (False, winner.text)


async def test_a_click_delivered_again_decides_nothing_even_if_it_is_asked_again(core: Core) -> None:
    await core.paused(pay())
    reviews, token = reviews_of(core), await button(core, "approve")
    assert (await reviews.decide("wall:1", token, delivery="click-1")).recorded
    again = await reviews.decide("wall:1", token, delivery="click-1")
    assert (again.recorded, again.text) == (True, "Approved by alice")
    await core.pause(await core.claim(), pay())  # its answer was not taken
    replayed = await reviews.decide("wall:1", token, delivery="click-1")
    assert (replayed.recorded, replayed.refusal) == (False, "conflict")
    assert (await core.placet.approval(ID)).status == "pending"
    assert (await reviews.decide("wall:1", token, delivery="click-2")).recorded


async def test_a_program_decides_with_json_and_no_other_type_than_its_button(core: Core) -> None:
    await core.paused(pay())
    reviews, token = reviews_of(core), await button(core, "edit")
    edit = {"type": "edit", "edited_action": {"name": "pay", "args": {"amount": 1, "to": "x"}}}
    wrong = await reviews.decide("wall:1", token, decision={"type": "approve"})
    assert (wrong.refusal, dict(wrong.issues)) == ("invalid", {"": "must be 'edit', as the button says"})
    assert (await reviews.decide("wall:1", token, decision=edit)).recorded
    assert (await core.placet.approval(ID)).decision == edit


async def test_an_old_card_decides_nothing(core: Core) -> None:
    await core.paused(pay())
    reviews, old = reviews_of(core), f"placet:approve:{ID}:{digest_of('before')}"
    reply = await reviews.decide("wall:1", old)
    assert "changed since that card was drawn" in reply.text
    assert (await reviews.look("wall:1", old)).text == reply.text
    await core.runs.cancel("r1", reason="not needed")
    late = await reviews.decide("wall:1", await button(core, "approve"))
    assert late.text == "Too late, you decided nothing. Cancelled: not needed"


async def test_a_form_is_checked_at_its_fields_and_nothing_typed_is_lost(core: Core) -> None:
    await core.paused(pay())
    reviews, token = reviews_of(core), await button(core, "edit")
    looked = await reviews.look("wall:1", token)
    assert looked.card is not None
    assert [(one.name, one.kind, one.value, one.required) for one in form_of(looked.card, "edit")] == [
        ("amount", "number", "100", True),
        ("to", "text", "x", False),
        ("note", "text", "", False),
    ]
    wrong = await reviews.decide("wall:1", token, {"amount": "a lot", "to": "x"})
    assert dict(wrong.issues) == {"amount": "must be a number"}
    empty = await reviews.decide("wall:1", token, {"amount": "", "to": "x"})
    assert dict(empty.issues) == {"amount": "must be a number"}
    misspelt = await reviews.decide("wall:1", token, {"amuont": "1"})
    assert dict(misspelt.issues) == {"": "is none of the fields: amount, to, note"}
    right = await reviews.decide("wall:1", token, {"amount": "12.5", "to": "x", "note": "half"})
    assert right.recorded
    decided = (await core.placet.approval(ID)).decision
    assert decided == {
        "type": "edit",
        "edited_action": {"name": "pay", "args": {"amount": 12.5, "to": "x", "note": "half"}},
    }


async def test_what_is_typed_back_unchanged_is_the_value_that_was_shown(core: Core) -> None:
    args = {"amount": 1e22, "to": "", "note": None, "list": [1, {"a": None}]}
    await core.paused(pay(args=args))
    reviews, token = reviews_of(core), await button(core, "edit")
    card = (await reviews.look("wall:1", token)).card
    assert card is not None
    typed = {one.name: one.value for one in form_of(card, "edit")}
    assert (await reviews.decide("wall:1", token, typed)).recorded
    decided = (await core.placet.approval(ID)).decision
    assert decided is not None
    assert decided["edited_action"]["args"] == args


@pytest.mark.parametrize(
    ("schema", "typed", "value"),
    [
        (None, "No", "No"),
        ({"type": "string"}, "1", "1"),
        ({"type": "integer"}, "0", 0),
        ({"type": "boolean"}, "false", False),
        ({"enum": ["red", "blue"]}, "blue", "blue"),
        ({"type": "array", "items": {"type": "integer"}}, "[1]", [1]),
    ],
)
async def test_a_question_takes_the_value_its_schema_names(
    core: Core, schema: Any, typed: str, value: Any
) -> None:
    asked = request(ID, kind="question", response_schema=schema, digest=digest_of("q"))
    await core.paused(asked)
    reviews, token = reviews_of(core), await button(core, "answer")
    if schema is not None and typed != "1":
        refused = await reviews.decide("wall:3", token, {"value": "?"})
        assert list(refused.issues) == ["value"]
    assert (await reviews.decide("wall:3", token, {"value": typed})).recorded
    assert (await core.placet.approval(ID)).decision == {"type": "answer", "value": value}


async def test_what_is_not_typed_stays_as_it_was_shown(core: Core) -> None:
    await core.paused(pay())
    reviews = reviews_of(core)
    nothing = await reviews.decide("wall:1", await button(core, "respond"))
    assert dict(nothing.issues) == {"message": "is required"}
    assert (await reviews.decide("wall:1", await button(core, "edit"), {"amount": "5"})).recorded
    decided = (await core.placet.approval(ID)).decision
    assert decided is not None
    assert decided["edited_action"]["args"] == {"amount": 5, "to": "x"}


async def test_an_inbox_has_what_its_reader_may_decide(core: Core) -> None:
    await core.paused(pay())
    open_to_all = request("a00000000002", digest=digest_of("all"))
    await core.paused(open_to_all, run_id="r2", thread_id="t2")
    reviews = reviews_of(core)
    inbox = {who: [card.approval.id for card in await reviews.inbox(f"wall:{who}")] for who in "139"}
    assert inbox == {"1": ["a00000000002", ID], "3": ["a00000000002"], "9": []}


async def test_a_store_that_is_away_decides_nothing_and_says_so(tmp_path: Path, core: Core) -> None:
    await core.paused(pay())
    token = await button(core, "approve")
    async with open_core("redis://127.0.0.1:1/0", reviewers=str(tmp_path / "reviewers.yaml")) as away:
        reply = await reviews_of(away).decide("wall:1", token)
    assert (reply.recorded, reply.text) == (
        False,
        "Placet's store does not answer: nothing was decided. Please try again.",
    )


@pytest.mark.parametrize(
    "token", ["", "approve", "placet:approve:x:y", f"placet:open:{ID}:{'0' * 32}", "ü" * 99]
)
async def test_a_button_of_nobodys_decides_nothing(core: Core, token: str) -> None:
    with pytest.raises(InvalidInput):
        read_button(token)
    reply = await reviews_of(core).decide("wall:1", token)
    assert (reply.recorded, reply.text) == (
        False,
        "This button stands for no request any more. Nothing was decided.",
    )


async def test_a_button_fits_where_the_least_room_is(core: Core) -> None:
    long = "\N{PILE OF POO}" * 50 + "x" * 150
    await core.paused(pay(), run_id=long, thread_id=long)
    for action in (*ALL, "answer", "details"):
        assert len((await button(core, action)).encode()) <= 64


class Overtaken(Deliveries):
    """Another process records the same click between two looks of this one."""

    first: Reviews
    click: tuple[str, str]

    async def seen(self, delivery: str) -> bool:
        assert (await self.first.decide(*self.click, delivery=delivery)).recorded
        return await super().seen(delivery)


async def test_a_click_that_another_process_records_meanwhile_is_told_what_was_decided(core: Core) -> None:
    await core.paused(pay())
    deliveries = Overtaken(core.connection)
    deliveries.first, deliveries.click = reviews_of(core), ("wall:1", await button(core, "approve"))
    reply = await Reviews(placet=core.placet, deliveries=deliveries).decide(
        *deliveries.click, delivery="click-1"
    )
    assert (reply.text, reply.recorded, reply.refusal) == ("Approved by alice", True, None)


async def test_a_store_that_is_lost_over_a_decision_is_not_said_to_have_decided_nothing(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    await core.paused(pay())
    token, reviews, decide = await button(core, "approve"), reviews_of(core), core.placet.decide

    async def unheard(*given: Any, **more: Any) -> Any:
        await decide(*given, **more)
        raise StoreUnavailable("the answer was lost")

    with monkeypatch.context() as patch:
        patch.setattr(core.placet, "decide", unheard)
        reply = await reviews.decide("wall:1", token)
    assert (reply.recorded, reply.refusal) == (False, "away")
    assert "whether this was recorded is not known" in reply.text
    reply = await reviews.decide("wall:1", token)
    assert (reply.recorded, reply.text) == (True, "Approved by alice")
