"""Slack on loopback: its Web API as far as the bot uses it, signed clicks, modals, Socket Mode."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import aiohttp
from aiohttp import web
from platforms.platform import Answer, Shown
from platforms.slack_limits import MESSAGE_BLOCKS, problems, view_problems

from fleet import wait_until
from placet.bots.card import read_button
from placet.dev.embedded import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

BOT_TOKEN, APP_TOKEN, SECRET = "xoxb-test", "xapp-test", "8f742231b10e8888abcd99yyyzzz85a5"
ACK_SECONDS = 3
DONE = {
    "approve": "Approved by",
    "edit": "Edited and approved by",
    "reject": "Rejected by",
    "respond": "Answered in the tool's place by",
    "answer": "Answered by",
}


@dataclass
class Slack:
    """A workspace with one channel."""

    port: int = 0
    name: str = "slack"
    destination: str = "C0FINANCE"
    people: Mapping[str, str] = field(
        default_factory=lambda: {"alice": "U0ALICE", "bob": "U0BOB", "mallory": "U0MALLORY"}
    )
    ports: list[int] = field(default_factory=lambda: [free_port(), free_port()])
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    views: dict[str, dict[str, Any]] = field(default_factory=dict)
    homes: dict[str, dict[str, Any]] = field(default_factory=dict)
    whispers: list[dict[str, Any]] = field(default_factory=list)
    failures: list[tuple[int, dict[str, Any], dict[str, str]]] = field(default_factory=list)
    refusals: dict[str, list[str]] = field(default_factory=dict)
    """What the next calls of a method are answered, one error each."""
    sockets: list[web.WebSocketResponse] = field(default_factory=list)
    acks: dict[str, asyncio.Future[Any]] = field(default_factory=dict)
    clicked: dict[str, bool] = field(default_factory=dict)
    """By token: whether a click was acknowledged in time."""
    numbers: Any = field(default_factory=lambda: count(1))

    def env(self, replica: int = 0) -> dict[str, str]:
        return {
            "PLACET_SLACK_BOT_TOKEN": BOT_TOKEN,
            "PLACET_SLACK_SIGNING_SECRET": SECRET,
            "PLACET_SLACK_LISTEN": f"127.0.0.1:{self.ports[replica]}",
            "PLACET_SLACK_API_URL": f"http://127.0.0.1:{self.port}/api",
        }

    def socket_env(self) -> dict[str, str]:
        """What a bot is set to that connects by Socket Mode."""
        return {**self.env(), "PLACET_SLACK_APP_TOKEN": APP_TOKEN}

    # what the bot calls

    async def api(self, request: web.Request) -> web.Response:
        method, given = request.match_info["method"], await _arguments(request)
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self.refusals.get(method):
            return web.json_response({"ok": False, "error": self.refusals[method].pop(0)})
        if token != (APP_TOKEN if method == "apps.connections.open" else BOT_TOKEN):
            return web.json_response({"ok": False, "error": "invalid_auth"})
        if method.startswith("chat.") and self.failures:
            status, body, headers = self.failures.pop(0)
            return web.json_response(body, status=status, headers=headers)
        answer = getattr(self, "_" + method.replace(".", "_"))(given)
        return web.json_response({"ok": "error" not in answer, **answer})

    def _auth_test(self, _: Any) -> dict[str, Any]:
        return {"user_id": "U0BOT", "bot_id": "B0BOT", "team_id": "T0TEAM", "url": "https://x", "team": "x"}

    def _apps_connections_open(self, _: Any) -> dict[str, Any]:
        return {"url": f"ws://127.0.0.1:{self.port}/socket"}

    def _chat_postMessage(self, given: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        if given["channel"] != self.destination:
            return {"error": "channel_not_found"}
        if wrong := _message_problems(given):
            return {"error": "invalid_blocks", "response_metadata": {"messages": wrong}}
        assert given["unfurl_links"] is given["unfurl_media"] is given["link_names"] is False
        ts = f"{int(time.time())}.{next(self.numbers):06}"
        self.messages[ts] = given
        return {"channel": given["channel"], "ts": ts, "message": given}

    def _chat_update(self, given: dict[str, Any]) -> dict[str, Any]:
        if given["ts"] not in self.messages:
            return {"error": "message_not_found"}
        if wrong := _message_problems(given):
            return {"error": "invalid_blocks", "response_metadata": {"messages": wrong}}
        self.messages[given["ts"]] = given
        return {"channel": given["channel"], "ts": given["ts"]}

    def _chat_postEphemeral(self, given: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        if wrong := _message_problems(given):
            return {"error": "invalid_blocks", "response_metadata": {"messages": wrong}}
        self.whispers.append(given)
        return {"message_ts": "1"}

    def _views_open(self, given: dict[str, Any]) -> dict[str, Any]:
        if given["trigger_id"] not in self.acks:
            return {"error": "invalid_trigger_id"}
        return self._opened(f"V{next(self.numbers)}", given["view"], given["trigger_id"])

    _views_push = _views_open

    def _views_update(self, given: dict[str, Any]) -> dict[str, Any]:
        return self._opened(given["view_id"], given["view"], self.views[given["view_id"]]["trigger"])

    def _views_publish(self, given: dict[str, Any]) -> dict[str, Any]:
        if wrong := view_problems(given["view"]):
            return {"error": "invalid_arguments", "response_metadata": {"messages": wrong}}
        self.homes[given["user_id"]] = given["view"]
        return {"view": given["view"]}

    def _opened(self, id_: str, view: dict[str, Any], trigger: str) -> dict[str, Any]:
        if wrong := view_problems(view):
            return {"error": "invalid_arguments", "response_metadata": {"messages": wrong}}
        self.views[id_] = {**view, "id": id_, "hash": f"h{next(self.numbers)}", "trigger": trigger}
        return {"view": self.views[id_]}

    async def responded(self, request: web.Request) -> web.Response:
        """What the bot sends to a command's own address."""
        given = await request.json()
        if given.get("replace_original") or given.get("response_type") == "in_channel":
            return web.Response(status=400)
        if wrong := _message_problems(given):
            return web.json_response(wrong, status=400)
        self.whispers.append({**given, "user": request.match_info["user"]})
        return web.Response(text="ok")

    async def socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"type": "hello", "num_connections": 1})
        self.sockets.append(socket)
        async for message in socket:
            told = json.loads(message.data)
            if (waiting := self.acks.get(told["envelope_id"])) and not waiting.done():
                waiting.set_result(told.get("payload") or {})
        return socket

    # what people do

    async def cards(self, approval_id: str) -> list[Shown]:
        return [
            shown
            for ts, message in self.messages.items()
            if f"Request: {approval_id}" in (shown := self.shown(ts, message)).text
        ]

    def shown(self, ts: str, message: dict[str, Any]) -> Shown:
        return Shown(
            reference=ts,
            destination=message["channel"],
            text=text_of(message["blocks"]),
            buttons=buttons_of(message["blocks"]),
            pings=tuple(_parsed(message["text"])),
        )

    async def click(
        self, token: str, *, by: str, shown: Shown, typed: Mapping[str, str] | None = None, replica: int = 0
    ) -> Answer:
        user, before = self.people[by], len(self.whispers)
        container = {
            "type": "message",
            "message_ts": shown.reference,
            "channel_id": self.destination,
            "is_ephemeral": False,
        }
        payload = self.action(token, user, container=container, channel={"id": self.destination})
        acknowledged, _ = await self.send(payload, replica=replica)
        self.clicked[token] = acknowledged
        action = read_button(token).action
        if action == "approve":
            told = await self._told(user, before, shown.reference, DONE["approve"])
            return Answer(acknowledged=acknowledged, told=told)
        view = await self.window(payload["trigger_id"])
        if view.get("callback_id") != "placet:form":
            return Answer(acknowledged=acknowledged, told=text_of(view["blocks"]))
        submitted = self.submission(view, user, typed or {})
        acknowledged, answer = await self.send(submitted, replica=replica)
        if answer.get("response_action") == "errors":
            names = json.loads(view["private_metadata"])["fields"]
            issues = {names[int(block.partition(":")[2])]: text for block, text in answer["errors"].items()}
            return Answer(acknowledged=acknowledged, told="", issues=issues)
        told = text_of(answer["view"]["blocks"]) if "view" in answer else ""
        return Answer(acknowledged=acknowledged, told=told)

    async def window(self, trigger: str) -> dict[str, Any]:
        """The modal that a click has opened, when it has loaded."""

        async def loaded() -> Any:
            found = [one for one in self.views.values() if one["trigger"] == trigger]
            return found[-1] if found and "Loading" not in text_of(found[-1]["blocks"]) else None

        view: dict[str, Any] = await wait_until(loaded, seconds=20)
        return view

    def action(self, token: str, user: str, **more: Any) -> dict[str, Any]:
        """What Slack sends of a click on a button."""
        trigger = f"t{next(self.numbers)}"
        return {
            "type": "block_actions",
            "team": {"id": "T0TEAM"},
            "user": {"id": user, "team_id": "T0TEAM"},
            "api_app_id": "A0APP",
            "trigger_id": trigger,
            "actions": [
                {
                    "action_id": f"placet:{token.split(':')[1]}",
                    "type": "button",
                    "value": token,
                    "block_id": "b",
                    "action_ts": f"{next(self.numbers)}.0",
                }
            ],
            **more,
        }

    def submission(self, view: dict[str, Any], user: str, typed: Mapping[str, str]) -> dict[str, Any]:
        """What Slack sends of a form that was filled in."""
        names = json.loads(view["private_metadata"])["fields"]
        values: dict[str, Any] = {}
        for block in view["blocks"]:
            if block["type"] != "input":
                continue
            name, element = names[int(block["block_id"].partition(":")[2])], block["element"]
            text = typed.get(name, element.get("initial_value", ""))
            if element["type"] == "static_select":
                chosen = [one for one in element["options"] if one["value"] == typed.get(name)]
                state = {"selected_option": chosen[0] if chosen else element.get("initial_option")}
            else:
                assert text or block["optional"], "Slack asks for it before it sends"
                state = {"value": text or None}
            values[block["block_id"]] = {element["action_id"]: {"type": element["type"], **state}}
        sent = {**view, "state": {"values": values}, "team_id": "T0TEAM"}
        return {
            "type": "view_submission",
            "team": {"id": "T0TEAM"},
            "user": {"id": user, "team_id": "T0TEAM"},
            "api_app_id": "A0APP",
            "trigger_id": f"t{next(self.numbers)}",
            "view": sent,
        }

    async def send(
        self, payload: dict[str, Any], *, replica: int = 0, secret: str = SECRET, at: float | None = None
    ) -> tuple[bool, dict[str, Any]]:
        """Send what Slack sends; whether it was acknowledged in time, and with what."""
        if "trigger_id" in payload:
            self.acks.setdefault(payload["trigger_id"], asyncio.get_running_loop().create_future())
        if self.sockets:
            return await self._by_socket(payload)
        if payload["type"] == "event_callback":
            body, kind = json.dumps(payload), "application/json"
        else:
            form = {"payload": json.dumps(payload)} if payload["type"] != "command" else payload
            body, kind = urlencode(form), "application/x-www-form-urlencoded"
        stamp = str(int(at or time.time()))
        signed = hmac.new(secret.encode(), f"v0:{stamp}:{body}".encode(), hashlib.sha256).hexdigest()
        headers = {
            "content-type": kind,
            "x-slack-request-timestamp": stamp,
            "x-slack-signature": f"v0={signed}",
        }
        url = f"http://127.0.0.1:{self.ports[replica]}/slack/events"

        async def answered() -> Any:
            with suppress(aiohttp.ClientConnectorError):  # it does not listen yet
                async with aiohttp.ClientSession() as session:
                    started = time.monotonic()
                    async with session.post(url, data=body.encode(), headers=headers) as answer:
                        text = await answer.text()
                        in_time = answer.status == 200 and time.monotonic() - started < ACK_SECONDS
                        return in_time, json.loads(text) if text.startswith("{") else {}
            return None

        in_time, told = await wait_until(answered)
        return in_time, told

    async def _by_socket(self, payload: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
        envelope = f"e{next(self.numbers)}"
        self.acks[envelope] = asyncio.get_running_loop().create_future()
        kind = "slash_commands" if payload["type"] == "command" else "interactive"
        kind = "events_api" if payload["type"] == "event_callback" else kind
        message = {
            "envelope_id": envelope,
            "type": kind,
            "payload": payload,
            "accepts_response_payload": True,
        }
        await self.sockets[-1].send_json(message)
        try:
            async with asyncio.timeout(ACK_SECONDS):
                return True, await self.acks[envelope]
        except TimeoutError:
            return False, {}

    async def _told(self, user: str, before: int, ts: str, done: str) -> str:
        """What this person was told; empty once the card says that it was done."""

        async def there() -> Any:
            for whisper in self.whispers[before:]:
                if whisper["user"] == user:
                    return (text_of(whisper["blocks"]),)
            if ts in self.messages and done in text_of(self.messages[ts]["blocks"]):
                return ("",)
            return None

        told: str = (await wait_until(there, seconds=20))[0]
        return told

    def acknowledged(self, token: str) -> bool:
        return self.clicked.get(token, False)

    def fail(self, times: int, *, retry_after: float | None = None) -> None:
        limited = (429, {"ok": False, "error": "ratelimited"}, {"Retry-After": str(int(retry_after or 0))})
        self.failures += [(503, {"ok": False}, {}) if retry_after is None else limited] * times

    async def delete(self, shown: Shown) -> None:
        del self.messages[shown.reference]


def text_of(blocks: list[dict[str, Any]]) -> str:
    """All that a reader sees of blocks but for the buttons."""
    texts: list[str] = []
    for block in blocks:
        if block["type"] == "header":
            texts.append(block["text"]["text"])
        texts += [
            "".join(one["text"] for one in element["elements"])
            for element in block.get("elements", [])
            if "elements" in element
        ]
        if block["type"] == "input":
            texts.append(f"{block['label']['text']}: {block['element'].get('initial_value', '')}")
    return "\n".join(texts)


def buttons_of(blocks: list[dict[str, Any]]) -> dict[str, str]:
    """What each button carries, by its action."""
    elements = [one for block in blocks if block["type"] == "actions" for one in block["elements"]]
    return {one["action_id"].partition(":")[2]: one["value"] for one in elements}


def _parsed(text: str) -> list[str]:
    """What Slack makes of a text in which it parses mentions and links."""
    return [part.partition(">")[0] for part in text.split("<")[1:]]


def _message_problems(given: dict[str, Any]) -> list[str]:
    wrong = problems(given["blocks"], most=MESSAGE_BLOCKS)
    return wrong + (["text"] if not given.get("text") or len(given["text"]) > 40_000 else [])


async def _arguments(request: web.Request) -> dict[str, Any]:
    if request.content_type == "application/json":
        found: dict[str, Any] = await request.json()
        return found
    return dict(await request.post())


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Slack]:
    _ = folder
    slack = Slack()
    app = web.Application()
    app.router.add_post("/api/{method}", slack.api)
    app.router.add_post("/respond/{user}", slack.responded)
    app.router.add_get("/socket", slack.socket)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    slack.port = free_port()
    await web.TCPSite(runner, "127.0.0.1", slack.port).start()
    try:
        yield slack
    finally:
        await runner.cleanup()
