"""One run, asked about on every platform at once: secrets stay masked, each card tells how it went on."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from platforms.office import PLATFORMS, opened

from fleet import AGENTS, PATIENCE, Fleet, human, paused, wait_until

if TYPE_CHECKING:
    from platforms.office import Office

    from placet import Placet

MAIL = "jane.roe.4711@example.com"
TOKEN = "xapp-1-A0PIITEST-4711081508-c0ffee"  # noqa: S105 - no one's
RAW = (MAIL, TOKEN, "pii.Test-4711.c0ffee")


@pytest.mark.settings(
    config=str(Path(AGENTS).parent / "pii_langgraph.json"), encryption_key="a key of 32 bytes, for the tests"
)
async def test_cards_on_all_platforms_hold_no_secret_and_follow_the_run(
    fleet: Fleet, placet: Placet, tmp_path: Path
) -> None:
    """hermes-agent#78032, and discord-api-docs#6851: cards are updated long after the click."""
    settings = fleet.settings
    same = {
        "broker_url": settings.broker_url,
        "namespace": settings.namespace,
        "queues": settings.queues,
        "encryption_key": settings.encryption_key,
    }
    async with AsyncExitStack() as open_until_the_end:
        offices: dict[str, Office] = {}
        for name in PLATFORMS:
            (folder := tmp_path / name).mkdir()
            office = await open_until_the_end.enter_async_context(
                opened(name, settings.redis_url, folder, **same)
            )
            await office.start()
            offices[name] = office
        await fleet.start()
        run = await placet.enqueue("writing", human(f"Write to {MAIL} with {TOKEN}"))
        (asked,) = await paused(placet, run)
        for office in offices.values():
            shown = await office.card(asked.id)
            assert "[REDACTED_EMAIL]" in shown.text
            assert "****ffee" in shown.text
            assert [raw for raw in RAW if raw in shown.text] == []
        first = offices[PLATFORMS[0]]
        await first.click("approve", approval_id=asked.id)
        (effect,) = await fleet.started("send")
        assert (effect.args["to"], effect.args["token"]) == (MAIL, TOKEN)
        for office in offices.values():
            await office.card(asked.id, state="Approved by alice")
        fleet.open_barrier("send")
        assert (await placet.wait(run.id, timeout=PATIENCE)).status == "success"
        for office in offices.values():
            await office.card(asked.id, state="Approved by alice: it ran")
            assert [raw for raw in RAW if any(raw in bot.log for bot in office.bots)] == []

        async def drawn() -> bool:
            return all(card.tries == 0 and card.reference for card in await placet.cards(asked.id))

        await wait_until(drawn)
        assert {card.channel for card in await placet.cards(asked.id)} == set(PLATFORMS)
