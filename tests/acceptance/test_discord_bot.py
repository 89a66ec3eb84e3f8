"""What is special of Discord: its bot as a process, on a gateway that sends each click to every replica."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from core import request
from platforms.discord_limits import walk
from platforms.discord_reading import text_of
from platforms.discord_wire import CHANNEL
from platforms.office import ID, opened
from records import an_approval

from fleet import wait_until
from placet.approvals.response_schema import decision_schema
from placet.bots.card import card_of
from placet.bots.discord import DiscordChannel
from placet.digest import digest_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from platforms.discord import Discord
    from platforms.office import Office

pytestmark = pytest.mark.acceptance

ALL = ("approve", "edit", "reject", "respond")
PAY = {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}


def pay(approval_id: str = ID, **changes: Any) -> Any:
    given: dict[str, Any] = {
        "args": {"amount": 42},
        "allowed": ALL,
        "response_schema": decision_schema(ALL, tool="pay", args=PAY),
        "digest": digest_of(approval_id),
    }
    return request(approval_id, **given | changes)


@pytest.fixture
async def office(redis_url: str, tmp_path: Path) -> AsyncIterator[Office]:
    async with opened("discord", redis_url, tmp_path) as made:
        yield made


@pytest.fixture
def discord(office: Office) -> Discord:
    platform: Any = office.platform
    found: Discord = platform
    return found


async def decided(office: Office, approval_id: str = ID) -> Any:
    async def there() -> Any:
        return (await office.core.placet.approval(approval_id)).decision

    return await wait_until(there)


async def test_a_run_that_ends_long_after_the_click_is_told_without_its_token(
    office: Office, discord: Discord
) -> None:
    await office.core.paused(pay())
    await office.start()
    await office.click("approve")
    await office.card(state="Approved by alice")
    discord.end_tokens()
    await office.core.finish(await office.core.claim())
    await office.card(state="it ran")
    # no privileged intents, no more than guilds
    assert set(discord.intents) == {1}


@pytest.mark.parametrize("killed", [0, 1])
async def test_a_replica_that_dies_over_a_click_leaves_it_to_the_other(
    office: Office, discord: Discord, killed: int
) -> None:
    await office.core.paused(pay())
    await office.start(2)
    shown = await office.card()
    await office.recorded(ID)

    async def both() -> bool:
        return len(discord.sockets) == 2

    await wait_until(both)
    office.proxy.stall()
    click = {"custom_id": shown.buttons["approve"], "component_type": 2}
    made = await discord.interact(3, click, by="alice", message=discord.messages[shown.reference])

    async def acknowledged() -> bool:
        return made.acks == 2

    await wait_until(acknowledged)
    office.bots[killed].kill()
    office.proxy.heal()
    assert await decided(office) == {"type": "approve"}
    assert "Approved by alice" in text_of(await discord.told(made))
    await office.card(state="Approved by alice")


async def test_a_click_that_discord_says_has_failed_decides_nothing_and_a_replay_tells_the_same(
    office: Office, discord: Discord
) -> None:
    await office.core.paused(pay())
    await office.start()
    shown = await office.card()
    message = discord.messages[shown.reference]
    data = {"custom_id": shown.buttons["approve"], "component_type": 2}
    late = await discord.interact(3, {**data}, by="alice", message=message, seconds_ago=4)

    async def told() -> bool:
        return "click.unacknowledged" in office.bots[0].log

    await wait_until(told)
    assert late.acks == 0
    assert (await office.core.placet.approval(ID)).status == "pending"
    # one that somebody else has acknowledged long ago
    old = await discord.interact(3, data, by="alice", message=message, seconds_ago=90, acknowledged=True)

    async def refused() -> bool:
        return old.acks == 1 and "40060" in office.bots[0].log

    await wait_until(refused)
    assert (await office.core.placet.approval(ID)).status == "pending"
    made = await discord.interact(3, data, by="alice", message=message)
    assert "Approved by alice" in text_of(await discord.told(made))
    made.told = asyncio.get_running_loop().create_future()
    await discord.deliver(made, 3, data, by="alice", message=message)
    assert "Approved by alice" in text_of(await discord.told(made))
    assert [kind for kind, _ in await office.core.told()].count("approval.decided") == 1


async def test_a_form_is_not_waited_for_when_the_store_is_slow(office: Office) -> None:
    await office.core.paused(pay())
    await office.start()
    shown = await office.card()
    await office.recorded(ID)
    office.proxy.stall()
    answer = await office.click("reject", shown=shown, typed={"message": "no"})
    assert "does not answer" in answer.told
    office.proxy.heal()
    await office.click("reject", typed={"message": "no"})
    assert await decided(office) == {"type": "reject", "message": "no"}


async def test_what_was_typed_in_vain_fills_the_form_again(office: Office, discord: Discord) -> None:
    await office.core.paused(pay())
    six = {"properties": {str(number): {"type": "integer"} for number in range(6)}, "required": ["5"]}
    many = pay(
        "a00000000002",
        args={str(number): number for number in range(6)},
        response_schema=decision_schema(ALL, tool="pay", args=six),
    )
    await office.core.paused(many, run_id="r2", thread_id="t2")
    await office.start()
    for approval_id, wrong, right in (
        (ID, {"amount": "a ` lot"}, {"amount": "21"}),
        (many.id, {"json": '{"5": "five"}'}, {"json": '{"5": 5}'}),
        (many.id, {"json": "{"}, {"json": '{"5": 5}'}),
    ):
        shown = await office.card(approval_id)
        card, token = discord.messages[shown.reference], shown.buttons["edit"]
        got = await discord.pressed(token, by="alice", message=card, typed=wrong)
        assert got is not None
        assert "Nothing was decided" in text_of(got)
        click = await discord.interact(3, {"custom_id": token, "component_type": 2}, by="alice", message=got)
        modal = (await discord.answer_to(click) or {})["data"]
        values = {one["custom_id"]: one.get("value") for one in walk(modal["components"]) if one["type"] == 4}
        assert values == wrong
        if approval_id == ID or wrong["json"] == "{":
            await discord.send_form(modal, right, by="alice", message=got)
    assert (await decided(office))["edited_action"]["args"] == {"amount": 21}
    assert (await decided(office, many.id))["edited_action"]["args"] == {"5": 5}
    await office.card(many.id, state="Edited and approved by alice")


async def test_details_hand_over_all_of_it_and_the_buttons_below(office: Office, discord: Discord) -> None:
    note = "é`" * 3000
    await office.core.paused(pay(args={"amount": 1, "note": note}))
    await office.start()
    shown = await office.card()
    assert set(shown.buttons) == {"reject", "details"}
    card = discord.messages[shown.reference]
    nobody = await discord.pressed(shown.buttons["details"], by="mallory", message=card)
    assert nobody is not None
    assert "You may not decide on this" in text_of(nobody)
    assert not nobody["file"]
    assert not nobody["components"]
    got = await discord.pressed(shown.buttons["details"], by="alice", message=card)
    assert got is not None
    assert note in got["file"]
    tokens = [one["custom_id"] for one in walk(got["components"]) if one["type"] == 2]
    assert [token.split(":")[1] for token in tokens] == list(ALL)
    answer = await discord.press(tokens[0], by="alice", message=got)
    assert "Approved by alice" in answer.told
    await office.card(state="Approved by alice")


async def test_a_long_rate_limit_is_not_slept_through(office: Office, discord: Discord) -> None:
    discord.fail(1, retry_after=60)
    await office.core.paused(pay())
    await office.start()

    async def refused() -> Any:
        return [one for one in await office.core.placet.cards(ID) if one.error]

    (card,) = await wait_until(refused)
    assert card.error == "Discord asks to wait 60 s"
    assert card.due_ms > (time.time() + 30) * 1000


async def test_a_post_whose_answer_was_lost_is_one_message_and_people_have_theirs(
    office: Office, discord: Discord
) -> None:
    (office.folder / "routes.yaml").write_text(
        "routes:\n- {match: {tool: pay}, to: 'discord:@80351'}\n- to: 'discord:nowhere'\n"
    )
    discord.lost = 1
    await office.core.paused(pay())
    await office.core.paused(pay("a00000000002", tool="other"), run_id="r2", thread_id="t2")
    await office.start()
    assert (await office.card()).destination == "980351"
    await office.recorded(ID)
    await office.click("approve")
    await office.card(state="Approved by alice")

    async def refused() -> Any:
        return [one.error for one in await office.core.placet.cards("a00000000002") if one.error]

    assert await wait_until(refused) == ["discord:nowhere must be a channel's id, or @ and a person's"]


async def test_a_card_that_was_deleted_is_posted_again_though_discord_remembers_it(
    office: Office, discord: Discord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("discord.http.Route.BASE", "")
    monkeypatch.setattr("discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY", None)
    env = discord.env()
    channel = DiscordChannel(token=env["PLACET_DISCORD_BOT_TOKEN"], api_url=env["PLACET_DISCORD_API_URL"])
    reviews: Any = None  # nobody clicks
    serving = asyncio.create_task(channel.serve(reviews))
    card = card_of(an_approval(id=ID))
    first = await channel.post(CHANNEL, card)
    assert await channel.post(CHANNEL, card) == first
    (message,) = discord.messages.values()
    del discord.messages[message["id"]]
    message["id"] = discord.snowflake(seconds_ago=30)
    discord.messages[message["id"]] = message
    assert await channel.post(CHANNEL, card) == f"{CHANNEL}/{message['id']}"
    del discord.messages[message["id"]]
    again = await channel.post(CHANNEL, card)
    assert list(discord.messages) == [again.partition("/")[2]]
    serving.cancel()
    await asyncio.wait([serving])


async def test_a_token_that_discord_does_not_know_ends_the_bot_and_an_outage_does_not(
    office: Office, discord: Discord
) -> None:
    await office.core.paused(pay(args={"amount": 42, "note": "for A-17"}))
    discord.outage = True
    await office.start()

    async def waits() -> bool:
        return "discord.disconnected" in office.bots[0].log

    await wait_until(waits)
    discord.outage = False
    await office.card()
    for socket in list(discord.sockets):
        await socket.close(code=1011)
    await office.click("approve")
    await office.card(state="Approved by alice")
    discord.is_known = False
    await office.start()
    assert await office.bots[1].ended() == 1
    assert "PLACET_DISCORD_BOT_TOKEN: Discord refuses it" in office.bots[1].log
    assert discord.env()["PLACET_DISCORD_BOT_TOKEN"] not in "".join(bot.log for bot in office.bots)
    assert "Traceback" not in "".join(bot.log for bot in office.bots)
    assert "for A-17" not in office.bots[0].log
