"""The webhook of a Teams workflow, as far as a card's sender meets it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web
from platforms.one_way import OneWay

from placet.dev.embedded import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

EXAMPLES = Path(__file__).parents[2] / "examples"
KEY = "pii-sig-4711"
MOST_BYTES = 28_000
"""https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/add-incoming-webhook"""
LITERAL = {"RichTextBlock": {"type", "inlines"}, "TextRun": {"type", "text", "weight", "size"}}
"""Elements whose text is no Markdown, and their keys: https://adaptivecards.io/explorer/TextRun.html"""


@dataclass
class Teams(OneWay):
    """What a channel shows, by card: lines of text, and where its button leads."""

    name: str = "teams"
    destination: str = "ops"
    port: int = field(default_factory=free_port)
    shown: list[tuple[list[str], str]] = field(default_factory=list)

    def env(self, replica: int = 0) -> dict[str, str]:  # noqa: ARG002 - all are alike
        return {
            "PYTHONPATH": str(EXAMPLES),
            "TEAMS_OPS_URL": f"http://127.0.0.1:{self.port}/workflows/x/run?sig={KEY}",
            "TEAMS_LINK": "https://placet.example.com/approvals/{approval_id}",
        }

    async def receive(self, request: web.Request) -> web.Response:
        if self.failures:
            self.failures -= 1
            return web.Response(status=429, headers={"retry-after": "1"})
        if request.query["sig"] != KEY:
            return web.Response(status=401)
        if len(await request.read()) > MOST_BYTES:
            return web.Response(status=413)
        self.shown.append(_read(await request.json()))
        return web.Response(status=202)


def _read(message: dict[str, Any]) -> tuple[list[str], str]:
    assert message["type"] == "message"
    (attachment,) = message["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card = attachment["content"]
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    lines = []
    for element in card["body"]:
        for part in (element, *element["inlines"]):
            assert set(part) <= LITERAL[part["type"]]
        lines += [run["text"] for run in element["inlines"]]
    (action,) = card["actions"]
    assert action["type"] == "Action.OpenUrl"
    return lines, action["url"]


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Teams]:
    platform = Teams(folder)
    app = web.Application()
    app.router.add_post("/workflows/x/run", platform.receive)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", platform.port).start()
    try:
        yield platform
    finally:
        await runner.cleanup()
