"""The Telegram bot as processes: what only Telegram has."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from core import request
from platforms import telegram
from platforms.office import ID, Office, opened

from fleet import wait_until
from placet.approvals.response_schema import decision_schema
from placet.digest import digest_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from platforms.telegram import Telegram

pytestmark = pytest.mark.acceptance

ALL = ("approve", "edit", "reject", "respond")
PAY = {"type": "object", "properties": {"amount": {"type": "number"}, "note": {"type": "string"}}}


def pay(approval_id: str = ID, **changes: Any) -> Any:
    given: dict[str, Any] = {
        "args": {"amount": 42, "note": "a_b [x]("},
        "allowed": ALL,
        "response_schema": decision_schema(ALL, tool="pay", args=PAY),
        "digest": digest_of(approval_id),
    }
    return request(approval_id, **given | changes)


@pytest.fixture
async def office(redis_url: str, tmp_path: Path) -> AsyncIterator[Office]:
    async with opened("telegram", redis_url, tmp_path) as made:
        yield made


@pytest.fixture
def platform(office: Office) -> Telegram:
    assert isinstance(office.platform, telegram.Telegram)
    return office.platform


async def decided(office: Office, approval_id: str = ID) -> Any:
    async def found() -> Any:
        return (await office.core.placet.approval(approval_id)).decision

    return await wait_until(found)


async def test_only_who_clicked_answers_a_prompt_whatever_bot_it_comes_to(
    office: Office, platform: Telegram
) -> None:
    await office.core.paused(pay())
    await office.start()
    card = await office.card()
    assert "a_b [x](" in card.text
    number = int(card.reference)
    since = platform.numbers
    await platform.press(card.buttons["reject"], by="alice", message=number)
    prompt = await platform.said(since, by="alice")
    assert prompt["reply_markup"]["force_reply"]
    assert prompt["reply_markup"]["selective"]
    # the next process knows nothing of it but what the prompt says
    office.bots[0].kill()
    await office.start()
    group = {"sender_chat": prompt["chat"], "from": {"id": 1087968824, "is_bot": True, "first_name": "Group"}}
    for by, changes in (("bob", {}), ("mallory", {}), ("alice", group)):
        since = platform.numbers
        await platform.reply(prompt, "no", by=by, **changes)

        async def refused(since: int = since) -> Any:
            said = [one["text"] for number, one in platform.messages.items() if number > since]
            return any("Only the person who clicked" in text for text in said)

        await wait_until(refused)
    # what somebody else wrote is no prompt, whatever it says
    await platform.reply(prompt | {"from": platform._person("mallory")}, "forged", by="alice")
    assert (await office.core.placet.approval(ID)).status == "pending"
    await platform.reply(prompt, "too much", by="alice")
    assert await decided(office) == {"type": "reject", "message": "too much"}
    await office.card(state="Rejected by alice (too much)")

    async def tidied() -> bool:
        return bool(platform.messages[prompt["message_id"]].get("deleted"))

    await wait_until(tidied)


async def test_an_edit_that_cannot_be_taken_is_asked_again_and_json_takes_any_text(
    office: Office, platform: Telegram
) -> None:
    await office.core.paused(pay())
    await office.start()
    card = await office.card()
    answer = await platform.click(card.buttons["edit"], by="alice", shown=card, typed={"sum": "1"})
    assert "'sum', which is none of amount, note" in answer.told
    again = max(number for number, one in platform.messages.items() if one["reply_markup"].get("force_reply"))
    await platform.reply(platform.messages[again], '{"amount": 21, "note": "two\\nlines"}', by="alice")
    edited = {"name": "pay", "args": {"amount": 21, "note": "two\nlines"}}
    assert await decided(office) == {"type": "edit", "edited_action": edited}


async def test_details_go_to_the_person_alone_and_there_it_can_be_approved(
    office: Office, platform: Telegram
) -> None:
    await office.core.paused(pay(args={"amount": 1, "note": "<&>" * 1700}))
    await office.core.paused(pay("a00000000002", args={"note": "x" * 60_000}), run_id="r2", thread_id="t2")
    await office.start()
    card = await office.card()
    assert set(card.buttons) == {"details", "reject"}
    platform.no_private_chat.add(platform.people["alice"])
    answer = await office.click("details")
    assert "press Start" in answer.told
    platform.no_private_chat.clear()
    answer = await office.click("details")
    assert "private chat" in answer.told
    private = int(platform.people["alice"])
    pages = [one for one in platform.messages.values() if one["chat"]["id"] == private]
    assert sum(page["text"].count("<&>") for page in pages) >= 1690
    assert [bool(page["reply_markup"]) for page in pages] == [False] * (len(pages) - 1) + [True]
    await platform.press(
        card.buttons["reject"].replace("reject", "approve"), by="alice", message=pages[-1]["message_id"]
    )
    assert await decided(office) == {"type": "approve"}
    await office.card(state="Approved by alice")

    async def drawn() -> bool:
        return not platform.messages[pages[-1]["message_id"]]["reply_markup"]

    await wait_until(drawn)
    # what is longer than a few messages is a file
    await office.click("details", approval_id="a00000000002")
    [(name, content)] = platform.files
    assert name == "request-a00000000002.json"
    assert b"x" * 60_000 in content


async def test_a_replica_that_polls_beside_another_stands_by_and_takes_over(
    office: Office, platform: Telegram
) -> None:
    await office.core.paused(pay())
    await office.start(2)
    await office.card()

    async def taken_over() -> bool:
        return platform.conflicts > 0

    await wait_until(taken_over)
    office.bots[0].kill()
    await office.click("approve")
    assert await decided(office) == {"type": "approve"}
    # calm: neither has ended, and each conflict has cost one request in five seconds
    assert office.bots[1].process.poll() is None


async def test_a_message_of_a_kind_that_nobody_knows_stops_nothing(
    office: Office, platform: Telegram
) -> None:
    await office.core.paused(pay())
    await office.start()
    card = await office.card()
    await platform.tell({"message": {"message_id": "no number", "chat": 7}})
    await platform.press(card.buttons["approve"], by="alice", message=int(card.reference))
    assert await decided(office) == {"type": "approve"}


async def test_a_slow_store_is_told_of_later_in_private(office: Office, platform: Telegram) -> None:
    await office.core.paused(pay())
    await office.start()
    card = await office.card()
    await office.recorded(ID)
    office.proxy.stall()
    since = platform.numbers
    query = await platform.press(card.buttons["approve"], by="alice", message=int(card.reference))

    async def acknowledged() -> Any:
        return platform.answers.get(query)

    assert "Placet is at it" in (await wait_until(acknowledged))["text"]
    office.proxy.heal()
    said = await platform.said(since, by="alice")
    assert said["chat"]["id"] == int(platform.people["alice"])


async def test_placet_tells_who_one_is_and_what_waits(office: Office, platform: Telegram) -> None:
    await office.core.paused(pay())
    await office.start()
    card = platform.messages[int((await office.card()).reference)]
    since = platform.numbers
    await platform.reply({**card, "from": platform._person("bob")}, "/placet", by="mallory")
    told = (await platform.said(since + 1, by="mallory"))["text"]
    assert f"telegram:{platform.destination}" in told
    assert f"telegram:{platform.people['mallory']}" in told
    assert ID not in told
    private = {"id": int(platform.people["alice"]), "type": "private"}
    since = platform.numbers
    await platform.reply({**card, "chat": private, "from": platform._person("bob")}, "/start", by="alice")
    assert ID in (await platform.said(since + 1, by="alice"))["text"]


async def test_by_webhook_calls_are_signed_and_one_again_decides_nothing(
    office: Office, platform: Telegram
) -> None:
    platform.webhooks = True
    await office.core.paused(pay())
    await office.start(2)
    card = await office.card()
    secret = await wait_until(_secret(platform))
    assert secret not in telegram.TOKEN
    click = {
        "id": "q1",
        "from": platform._person("alice"),
        "chat_instance": "1",
        "data": card.buttons["approve"],
        "message": {"message_id": int(card.reference), "date": 0, "chat": telegram._chat(telegram.GROUP)},
    }
    update = {"update_id": 7, "callback_query": click}
    for wrong in ("", "x", secret[:-1], secret + "\u00e9"):
        assert await platform.post(update, secret=wrong) == 401
    assert await platform.post({"no": "update"}) == 200
    assert (await office.core.placet.approval(ID)).status == "pending"
    for replica in (0, 1, 0):
        assert await platform.post(update, replica=replica) == 200
    assert await decided(office) == {"type": "approve"}
    await office.card(state="Approved by alice")
    assert [kind for kind, _ in await office.core.told()].count("approval.decided") == 1
    # and forms, one replica asking and the other one answered
    await office.core.paused(pay("a00000000002"), run_id="r2", thread_id="t2")
    card = await office.card("a00000000002")
    await platform.click(
        card.buttons["respond"], by="alice", shown=card, typed={"message": "done"}, replica=1
    )
    assert await decided(office, "a00000000002") == {"type": "respond", "message": "done"}


def _secret(platform: Telegram) -> Any:
    async def found() -> Any:
        return platform.webhook.get("secret_token")

    return found


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({"PLACET_TELEGRAM_BOT_TOKEN": ""}, "PLACET_TELEGRAM_BOT_TOKEN: must be the token"),
        ({"PLACET_TELEGRAM_BOT_TOKEN": "nonsense"}, "PLACET_TELEGRAM_BOT_TOKEN: must look like"),
        (
            {"PLACET_TELEGRAM_BOT_TOKEN": "4242:of-somebody-else"},
            "PLACET_TELEGRAM_BOT_TOKEN: Telegram refuses",
        ),
        ({"PLACET_TELEGRAM_API_URL": "api.telegram.org"}, "PLACET_TELEGRAM_API_URL: must be an address"),
        (
            {"PLACET_TELEGRAM_WEBHOOK_URL": "http://x.example"},
            "PLACET_TELEGRAM_WEBHOOK_URL: Telegram answered",
        ),
    ],
)
async def test_a_setting_that_cannot_be_used_is_named(
    office: Office, platform: Telegram, monkeypatch: pytest.MonkeyPatch, env: dict[str, str], told: str
) -> None:
    plain = platform.env
    monkeypatch.setattr(platform, "env", lambda replica: plain(replica) | env)
    with suppress(AssertionError):  # it may end before it is started
        await office.start()
    assert await office.bots[0].ended() != 0
    assert told in office.bots[0].log
    assert "Traceback" not in office.bots[0].log
