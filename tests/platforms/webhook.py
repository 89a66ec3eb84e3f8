"""A tool of somebody's own that speaks Placet's webhooks: it keeps cards, and signs decisions."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import aiohttp
from aiohttp import web
from platforms.platform import Answer, Shown
from standardwebhooks import Webhook, WebhookVerificationError

from fleet import wait_until
from placet.dev.embedded import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

NEW, OLD, DESK = "whsec_" + "bmV3" * 8, "whsec_" + "b2xk" * 8, "whsec_" + "ZGVz" * 8


@dataclass
class Tool:
    """The receiver of the endpoint `ops`, and the people who use it."""

    folder: Path
    port: int = 0
    name: str = "webhook"
    destination: str = "ops"
    people: Mapping[str, str] = field(
        default_factory=lambda: {who: f"ops/{who}@example.com" for who in ("alice", "bob", "mallory")}
    )
    ports: list[int] = field(default_factory=lambda: [free_port(), free_port()])
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    failures: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    sent: set[str] = field(default_factory=set)
    ids: list[str] = field(default_factory=list)
    lost: int = 0
    """How many answers do not get back to the bot."""

    def env(self, replica: int = 0) -> dict[str, str]:
        path = self.folder / "endpoints.yaml"
        url = f"http://127.0.0.1:{self.port}/placet"
        path.write_text(
            f"endpoints:\n  ops: {{url: '{url}', secrets: [{NEW}, {OLD}]}}\n"
            f"  desk: {{url: '{url}', secrets: [{DESK}]}}\n"
        )
        return {
            "PLACET_WEBHOOK_ENDPOINTS": str(path),
            "PLACET_WEBHOOK_LISTEN": f"127.0.0.1:{self.ports[replica]}",
        }

    async def receive(self, request: web.Request) -> web.Response:
        body = await request.read()
        try:
            told = Webhook(NEW).verify(body, dict(request.headers))
        except WebhookVerificationError as error:
            return web.Response(status=401, text=str(error))
        if self.failures:
            status, headers = self.failures.pop(0)
            return web.Response(status=status, headers=headers)
        data = told["data"]
        if data["reference"] in self.deleted:
            return web.Response(status=410)
        if (id_ := request.headers["webhook-id"]) not in self.ids:
            known = data["reference"] in self.messages
            assert told["type"] == ("approval.updated" if known else "approval.posted")
        self.ids.append(id_)
        self.messages[data["reference"]] = data
        if self.lost:
            self.lost -= 1
            assert request.transport is not None
            request.transport.abort()
        return web.Response(status=204)

    async def cards(self, approval_id: str) -> list[Shown]:
        return [
            Shown(
                reference=reference,
                destination=reference.partition(":")[0],
                text=_text(data),
                buttons={one["action"]: one["button"] for one in data["buttons"]},
            )
            for reference, data in self.messages.items()
            if data["approval"]["id"] == approval_id and reference not in self.deleted
        ]

    async def click(
        self, token: str, *, by: str, shown: Shown, typed: Mapping[str, str] | None = None, replica: int = 0
    ) -> Answer:
        _ = shown
        person = self.people[by].partition("/")[2]
        body = {"button": token, "person": person, "typed": dict(typed or {})}
        self.sent.add(token)
        status, reply = await self.send(json.dumps(body), replica=replica)
        assert (status == 200) == reply["recorded"]
        return Answer(acknowledged=True, told=reply["text"], issues=reply["issues"])

    async def send(
        self,
        body: str,
        *,
        secret: str = OLD,
        endpoint: str = "ops",
        replica: int = 0,
        id_: str = "",
        at: datetime | None = None,
        signed: str | None = None,
        before: tuple[tuple[str, str], ...] = (),
    ) -> tuple[int, Any]:
        """Send a signed body to the bot; status and JSON. `signed` was signed in its place."""
        id_, at = id_ or f"msg_{uuid4().hex}", at or datetime.now(UTC)
        signature = Webhook(secret).sign(id_, at, body if signed is None else signed)
        headers = [
            *before,
            ("webhook-id", id_),
            ("webhook-timestamp", str(int(at.timestamp()))),
            ("webhook-signature", f"v1a,xx {signature}"),
        ]
        url = f"http://127.0.0.1:{self.ports[replica]}/endpoints/{endpoint}/decisions"

        async def answered() -> Any:
            with suppress(aiohttp.ClientConnectorError):  # it does not listen yet
                async with (
                    aiohttp.ClientSession() as session,
                    session.post(url, data=body.encode(), headers=headers) as answer,
                ):
                    return answer.status, await answer.json(content_type=None)
            return None

        status, data = await wait_until(answered)
        return status, data

    def acknowledged(self, token: str) -> bool:
        return token in self.sent

    def fail(self, times: int, *, retry_after: float | None = None) -> None:
        limited = (429, {"retry-after": str(int(retry_after or 0))})
        self.failures += [(503, {}) if retry_after is None else limited] * times

    async def delete(self, shown: Shown) -> None:
        self.deleted.add(shown.reference)


def _text(data: dict[str, Any]) -> str:
    facts = [f"{fact['label']}: {fact['text']}" for fact in data["facts"]]
    return "\n".join([data["heading"], data["state"], *facts, data["description"], data["content"]])


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Tool]:
    tool = Tool(folder)
    app = web.Application()
    app.router.add_post("/placet", tool.receive)
    runner = web.AppRunner(app)
    await runner.setup()
    tool.port = free_port()
    await web.TCPSite(runner, "127.0.0.1", tool.port).start()
    try:
        yield tool
    finally:
        await runner.cleanup()
