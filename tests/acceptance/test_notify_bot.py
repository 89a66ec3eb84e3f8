"""Notifications by a bot process, through Apprise's own senders of JSON and e-mail."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from core import request
from platforms.notify import PASSWORD, Notified
from platforms.office import ID, opened

from fleet import wait_until
from placet.digest import digest_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from platforms.office import Office

pytestmark = pytest.mark.acceptance


@pytest.fixture
async def office(redis_url: str, tmp_path: Path) -> AsyncIterator[Office]:
    async with opened("notify", redis_url, tmp_path) as made:
        yield made


async def test_who_is_notified_is_told_what_waits_and_once_what_became_of_it(office: Office) -> None:
    told = cast("Notified", office.platform)
    _routes(office, "- {to: ['notify:hook'], remind_seconds: 1}")
    await office.core.paused(request(ID, args={"amount": 42}, digest=digest_of("pay")))
    await office.start()

    async def reminded() -> bool:
        return len(told.posts) > 1

    await wait_until(reminded)
    await office.core.placet.decide(ID, {"type": "reject", "message": "no"}, reviewer="alice")

    async def ended() -> bool:
        return "Rejected by alice (no)" in told.posts[-1]["message"]

    await wait_until(ended)
    await office.core.paused(request("a00000000002", digest=digest_of("2")), run_id="r2", thread_id="t2")

    async def next_one() -> bool:
        return "a00000000002" in told.posts[-1]["message"]

    await wait_until(next_one)
    assert ["Rejected" in one["message"] for one in told.posts].count(True) == 1
    first = told.posts[0]
    assert first["title"] == f"{(await office.core.placet.approval(ID)).tool}: may it run?"
    assert first["message"].splitlines()[1] == f"https://placet.example.com/approvals/{ID}"


async def test_a_mail_shows_text_and_no_markup(office: Office) -> None:
    told = cast("Notified", office.platform)
    _routes(office, "- to: ['notify:mail']")
    await office.core.paused(request(ID, args={"note": "<b>@everyone</b>"}, digest=digest_of("pay")))
    await office.start()

    async def mailed() -> bool:
        return len(told.mails) == 1

    await wait_until(mailed)
    (mail,) = told.mails
    assert mail["subject"] == f"{(await office.core.placet.approval(ID)).tool}: may it run?"
    assert mail.get_content_type() == "text/plain"
    assert '"note": "<b>[@]everyone</b>"' in mail.get_content()


async def test_what_is_not_taken_is_tried_again_and_no_password_is_told(office: Office) -> None:
    told = cast("Notified", office.platform)
    told.fail(1)
    await office.core.paused(request(ID, args={"note": "pii-args"}, digest=digest_of("pay")))
    await office.start()

    async def errors() -> list[str]:
        return [one.error for one in await office.core.placet.cards(ID) if one.tries]

    assert await wait_until(errors) == ["hook: not taken; `apprise -v -b test URL` shows why"]

    async def taken() -> bool:
        return len(told.posts) == 1

    await wait_until(taken)
    assert PASSWORD not in office.bots[0].log
    assert "pii-args" not in office.bots[0].log


def _routes(office: Office, routes: str) -> None:
    (office.folder / "routes.yaml").write_text(f"routes:\n{routes}\n")
