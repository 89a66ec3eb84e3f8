"""A mailbox, and a program that takes JSON: what Apprise sends notifications to."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from typing import TYPE_CHECKING, Any

from aiohttp import web
from aiosmtpd.controller import Controller
from platforms.one_way import OneWay

from placet.dev.embedded import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from email.message import EmailMessage
    from pathlib import Path

PASSWORD = "pii-hush-4711"  # noqa: S105 - no one's


@dataclass
class Notified(OneWay):
    """What came in at the destinations `hook` and `mail`."""

    name: str = "notify"
    destination: str = "hook"
    ports: tuple[int, int] = field(default_factory=lambda: (free_port(), free_port()))
    posts: list[dict[str, Any]] = field(default_factory=list)
    mails: list[EmailMessage] = field(default_factory=list)

    def env(self, replica: int = 0) -> dict[str, str]:  # noqa: ARG002 - all are alike
        http, smtp = self.ports
        path = self.folder / "notify.yaml"
        path.write_text(
            "destinations:\n"
            f"  hook: json://user:{PASSWORD}@127.0.0.1:{http}/hook\n"
            f"  mail: mailto://127.0.0.1:{smtp}?mode=insecure&from=placet@example.com&to=oncall@example.com\n"
        )
        return {
            "PLACET_NOTIFY_URLS": str(path),
            "PLACET_NOTIFY_LINK": "https://placet.example.com/approvals/{approval_id}",
        }

    async def receive(self, request: web.Request) -> web.Response:
        said = await request.json()
        if self.failures:
            self.failures -= 1
            return web.Response(status=500, text=f"{PASSWORD} {said['message']}")
        self.posts.append(said)
        return web.Response()

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's
        self.mails.append(message_from_bytes(envelope.content, policy=policy.default))
        return "250 OK"


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Notified]:
    platform = Notified(folder)
    app = web.Application()
    app.router.add_post("/hook", platform.receive)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", platform.ports[0]).start()
    mail = Controller(platform, hostname="127.0.0.1", port=platform.ports[1])
    mail.start()
    try:
        yield platform
    finally:
        mail.stop()
        await runner.cleanup()
