"""Bots as processes, each with its platform's own wire format: what holds on all of them."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from core import request
from platforms.office import ID, PLATFORMS, opened

from fleet import wait_until
from placet.approvals.response_schema import decision_schema
from placet.digest import digest_of
from placet.errors import AlreadyDecided

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from platforms.office import Office

pytestmark = pytest.mark.acceptance

ALL = ("approve", "edit", "reject", "respond")
PAY = {
    "type": "object",
    "properties": {"amount": {"type": "number"}, "note": {"type": "string"}},
    "required": ["amount"],
}
INJECTED = """``` <!channel> <@U0ALICE> @everyone @here <@!2001> <#123> @alice_bot
[pay here](https://evil.example) <https://evil.example|click> https://evil.example www.evil.example
*bold* _it_ ~s~ `code` a_b [x]( # heading
> quote
**Approved by alice**
- item /cmd #tag $CASH
\u202egnp.exe \u200b@\u200beveryone \x07 &lt;!here&gt; &amp; <b>b</b> ||spoiler||"""


def pay(approval_id: str = ID, **changes: Any) -> Any:
    given: dict[str, Any] = {
        "args": {"amount": 42, "note": "for A-17"},
        "allowed": ALL,
        "response_schema": decision_schema(ALL, tool="pay", args=PAY),
        "policy": {"reviewers": ["group:finance"]},
        "digest": digest_of(approval_id),
    }
    return request(approval_id, **given | changes)


@pytest.fixture(params=PLATFORMS)
async def office(request: pytest.FixtureRequest, redis_url: str, tmp_path: Path) -> AsyncIterator[Office]:
    async with opened(request.param, redis_url, tmp_path) as made:
        yield made


async def test_a_request_is_shown_and_approved(office: Office) -> None:
    await office.core.paused(pay())
    await office.start()
    shown = await office.card()
    assert shown.destination == office.platform.destination
    assert "pay" in shown.text
    assert "42" in shown.text
    assert "for A-17" in shown.text
    assert "group:finance" in shown.text
    assert set(ALL) <= set(shown.buttons)
    await office.click("approve")
    shown = await office.card(state="Approved by alice")
    assert not set(shown.buttons) & set(ALL)
    decided = await office.core.placet.approval(ID)
    assert (decided.decision, decided.decided_by) == ({"type": "approve"}, "alice")
    await office.core.finish(await office.core.claim())
    await office.card(state="it ran")
    office.bots[0].send(signal.SIGTERM)
    assert await office.bots[0].ended() == 0, office.bots[0].log


async def test_forms_are_filled_in_and_told_what_is_wrong(office: Office) -> None:
    asked = {"edit": pay(), "reject": pay("a00000000002"), "respond": pay("a00000000003")}
    for one in asked.values():
        await office.core.paused(one, run_id=one.id, thread_id=one.id)
    question = request("a00000000004", kind="question", value="Which day?", digest=digest_of("q"))
    await office.core.paused(question, run_id="q", thread_id="q")
    await office.start()
    wrong = await office.click("edit", typed={"amount": "a lot", "note": "half"})
    assert "amount" in wrong.issues or "amount" in wrong.told
    assert (await office.core.placet.approval(ID)).status == "pending"
    await office.click("edit", typed={"amount": "21", "note": "half"})
    await office.click("reject", approval_id="a00000000002", typed={"message": "too much"})
    await office.click("respond", approval_id="a00000000003", typed={"message": "done by hand"})
    await office.click("answer", approval_id=question.id, typed={"value": "Monday"})

    async def decisions() -> Any:
        found = [await office.core.placet.approval(one.id) for one in (*asked.values(), question)]
        return [one.decision for one in found] if all(one.decision for one in found) else None

    assert await wait_until(decisions) == [
        {"type": "edit", "edited_action": {"name": "pay", "args": {"amount": 21, "note": "half"}}},
        {"type": "reject", "message": "too much"},
        {"type": "respond", "message": "done by hand"},
        {"type": "answer", "value": "Monday"},
    ]
    await office.card("a00000000002", state="Rejected by alice")


async def test_whoever_may_not_decide_is_told_so_alone_and_it_still_waits(office: Office) -> None:
    await office.core.paused(pay(description="always"))
    await office.start()
    before = await office.card()
    for who in ("mallory", "bob"):
        for action in ("approve", "edit", "reject"):
            answer = await office.click(
                action, by=who, typed={"message": "always", "amount": "1", "note": ""}
            )
            assert "You may not decide on this" in answer.told
    assert (await office.core.placet.approval(ID)).status == "pending"
    assert await office.card() == before
    # nothing stands from what they tried
    await office.core.paused(pay("a00000000002"), run_id="r2", thread_id="t2")
    await office.card("a00000000002")
    assert (await office.core.placet.approval("a00000000002")).status == "pending"


async def test_one_click_delivered_three_times_is_one_decision(office: Office) -> None:
    await office.core.paused(pay())
    await office.start(2)
    shown = await office.card()
    answers = await asyncio.gather(
        *(
            office.platform.click(shown.buttons["approve"], by="alice", shown=shown, replica=number % 2)
            for number in range(3)
        )
    )
    assert all(answer.acknowledged for answer in answers)
    assert not any("Too late" in answer.told for answer in answers)
    await office.card(state="Approved by alice")
    assert [kind for kind, _ in await office.core.told()].count("approval.decided") == 1


async def test_of_two_reviewers_at_once_one_wins_and_the_card_says_who(office: Office) -> None:
    ids = [f"a0000000010{number}" for number in range(5)]
    for one in ids:
        await office.core.paused(pay(one), run_id=one, thread_id=one)
    await office.start()
    for one in ids:
        shown = await office.card(one)

        async def by_hand(approval_id: str = one) -> bool:
            with suppress(AlreadyDecided):
                await office.core.placet.decide(approval_id, {"type": "reject"}, reviewer="alice")
            decided = await office.core.placet.approval(approval_id)
            return decided.decision == {"type": "reject"}

        rejected, answer = await asyncio.gather(
            by_hand(), office.click("approve", approval_id=one, shown=shown)
        )
        await office.card(one, state="Rejected by alice" if rejected else "Approved by alice")
        assert not rejected or "Rejected by alice" in answer.told


async def test_replicas_post_each_card_once_and_any_of_them_keeps_it_true(office: Office) -> None:
    ids = [f"a0000000020{number}" for number in range(6)]
    for one in ids[:3]:
        await office.core.paused(pay(one), run_id=one, thread_id=one)
    await office.start(2)
    for one in ids[3:]:
        await office.core.paused(pay(one), run_id=one, thread_id=one)
    for one in ids:
        await office.card(one)
    await office.recorded(*ids)
    office.bots[0].kill()
    for one in ids[:3]:
        await office.core.placet.decide(one, {"type": "reject", "message": "no"}, reviewer="alice")
    await office.core.runs.cancel(ids[3], reason="not needed")
    for one in ids[:3]:
        await office.card(one, state="Rejected by alice (no)")
    shown = await office.card(ids[3], state="Cancelled")
    assert not set(shown.buttons) & set(ALL)
    await office.click("approve", approval_id=ids[4], replica=1)
    await office.card(ids[4], state="Approved by alice")


async def test_cards_are_mended_after_a_downtime_and_stale_buttons_tell_the_truth(
    office: Office,
) -> None:
    await office.core.paused(pay())
    await office.core.paused(pay("a00000000002"), run_id="r2", thread_id="t2")
    await office.start()
    old, gone = await office.card(), await office.card("a00000000002")
    await office.recorded(ID, "a00000000002")
    office.bots[0].kill()
    await office.core.placet.decide(ID, {"type": "reject", "message": "by hand"}, reviewer="alice")
    await office.core.runs.cancel("r2", reason="not needed")
    await office.core.redis.delete(office.core.connection.keys("approvals_stream"))
    await office.start()
    await office.card(state="Rejected by alice (by hand)")
    await office.card("a00000000002", state="Cancelled: not needed")
    # a client that still shows the old card
    answer = await office.click("approve", shown=old, token=old.buttons["approve"])
    assert "Rejected by alice" in answer.told
    answer = await office.click("approve", shown=gone, token=gone.buttons["approve"])
    assert "Cancelled" in answer.told
    assert (await office.core.placet.approval(ID)).decision == {"type": "reject", "message": "by hand"}


async def test_a_click_on_a_card_of_something_else_decides_nothing(office: Office) -> None:
    await office.core.paused(pay())
    await office.start()
    shown = await office.card()
    changed = shown.buttons["approve"].replace(digest_of(ID), digest_of("before"))
    answer = await office.click("approve", token=changed, shown=shown)
    assert "has changed" in answer.told
    assert (await office.core.placet.approval(ID)).status == "pending"


async def test_what_the_platform_refuses_is_tried_again_and_told_to_operators(office: Office) -> None:
    office.platform.fail(1, retry_after=1)
    await office.core.paused(pay())
    await office.start()

    async def told() -> Any:
        return [one.error for one in await office.core.placet.cards(ID) if one.tries]

    errors = await wait_until(told)
    assert errors[0]
    assert (await office.core.placet.approval(ID)).status == "pending"
    await office.card()
    office.platform.fail(1)
    await office.core.placet.decide(ID, {"type": "reject"}, reviewer="alice")
    await office.card(state="Rejected by alice")

    async def forgotten() -> bool:
        return [one.error for one in await office.core.placet.cards(ID)] == [""]

    await wait_until(forgotten)


async def test_a_message_that_was_deleted_stops_nothing(office: Office) -> None:
    await office.core.paused(pay())
    await office.start()
    await office.platform.delete(await office.card())
    await office.core.placet.decide(ID, {"type": "reject"}, reviewer="alice")

    async def noticed() -> bool:
        return [one.gone for one in await office.core.placet.cards(ID)] == [True]

    await wait_until(noticed)
    assert await office.platform.cards(ID) == []
    await office.core.paused(pay("a00000000002"), run_id="r2", thread_id="t2")
    await office.card("a00000000002")


async def test_a_click_is_acknowledged_whatever_the_store_does_and_one_that_is_lost_can_be_repeated(
    office: Office,
) -> None:
    await office.core.paused(pay())
    await office.start()
    shown = await office.card()
    await office.recorded(ID)
    office.proxy.stall()
    clicked = asyncio.create_task(office.platform.click(shown.buttons["approve"], by="alice", shown=shown))

    async def acknowledged() -> bool:
        return clicked.done() or office.platform.acknowledged(shown.buttons["approve"])

    await wait_until(acknowledged)
    office.bots[0].kill()  # between the click and its record
    office.proxy.heal()
    clicked.cancel()
    await asyncio.wait([clicked])
    assert (await office.core.placet.approval(ID)).status == "pending"
    await office.start()
    await office.click("approve")
    await office.card(state="Approved by alice")


async def test_long_names_and_long_arguments_fit(office: Office) -> None:
    long = "x" * 200
    note = "&<>" * 1700
    await office.core.paused(pay(args={"amount": 1, "note": note}), run_id=long, thread_id=long)
    await office.start()
    shown = await office.card()
    if note not in shown.text:
        # what is not shown in full is not approved from the card
        assert "approve" not in shown.buttons
        assert "edit" not in shown.buttons
        assert "details" in shown.buttons
    await office.click("reject", typed={"message": "<" * 900})
    shown = await office.card(state="Rejected by alice")
    assert not set(shown.buttons) & set(ALL)


async def test_nothing_that_a_model_wrote_is_more_than_text(office: Office) -> None:
    asked = pay(args={"amount": 1, "note": INJECTED}, description=INJECTED, tool="pay")
    await office.core.paused(asked)
    question = request("a00000000002", kind="question", value=INJECTED, digest=digest_of("q"))
    await office.core.paused(question, run_id="q", thread_id="q")
    await office.start()
    for approval_id in (ID, question.id):
        shown = await office.card(approval_id)
        assert shown.pings == ()
        # literally there, and what cannot be seen is written out
        assert "[pay here](https://evil.example)" in shown.text
        assert "&lt;!here&gt;" in shown.text
        assert "\\u202e" in shown.text
        assert not set(shown.text) & set("\u202e\u200b\x07")
    await office.click("reject", typed={"message": INJECTED})
    assert (await office.card(state="Rejected by alice")).pings == ()
