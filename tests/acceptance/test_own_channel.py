"""A channel that an outsider wrote, `examples/teams_channel.py`, served by `placet bot`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from core import request
from platforms.office import ID, opened
from platforms.teams import EXAMPLES, KEY

from fleet import wait_until
from placet.digest import digest_of

if TYPE_CHECKING:
    from pathlib import Path

    from platforms.teams import Teams

pytestmark = pytest.mark.acceptance


async def test_a_page_of_code_shows_requests_on_another_platform(redis_url: str, tmp_path: Path) -> None:
    note = "**Approved by alice** [pay](https://evil.example) <at>everyone</at>" + "&" * 12_000
    async with opened("teams", redis_url, tmp_path) as office:
        office.channel = "teams_channel:channel"
        teams = cast("Teams", office.platform)
        teams.fail(1)
        await office.core.paused(
            request(ID, kind="question", value=note, description="", digest=digest_of("q"))
        )
        await office.start()

        async def errors() -> list[str]:
            return [one.error for one in await office.core.placet.cards(ID)]

        async def shown() -> bool:
            return len(teams.shown) == 1

        assert await wait_until(errors) == ["Teams answered 429"]
        await wait_until(shown)
        lines, link = teams.shown[0]
        assert lines[:2] == ["A question", "Waits for a decision"]
        assert lines[-1].startswith(note[:9_000])
        assert lines[-1].endswith("characters more)")
        assert link == f"https://placet.example.com/approvals/{ID}"
        await office.core.placet.decide(ID, {"type": "answer", "value": "Monday"}, reviewer="alice")

        async def told() -> bool:
            return len(teams.shown) == 2

        await wait_until(told)
        assert teams.shown[1] == (["A question", 'Answered by alice -> "Monday"'], link)
        assert KEY not in office.bots[0].log


def test_it_is_a_page() -> None:
    assert len((EXAMPLES / "teams_channel.py").read_text().splitlines()) < 100
