"""Discord on loopback: its REST API as far as the bot uses it, its gateway, and people who click."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from aiohttp import WSMsgType, web
from platforms.discord_limits import COMPONENTS_V2, EPHEMERAL, message_problems, modal_problems
from platforms.discord_reading import buttons_of, pings_of, text_of
from platforms.discord_wire import (
    ACK_SECONDS,
    APPLICATION,
    CHANNEL,
    EPOCH_MS,
    GUILD,
    GUILD_CREATE,
    TOKEN,
    Interaction,
    application,
    body,
    error,
    filled,
    form_error,
    json_response,
    message_of,
    ready,
    user,
)
from platforms.platform import Answer, Shown

from fleet import wait_until
from placet.dev.embedded import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path


@dataclass
class Discord:
    """A server with one channel, and direct messages."""

    port: int = 0
    name: str = "discord"
    destination: str = CHANNEL
    people: Mapping[str, str] = field(
        default_factory=lambda: {"alice": "80351", "bob": "80352", "mallory": "80353"}
    )
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    nonces: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: list[tuple[int, dict[str, Any], dict[str, str]]] = field(default_factory=list)
    sockets: list[web.WebSocketResponse] = field(default_factory=list)
    interactions: dict[str, Interaction] = field(default_factory=dict)
    clicked: set[str] = field(default_factory=set)
    intents: list[int] = field(default_factory=list)
    is_known: bool = True
    """Whether the token is the application's."""
    outage: bool = False
    lost: int = 0
    """How many posts are taken without an answer."""
    numbers: Any = field(default_factory=lambda: count(1))

    def env(self, replica: int = 0) -> dict[str, str]:
        _ = replica
        return {
            "PLACET_DISCORD_BOT_TOKEN": TOKEN,
            "PLACET_DISCORD_API_URL": f"http://127.0.0.1:{self.port}/api/v10",
        }

    def snowflake(self, *, seconds_ago: float = 0) -> str:
        return str((int((time.time() - seconds_ago) * 1000) - EPOCH_MS << 22) + next(self.numbers))

    # what the bot calls

    async def me(self, request: web.Request) -> web.Response:
        return self._checked(request) or json_response(user(APPLICATION, bot=True))

    async def about(self, request: web.Request) -> web.Response:
        return self._checked(request) or json_response(application())

    async def gateway(self, _: web.Request) -> web.Response:
        return json_response({"url": f"ws://127.0.0.1:{self.port}/gateway"})

    async def direct(self, request: web.Request) -> web.Response:
        person = (await request.json())["recipient_id"]
        told = {"id": f"9{person}", "type": 1, "recipients": [user(str(person))], "last_message_id": None}
        return self._checked(request) or json_response(told)

    async def post(self, request: web.Request) -> web.Response:
        given, channel = await request.json(), request.match_info["channel"]
        if refused := self._checked(request) or self._failed():
            return refused
        if channel not in (CHANNEL, *(f"9{one}" for one in self.people.values())):
            return error(404, 10003, "Unknown Channel")
        layout = bool(given.get("flags", 0) & COMPONENTS_V2)
        if wrong := message_problems(given, layout=layout):
            return form_error(wrong)
        if given.get("enforce_nonce") and (there := self.nonces.get(given["nonce"])):
            return json_response(there)
        message = self._message(channel, given)
        self.messages[message["id"]] = message
        if given.get("enforce_nonce"):
            self.nonces[given["nonce"]] = message
        if self.lost:
            self.lost -= 1
            return error(502, 0, "502: Bad Gateway")
        return json_response(message)

    async def edit(self, request: web.Request) -> web.Response:
        given, id_ = await request.json(), request.match_info["message"]
        if refused := self._checked(request) or self._failed():
            return refused
        if id_ not in self.messages:
            return error(404, 10008, "Unknown Message")
        if wrong := message_problems(given, layout=True):
            return form_error(wrong)
        self.messages[id_] |= {"components": given["components"]}
        return json_response(self.messages[id_])

    async def callback(self, request: web.Request) -> web.Response:
        """Answer an interaction, which is to happen once, and within three seconds."""
        found = self.interactions.get(request.match_info["token"])
        given = await request.json()
        if found is not None and found.answered.done():
            found.acks += 1
            return error(400, 40060, "Interaction has already been acknowledged.")
        if found is None or time.monotonic() - found.sent > ACK_SECONDS:
            return error(404, 10062, "Unknown interaction")
        found.acks += 1
        data = given.get("data") or {}
        wrong = {
            4: lambda: message_problems(data, layout=False),
            5: lambda: [] if data == {"flags": EPHEMERAL} else ["not for this person alone"],
            9: lambda: modal_problems(data),
        }[given["type"]]()
        if wrong:
            return form_error(wrong)
        found.answered.set_result(given)
        if given["type"] == 4:
            assert data["flags"] & EPHEMERAL
            found.told.set_result(self._message(CHANNEL, data))
        assert request.query["with_response"] == "1"
        told = {"id": found.id, "type": 3, "response_message_id": "1", "response_message_ephemeral": True}
        return json_response({"interaction": told, "resource": {"type": given["type"]}})

    async def original(self, request: web.Request) -> web.Response:
        """Fill in what was promised to one person; replicas may do so several times."""
        found = self.interactions.get(request.match_info["token"])
        if found is None or not found.answered.done():
            return error(401, 50027, "Invalid Webhook Token")
        given, files = await body(request)
        if wrong := message_problems(given, layout=False):
            return form_error(wrong)
        message = {**self._message(CHANNEL, {**given, "flags": EPHEMERAL}), "file": "".join(files.values())}
        if not found.told.done():
            found.told.set_result(message)
        return json_response(message)

    def _checked(self, request: web.Request) -> web.Response | None:
        if self.outage:
            return error(503, 0, "503: Service Unavailable")
        if request.headers.get("authorization") != f"Bot {TOKEN}" or not self.is_known:
            return error(401, 0, "401: Unauthorized")
        return None

    def _failed(self) -> web.Response | None:
        if not self.failures:
            return None
        status, body, headers = self.failures.pop(0)
        return json_response(body, status=status, headers=headers)

    def _message(self, channel: str, given: dict[str, Any]) -> dict[str, Any]:
        return message_of(self.snowflake(), channel, given)

    async def socket(self, request: web.Request) -> web.WebSocketResponse:
        """A gateway session; Discord need not compress what it sends."""
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"op": 10, "d": {"heartbeat_interval": 1000}, "s": None, "t": None})
        async for message in socket:
            if message.type is not WSMsgType.TEXT:
                break
            told = json.loads(message.data)
            if told["op"] == 1:
                await socket.send_json({"op": 11, "d": None})
            elif told["op"] == 2:
                if told["d"]["token"] != TOKEN:
                    await socket.close(code=4004)
                    break
                self.intents.append(told["d"]["intents"])
                await self._ready(socket)
            elif told["op"] == 6:
                await socket.send_json({"op": 9, "d": False})
        if socket in self.sockets:
            self.sockets.remove(socket)
        return socket

    async def _ready(self, socket: web.WebSocketResponse) -> None:
        await socket.send_json({"op": 0, "t": "READY", "s": 1, "d": ready(self.snowflake(), self.port)})
        await socket.send_json({"op": 0, "t": "GUILD_CREATE", "s": 2, "d": GUILD_CREATE})
        self.sockets.append(socket)

    # what people do

    async def cards(self, approval_id: str) -> list[Shown]:
        shown = [self.shown(message) for message in self.messages.values()]
        return [one for one in shown if f"Request: {approval_id}" in one.text]

    def shown(self, message: dict[str, Any]) -> Shown:
        return Shown(
            reference=message["id"],
            destination=message["channel_id"],
            text=text_of(message),
            buttons=buttons_of(message),
            pings=tuple(pings_of(message)),
        )

    async def click(
        self, token: str, *, by: str, shown: Shown, typed: Mapping[str, str] | None = None, replica: int = 0
    ) -> Answer:
        _ = replica  # every replica is sent every click
        message = self.messages.get(shown.reference) or {
            **self._message(CHANNEL, {"flags": COMPONENTS_V2}),
            "id": shown.reference,
        }
        return await self.press(token, by=by, message=message, typed=typed)

    async def press(
        self, token: str, *, by: str, message: dict[str, Any], typed: Mapping[str, str] | None = None
    ) -> Answer:
        """Click a button of a message, and send the form that opens, if one does."""
        got = await self.pressed(token, by=by, message=message, typed=typed)
        return Answer(acknowledged=got is not None, told=text_of(got) if got else "")

    async def pressed(
        self, token: str, *, by: str, message: dict[str, Any], typed: Mapping[str, str] | None = None
    ) -> dict[str, Any] | None:
        """The same; the message that this person got, None if the click was not acknowledged."""
        data = {"custom_id": token, "component_type": 2}
        click = await self.interact(3, data, by=by, message=message)
        answer = await self.answer_to(click)
        if answer is None:
            return None
        self.clicked.add(token)
        if answer["type"] == 9:
            return await self.send_form(answer["data"], typed or {}, by=by, message=message)
        return await self.told(click)

    async def send_form(
        self, modal: dict[str, Any], typed: Mapping[str, str], *, by: str, message: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Fill in a form and send it; the message that this person got."""
        data = {
            "custom_id": modal["custom_id"],
            "components": [filled(one, typed) for one in modal["components"]],
        }
        sent = await self.interact(5, data, by=by, message=message)
        return await self.told(sent) if await self.answer_to(sent) else None

    async def interact(
        self,
        kind: int,
        data: dict[str, Any],
        *,
        by: str,
        message: dict[str, Any],
        seconds_ago: float = 0,
        acknowledged: bool = False,
    ) -> Interaction:
        """Send an interaction to every session of the bot, perhaps late, or when it was acknowledged."""

        async def connected() -> bool:
            return bool(self.sockets)

        await wait_until(connected, seconds=30)
        loop = asyncio.get_running_loop()
        made = Interaction(
            id=self.snowflake(seconds_ago=seconds_ago),
            token=f"aW50ZXJhY3Rpb246{next(self.numbers)}",
            sent=time.monotonic() - seconds_ago,
            answered=loop.create_future(),
            told=loop.create_future(),
        )
        if acknowledged:
            made.answered.set_result({})
        self.interactions[made.token] = made
        await self.deliver(made, kind, data, by=by, message=message)
        return made

    async def deliver(
        self, made: Interaction, kind: int, data: dict[str, Any], *, by: str, message: dict[str, Any]
    ) -> None:
        """Send it to each session, as Discord also does once more when a session is resumed."""
        sent = {
            "id": made.id,
            "token": made.token,
            "application_id": APPLICATION,
            "type": kind,
            "version": 1,
            "guild_id": GUILD,
            "channel_id": CHANNEL,
            "channel": {"id": CHANNEL, "type": 0, "name": "ops"},
            "member": {
                "user": user(self.people[by]),
                "roles": [],
                "permissions": "0",
                "flags": 0,
                "joined_at": "2020-01-01T00:00:00+00:00",
                "deaf": False,
                "mute": False,
            },
            "data": data,
            "message": message,
            "attachment_size_limit": 10 << 20,
            "app_permissions": "0",
            "entitlements": [],
            "locale": "en-US",
            "authorizing_integration_owners": {},
            "context": 0,
        }
        for socket in list(self.sockets):
            with suppress(ConnectionError):
                await socket.send_json(
                    {"op": 0, "t": "INTERACTION_CREATE", "s": next(self.numbers), "d": sent}
                )

    async def answer_to(self, click: Interaction) -> dict[str, Any] | None:
        """What the bot has answered within Discord's limit, None if it did not."""
        try:
            async with asyncio.timeout(ACK_SECONDS):
                return await asyncio.shield(click.answered)
        except TimeoutError:
            return None

    async def told(self, click: Interaction) -> dict[str, Any]:
        async with asyncio.timeout(30):
            return await asyncio.shield(click.told)

    def acknowledged(self, token: str) -> bool:
        return token in self.clicked

    def fail(self, times: int, *, retry_after: float | None = None) -> None:
        if retry_after is None:
            self.failures += [(503, {"message": "503: Service Unavailable", "code": 0}, {})] * times
            return
        body = {"message": "You are being rate limited.", "retry_after": retry_after, "global": False}
        # the library asks five times by itself where it need not wait for long
        headers = {"Retry-After": str(retry_after), "Via": "1.1 google"}
        self.failures += [(429, body, headers)] * times * 5

    def end_tokens(self) -> None:
        """Let 15 minutes pass: what a click gave ends."""
        self.interactions.clear()

    async def delete(self, shown: Shown) -> None:
        del self.messages[shown.reference]


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Discord]:
    _ = folder
    made = Discord(port=free_port())
    app = web.Application()
    api = "/api/v10"
    app.router.add_get(f"{api}/users/@me", made.me)
    app.router.add_get(f"{api}/oauth2/applications/@me", made.about)
    app.router.add_get(f"{api}/gateway", made.gateway)
    app.router.add_post(f"{api}/users/@me/channels", made.direct)
    app.router.add_post(f"{api}/channels/{{channel}}/messages", made.post)
    app.router.add_patch(f"{api}/channels/{{channel}}/messages/{{message}}", made.edit)
    app.router.add_post(f"{api}/interactions/{{id}}/{{token}}/callback", made.callback)
    app.router.add_patch(f"{api}/webhooks/{APPLICATION}/{{token}}/messages/@original", made.original)
    app.router.add_get("/gateway", made.socket)
    app.router.add_get("/gateway/", made.socket)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", made.port).start()
    try:
        yield made
    finally:
        await runner.cleanup()
