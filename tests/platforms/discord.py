"""Discord on loopback: its REST API as far as the bot uses it, its gateway, and people who click."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any

from aiohttp import BodyPartReader, WSMsgType, web
from platforms.discord_limits import COMPONENTS_V2, EPHEMERAL, message_problems, modal_problems, walk
from platforms.discord_markdown import read
from platforms.platform import Answer, Shown

from fleet import wait_until
from placet.dev.embedded import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

TOKEN, APPLICATION, GUILD, CHANNEL = "MTIz.test.token", "1001", "2002", "3003"
ACK_SECONDS = 3
EPOCH_MS = 1_420_070_400_000
LABELS = ("For", "Who may decide", "Agent", "Run", "Thread", "Asked", "Request")
PARTS = ("Description", "Arguments", "Question")


@dataclass
class Interaction:
    """A click or a sent form, until its token ends."""

    id: str
    token: str
    sent: float
    answered: asyncio.Future[dict[str, Any]]
    told: asyncio.Future[dict[str, Any]]
    """The message to this person alone, when it has been filled in."""
    acks: int = 0


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
    files: dict[str, str] = field(default_factory=dict)
    is_known: bool = True
    """Whether the token is the application's."""
    numbers: Any = field(default_factory=lambda: count(1))

    def env(self, replica: int = 0) -> dict[str, str]:
        _ = replica
        return {
            "PLACET_DISCORD_BOT_TOKEN": TOKEN,
            "PLACET_DISCORD_API_URL": f"http://127.0.0.1:{self.port}/api/v10",
        }

    def snowflake(self) -> str:
        return str((int(time.time() * 1000) - EPOCH_MS << 22) + next(self.numbers))

    # what the bot calls

    async def me(self, request: web.Request) -> web.Response:
        return self._checked(request) or _json(_user(APPLICATION, bot=True))

    async def application(self, request: web.Request) -> web.Response:
        told = {
            "id": APPLICATION,
            "name": "Placet",
            "description": "",
            "icon": None,
            "verify_key": "",
            "bot_public": False,
            "bot_require_code_grant": False,
            "owner": _user("1"),
            "flags": 0,
        }
        return self._checked(request) or _json(told)

    async def gateway(self, _: web.Request) -> web.Response:
        return _json({"url": f"ws://127.0.0.1:{self.port}/gateway"})

    async def direct(self, request: web.Request) -> web.Response:
        person = (await request.json())["recipient_id"]
        told = {"id": f"9{person}", "type": 1, "recipients": [_user(str(person))], "last_message_id": None}
        return self._checked(request) or _json(told)

    async def post(self, request: web.Request) -> web.Response:
        given, channel = await request.json(), request.match_info["channel"]
        if refused := self._checked(request) or self._failed():
            return refused
        if channel not in (CHANNEL, *(f"9{one}" for one in self.people.values())):
            return _error(404, 10003, "Unknown Channel")
        layout = bool(given.get("flags", 0) & COMPONENTS_V2)
        if wrong := message_problems(given, layout=layout):
            return _form_error(wrong)
        if given.get("enforce_nonce") and (there := self.nonces.get(given["nonce"])):
            return _json(there)
        message = self._message(channel, given)
        self.messages[message["id"]] = message
        if given.get("enforce_nonce"):
            self.nonces[given["nonce"]] = message
        return _json(message)

    async def edit(self, request: web.Request) -> web.Response:
        given, id_ = await request.json(), request.match_info["message"]
        if refused := self._checked(request) or self._failed():
            return refused
        if id_ not in self.messages:
            return _error(404, 10008, "Unknown Message")
        if wrong := message_problems(given, layout=True):
            return _form_error(wrong)
        self.messages[id_] |= {"components": given["components"]}
        return _json(self.messages[id_])

    async def callback(self, request: web.Request) -> web.Response:
        """Answer an interaction, which is to happen once, and within three seconds."""
        found = self.interactions.get(request.match_info["token"])
        given = await request.json()
        if found is None or time.monotonic() - found.sent > ACK_SECONDS:
            return _error(404, 10062, "Unknown interaction")
        found.acks += 1
        if found.answered.done():
            return _error(400, 40060, "Interaction has already been acknowledged.")
        data = given.get("data") or {}
        wrong = {
            4: lambda: message_problems(data, layout=False),
            5: lambda: [] if data == {"flags": EPHEMERAL} else ["not for this person alone"],
            9: lambda: modal_problems(data),
        }[given["type"]]()
        if wrong:
            return _form_error(wrong)
        found.answered.set_result(given)
        if given["type"] == 4:
            assert data["flags"] & EPHEMERAL
            found.told.set_result(self._message(CHANNEL, data))
        assert request.query["with_response"] == "1"
        told = {"id": found.id, "type": 3, "response_message_id": "1", "response_message_ephemeral": True}
        return _json({"interaction": told, "resource": {"type": given["type"]}})

    async def original(self, request: web.Request) -> web.Response:
        """Fill in what was promised to one person; replicas may do so several times."""
        found = self.interactions.get(request.match_info["token"])
        if found is None or not found.answered.done():
            return _error(401, 50027, "Invalid Webhook Token")
        given, files = await _body(request)
        if wrong := message_problems(given, layout=False):
            return _form_error(wrong)
        message = {**self._message(CHANNEL, {**given, "flags": EPHEMERAL}), "file": "".join(files.values())}
        if not found.told.done():
            found.told.set_result(message)
        return _json(message)

    def _checked(self, request: web.Request) -> web.Response | None:
        if request.headers.get("authorization") != f"Bot {TOKEN}" or not self.is_known:
            return _error(401, 0, "401: Unauthorized")
        return None

    def _failed(self) -> web.Response | None:
        if not self.failures:
            return None
        status, body, headers = self.failures.pop(0)
        return _json(body, status=status, headers=headers)

    def _message(self, channel: str, given: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": self.snowflake(),
            "channel_id": channel,
            "author": _user(APPLICATION, bot=True),
            "content": given.get("content") or "",
            "components": given.get("components", []),
            "flags": given.get("flags", 0),
            "timestamp": datetime.now(UTC).isoformat(),
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": False,
            "pinned": False,
            "type": 0,
            "mentions": [],
            "mention_roles": [],
            "attachments": [],
            "embeds": [],
        }

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
        ready = {
            "v": 10,
            "session_id": self.snowflake(),
            "user": _user(APPLICATION, bot=True),
            "resume_gateway_url": f"ws://127.0.0.1:{self.port}/gateway",
            "guilds": [{"id": GUILD, "unavailable": True}],
            "application": {"id": APPLICATION, "flags": 0},
        }
        await socket.send_json({"op": 0, "t": "READY", "s": 1, "d": ready})
        guild = {
            "id": GUILD,
            "name": "Office",
            "owner_id": "1",
            "member_count": 4,
            "channels": [
                {"id": CHANNEL, "type": 0, "name": "ops", "position": 0, "permission_overwrites": []}
            ],
            "roles": [],
            "emojis": [],
            "members": [],
            "features": [],
            "threads": [],
            "voice_states": [],
            "verification_level": 0,
            "default_message_notifications": 0,
            "explicit_content_filter": 0,
            "mfa_level": 0,
            "nsfw_level": 0,
            "premium_tier": 0,
            "preferred_locale": "en-US",
            "system_channel_flags": 0,
            "presences": [],
            "stickers": [],
            "stage_instances": [],
        }
        await socket.send_json({"op": 0, "t": "GUILD_CREATE", "s": 2, "d": guild})
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
            "components": [_filled(one, typed) for one in modal["components"]],
        }
        sent = await self.interact(5, data, by=by, message=message)
        return await self.told(sent) if await self.answer_to(sent) else None

    async def interact(
        self, kind: int, data: dict[str, Any], *, by: str, message: dict[str, Any], id_: str = ""
    ) -> Interaction:
        """Send an interaction to every session of the bot."""

        async def connected() -> bool:
            return bool(self.sockets)

        await wait_until(connected, seconds=30)
        loop = asyncio.get_running_loop()
        made = Interaction(
            id=id_ or self.snowflake(),
            token=f"aW50ZXJhY3Rpb246{next(self.numbers)}",
            sent=time.monotonic(),
            answered=loop.create_future(),
            told=loop.create_future(),
        )
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
                "user": _user(self.people[by]),
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

    async def delete(self, shown: Shown) -> None:
        del self.messages[shown.reference]


def text_of(message: dict[str, Any]) -> str:
    """All that a reader sees of a message but for the buttons."""
    texts = [one["content"] for one in walk(message["components"]) if one["type"] == 10]
    return "\n".join(read(text)[0] for text in [message.get("content", ""), *texts] if text)


def buttons_of(message: dict[str, Any]) -> dict[str, str]:
    """What each button carries, by its action."""
    tokens = [one["custom_id"] for one in walk(message["components"]) if one["type"] == 2]
    return {token.split(":")[1]: token for token in tokens}


def pings_of(message: dict[str, Any]) -> list[str]:
    """What Discord would make of a card's texts that is no part of every card."""
    found: list[str] = [message["content"]] if message.get("content") else []
    for text in [one["content"] for one in walk(message["components"]) if one["type"] == 10]:
        _, marks = read(text)
        allowed: list[tuple[str, str]] = []
        if marks and marks[0][0] == "heading" and text.startswith("### "):
            allowed = [("heading", text)]
        elif marks and marks[0] == ("bold", text):
            allowed = [("bold", text)]
        elif text.startswith("-# "):
            allowed = [("small", line) for line in text.split("\n") if _label(line) in LABELS]
            if any(text.startswith(f"-# {part}\n") for part in PARTS):
                allowed = [
                    marks[0],
                    *(one for one in marks[1:2] if one[0] == "block" and text.endswith("\n```")),
                ]
        found += [f"{name}: {what}" for name, what in marks if (name, what) not in allowed]
        if [name for name, _ in allowed].count("heading") and "\n" in text:
            found.append(text)
    return found


def _label(line: str) -> str:
    return line.removeprefix("-# ").partition(":")[0]


def _filled(label: dict[str, Any], typed: Mapping[str, str]) -> dict[str, Any]:
    """A field of a form as it comes back."""
    one = label["component"]
    name = one["custom_id"]
    if one["type"] == 3:
        before = [option["value"] for option in one["options"] if option.get("default")]
        values = [typed[name]] if name in typed else before
        assert set(values) <= {option["value"] for option in one["options"]}
        return {"type": 18, "component": {"type": 3, "custom_id": name, "values": values}}
    value = typed.get(name, one.get("value") or "")
    assert value or not one["required"], "Discord asks for it before it sends"
    return {"type": 18, "component": {"type": 4, "custom_id": name, "value": value}}


async def _body(request: web.Request) -> tuple[dict[str, Any], dict[str, str]]:
    if request.content_type == "application/json":
        return await request.json(), {}
    given: dict[str, Any] = {}
    files: dict[str, str] = {}
    async for part in await request.multipart():
        assert isinstance(part, BodyPartReader)
        text = await part.text()
        if part.name == "payload_json":
            given = json.loads(text)
        else:
            files[part.filename or ""] = text
    assert len(files) == len(given.get("attachments", []))
    return given, files


def _user(id_: str, *, bot: bool = False) -> dict[str, Any]:
    return {"id": id_, "username": f"u{id_}", "discriminator": "0", "avatar": None, "bot": bot}


def _json(data: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    # as Discord has it: without a charset, which its library does not take for JSON
    return web.Response(
        body=json.dumps(data).encode(), status=status, headers=headers, content_type="application/json"
    )


def _error(status: int, code: int, message: str) -> web.Response:
    return _json({"code": code, "message": message}, status=status)


def _form_error(wrong: list[str]) -> web.Response:
    errors = {"_errors": [{"code": "INVALID", "message": one} for one in wrong]}
    return _json({"code": 50035, "message": "Invalid Form Body", "errors": errors}, status=400)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Discord]:
    _ = folder
    made = Discord(port=free_port())
    app = web.Application()
    api = "/api/v10"
    app.router.add_get(f"{api}/users/@me", made.me)
    app.router.add_get(f"{api}/oauth2/applications/@me", made.application)
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
