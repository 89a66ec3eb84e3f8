"""What is Slack's own: Socket Mode, signatures, details, Home, the command, forms while the store is away."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING, Any, cast

import pytest
from core import request
from platforms.office import ID, opened
from platforms.slack import SECRET, Slack, buttons_of, text_of

from fleet import wait_until
from placet.approvals.response_schema import decision_schema
from placet.digest import digest_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from platforms.office import Office

pytestmark = pytest.mark.acceptance

ALL = ("approve", "edit", "reject", "respond")


def pay(approval_id: str = ID, **args: Any) -> Any:
    return request(
        approval_id,
        args={"amount": 42} | args,
        allowed=ALL,
        response_schema=decision_schema(ALL, tool="pay", args={"properties": {"amount": {"type": "number"}}}),
        digest=digest_of(approval_id),
    )


@pytest.fixture
async def office(redis_url: str, tmp_path: Path) -> AsyncIterator[Office]:
    async with opened("slack", redis_url, tmp_path) as made:
        yield made


def slack_of(office: Office) -> Slack:
    return cast("Slack", office.platform)


async def test_by_socket_mode_no_address_is_needed(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    slack = slack_of(office)
    env = slack.socket_env()
    monkeypatch.setattr(slack, "env", lambda _: env)
    await office.core.paused(pay())
    await office.start()

    async def connected() -> bool:
        return bool(slack.sockets)

    await wait_until(connected)
    wrong = await office.click("edit", typed={"amount": "a lot"})
    assert wrong.issues == {"amount": "must be a number"}
    await office.click("edit", typed={"amount": "21"})
    await office.card(state="Edited and approved by alice -> amount=21")


async def test_what_is_not_signed_by_slack_or_is_old_is_refused(office: Office) -> None:
    slack = slack_of(office)
    await office.core.paused(pay())
    await office.start()
    shown = await office.card()
    container = {"type": "message", "message_ts": shown.reference, "channel_id": slack.destination}
    for more in ({"secret": SECRET[::-1]}, {"at": time.time() - 600}):
        click = slack.action(shown.buttons["approve"], "U0ALICE", container=container, channel={"id": "C"})
        acknowledged, _ = await slack.send(click, **more)
        assert not acknowledged
    assert (await office.core.placet.approval(ID)).status == "pending"


async def test_a_token_that_slack_refuses_ends_the_bot_and_what_passes_does_not(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    slack = slack_of(office)
    slack.refusals["auth.test"] = ["internal_error"]
    env = {**slack.socket_env(), "PLACET_SLACK_APP_TOKEN": "xapp-another"}
    monkeypatch.setattr(slack, "env", lambda _: env)
    await office.start()
    assert await office.bots[0].ended() == 1
    assert "slack.unreached" in office.bots[0].log
    assert "PLACET_SLACK_APP_TOKEN: Slack refuses it: invalid_auth" in office.bots[0].log


async def test_an_acknowledged_click_is_recorded_by_a_bot_that_is_told_to_stop(
    office: Office,
) -> None:
    slack = slack_of(office)
    await office.core.paused(pay())
    await office.start()
    shown = await office.card()
    await office.recorded(ID)
    container = {"type": "message", "message_ts": shown.reference, "channel_id": slack.destination}
    click = slack.action(shown.buttons["approve"], "U0ALICE", container=container, channel={"id": "C"})
    office.proxy.stall()
    assert (await slack.send(click))[0]
    office.bots[0].send(signal.SIGTERM)
    office.proxy.heal()
    assert await office.bots[0].ended() == 0
    assert (await office.core.placet.approval(ID)).decided_by == "alice"


async def test_details_show_everything_and_decide(office: Office) -> None:
    slack, note = slack_of(office), "&<>" * 3000 + "the end"
    await office.core.paused(pay(note=note))
    await office.start()
    shown = await office.card()
    assert set(shown.buttons) == {"reject", "details"}
    click = slack.action(
        shown.buttons["details"],
        "U0ALICE",
        container={"type": "message", "message_ts": shown.reference, "channel_id": slack.destination},
        channel={"id": slack.destination},
    )
    await slack.send(click)
    view = await slack.window(click["trigger_id"])
    assert note in text_of(view["blocks"]).replace("\n", "")
    buttons = buttons_of(view["blocks"])
    assert set(buttons) == set(ALL)
    approve = slack.action(buttons["approve"], "U0ALICE", container={"type": "view"}, view=view)
    assert (await slack.send(approve))[0]
    await office.card(state="Approved by alice")

    async def told() -> bool:
        return "Approved by alice" in text_of(slack.views[view["id"]]["blocks"])

    await wait_until(told)


async def test_what_fits_into_no_window_is_left_to_the_command_line(office: Office) -> None:
    slack = slack_of(office)
    await office.core.paused(pay(note="x" * 400_000))
    await office.start()
    answer = await office.click("details")
    assert (
        answer.told == f"This is too long to be shown here. On the command line: placet approvals show {ID}"
    )
    assert slack.messages


async def test_home_and_command_show_what_waits_for_a_person(office: Office) -> None:
    slack = slack_of(office)
    for number in range(3):
        name = f"a0000000030{number}"
        await office.core.paused(pay(name), run_id=name, thread_id=name)
    await office.start()
    for user in ("U0ALICE", "U0MALLORY"):
        event = {"type": "app_home_opened", "user": user, "channel": "D1", "tab": "home"}
        callback = {"type": "event_callback", "team_id": "T0TEAM", "event": event, "event_id": f"Ev{user}"}
        assert (await slack.send(callback))[0]

    async def published() -> bool:
        return set(slack.homes) == {"U0ALICE", "U0MALLORY"}

    await wait_until(published)
    assert text_of(slack.homes["U0ALICE"]["blocks"]).count("pay: may it run?") == 3
    assert text_of(slack.homes["U0MALLORY"]["blocks"]) == "Nothing waits for your decision."
    command = {
        "type": "command",
        "command": "/placet",
        "text": "",
        "user_id": "U0ALICE",
        "channel_id": slack.destination,
        "team_id": "T0TEAM",
        "trigger_id": "t",
        "response_url": f"http://127.0.0.1:{slack.port}/respond/U0ALICE",
    }
    assert (await slack.send(command))[0]

    async def listed() -> Any:
        return [one for one in slack.whispers if one["user"] == "U0ALICE"]

    (whisper,) = await wait_until(listed)
    assert text_of(whisper["blocks"]).count("pay: may it run?") == 3


async def test_a_form_that_the_store_keeps_waiting_is_acknowledged_and_told_later(office: Office) -> None:
    slack = slack_of(office)
    await office.core.paused(pay())
    await office.start()
    shown = await office.card()
    container = {"type": "message", "message_ts": shown.reference, "channel_id": slack.destination}
    click = slack.action(shown.buttons["edit"], "U0ALICE", container=container, channel={"id": "C"})
    await slack.send(click)
    view = await slack.window(click["trigger_id"])
    office.proxy.stall()
    sending = asyncio.create_task(slack.send(slack.submission(view, "U0ALICE", {"amount": "-"})))
    acknowledged, answer = await sending
    assert acknowledged
    assert "Recording" in text_of(answer["view"]["blocks"])
    office.proxy.heal()

    async def asked_again() -> Any:
        found = slack.views[view["id"]]
        return found if "must be a number" in text_of(found["blocks"]) else None

    again = await wait_until(asked_again)
    assert "amount: -" in text_of(again["blocks"])  # what was typed is still there
    assert (await office.core.placet.approval(ID)).status == "pending"
    acknowledged, answer = await slack.send(slack.submission(again, "U0ALICE", {"amount": "5"}))
    assert (acknowledged, answer.get("response_action")) == (True, "clear")
    await office.card(state="Edited and approved by alice -> amount=5")


async def test_a_message_that_a_dead_bot_has_not_noted_is_mended_by_its_click(office: Office) -> None:
    slack = slack_of(office)
    await office.core.paused(pay())
    await office.start()
    shown = await office.card()
    await office.recorded(ID)
    orphan = dict(slack.messages[shown.reference])
    await office.core.placet.decide(ID, {"type": "reject"}, reviewer="alice")
    await office.card(state="Rejected by alice")
    slack.messages["1.000"] = orphan
    container = {"type": "message", "message_ts": "1.000", "channel_id": slack.destination}
    click = slack.action(
        shown.buttons["approve"], "U0ALICE", container=container, channel={"id": slack.destination}
    )
    await slack.send(click)

    async def mended() -> bool:
        return "Rejected by alice" in text_of(slack.messages["1.000"]["blocks"])

    await wait_until(mended)
    assert buttons_of(slack.messages["1.000"]["blocks"]) == {}


async def test_what_was_typed_is_still_there_when_the_store_was_away(office: Office) -> None:
    slack = slack_of(office)
    await office.core.paused(pay())
    await office.start()
    shown = await office.card()
    container = {"type": "message", "message_ts": shown.reference, "channel_id": slack.destination}
    click = slack.action(shown.buttons["edit"], "U0ALICE", container=container, channel={"id": "C"})
    await slack.send(click)
    view = await slack.window(click["trigger_id"])
    office.proxy.cut()
    acknowledged, answer = await slack.send(slack.submission(view, "U0ALICE", {"amount": "5"}))
    assert acknowledged
    if answer.get("response_action") == "errors":
        assert "Placet's store d" in answer["errors"]["field:0"]
    else:

        async def asked_again() -> Any:
            found = slack.views[view["id"]]
            return found if "Placet's store d" in text_of(found["blocks"]) else None

        view = await wait_until(asked_again)
        assert "amount: 5" in text_of(view["blocks"])
    office.proxy.heal()

    async def taken() -> bool:
        _, answer = await slack.send(slack.submission(view, "U0ALICE", {"amount": "5"}))
        return bool(answer.get("response_action") == "clear")

    await wait_until(taken)
    await office.card(state="Edited and approved by alice -> amount=5")
