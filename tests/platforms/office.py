"""A platform's server, bots that serve it as processes, and the records that they share with others."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from chaos.proxy import Proxy
from core import Core, open_core

from fleet import WorkerProcess, wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from platforms.platform import Platform, Shown

ID = "a00000000001"
PLATFORMS = [name for name in ("slack", "telegram", "discord", "webhook") if find_spec(f"platforms.{name}")]


@dataclass
class Office:
    """A platform, bots that serve it, and the records that they share with everybody else."""

    core: Core
    platform: Platform
    proxy: Proxy
    folder: Path
    bots: list[WorkerProcess] = field(default_factory=list)
    channel: str = ""
    """What `placet bot` is started with, if that is not the platform's name."""

    async def start(self, replicas: int = 1) -> None:
        for replica in range(replicas):
            log = self.folder / f"bot-{len(self.bots)}.log"
            with log.open("wb") as out:
                process = subprocess.Popen(  # noqa: ASYNC220 - as long-lived as the test
                    [sys.executable, "-m", "placet.cli", "bot", self.channel or self.platform.name],
                    env=self.env | self.platform.env(replica),
                    stdout=out,
                    stderr=subprocess.STDOUT,
                )
            self.bots.append(WorkerProcess(process, log))

        async def started() -> bool:
            for bot in self.bots[-replicas:]:
                assert bot.process.poll() is None, bot.log
            return all("bot.started" in bot.log for bot in self.bots[-replicas:])

        await wait_until(started)

    @property
    def env(self) -> dict[str, str]:
        return {
            **os.environ,
            "PLACET_REDIS_URL": f"redis://127.0.0.1:{self.proxy.port}/0",
            "PLACET_BROKER_URL": self.core.connection.settings.broker_url,
            "PLACET_NAMESPACE": self.core.connection.settings.namespace,
            "PLACET_ENCRYPTION_KEY": self.core.connection.settings.encryption_key,
            "PLACET_REVIEWERS": str(self.folder / "reviewers.yaml"),
            "PLACET_ROUTES": str(self.folder / "routes.yaml"),
        }

    async def card(self, approval_id: str = ID, *, state: str = "Waits for a decision") -> Shown:
        """Wait for the one card of a request, and until it says `state`."""

        async def there() -> Any:
            cards = await self.platform.cards(approval_id)
            assert len(cards) <= 1, cards
            return cards[0] if cards and state in cards[0].text else None

        try:
            shown: Shown = await wait_until(there, seconds=40)
        except TimeoutError:
            cards = await self.platform.cards(approval_id)
            pytest.fail(f"no card says {state!r}: {cards}\n" + "\n".join(bot.log for bot in self.bots))
        return shown

    async def recorded(self, *approval_ids: str) -> None:
        """Wait until the bots have noted the cards of these requests, and look at none of them."""

        async def noted() -> bool:
            taken = await self.core.redis.hlen(self.core.connection.keys("cards_taken", self.platform.name))
            cards = [await self.core.placet.cards(one) for one in approval_ids]
            return not taken and all(any(card.reference for card in found) for found in cards)

        await wait_until(noted)

    async def click(self, action: str, *, by: str = "alice", approval_id: str = ID, **more: Any) -> Any:
        shown = more.pop("shown", None) or await self.card(approval_id)
        token = more.pop("token", None) or shown.buttons[action]
        answer = await self.platform.click(token, by=by, shown=shown, **more)
        assert answer.acknowledged
        return answer


@asynccontextmanager
async def opened(name: str, redis_url: str, folder: Path, **settings: Any) -> AsyncIterator[Office]:
    module = import_module(f"platforms.{name}")
    reviewers = folder / "reviewers.yaml"
    proxy = Proxy(urlsplit(redis_url).port or 6379)
    await proxy.start()
    async with (
        module.opened(folder) as platform,
        open_core(redis_url, reviewers=str(reviewers), **settings) as core,
    ):
        people = {who: f"{name}:{id_}" for who, id_ in platform.people.items()}
        reviewers.write_text(
            "reviewers:\n"
            f"  alice: {{groups: [finance], identities: ['{people['alice']}']}}\n"
            f"  bob: {{identities: ['{people['bob']}']}}\n"
        )
        (folder / "routes.yaml").write_text(f"routes:\n- to: '{name}:{platform.destination}'\n")
        made = Office(core=core, platform=platform, proxy=proxy, folder=folder)
        try:
            yield made
        finally:
            for bot in made.bots:
                if bot.process.poll() is None:
                    bot.kill()
            await proxy.close()
