"""A server that speaks the Bot API, with a group in which people press buttons and reply."""

# ruff: noqa: N802 - methods are named as the Bot API's

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import aiohttp
from aiohttp import web
from platforms import telegram_limits
from platforms.platform import Answer, Shown

from fleet import wait_until
from placet.dev.embedded import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

TOKEN = "4242:tests-AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"  # noqa: S105 - of no bot
BOT = {"id": 4242, "is_bot": True, "first_name": "Placet", "username": "placet_bot"}
GROUP = -1001234567890
FORMS = ("edit", "reject", "respond", "answer")
_JSON = {"entities", "link_preview_options", "reply_markup", "reply_parameters", "allowed_updates"}
_AT_IT = "Placet is at it"


@dataclass
class Telegram:
    """One bot's part of Telegram."""

    port: int = 0
    webhooks: bool = False
    """Whether the replicas are called back instead of asking."""
    name: str = "telegram"
    destination: str = str(GROUP)
    people: Mapping[str, str] = field(
        default_factory=lambda: {"alice": "1001", "bob": "1002", "mallory": "1003"}
    )
    ports: list[int] = field(default_factory=lambda: [free_port(), free_port()])
    messages: dict[int, dict[str, Any]] = field(default_factory=dict)
    """All that were sent, by number; those that were deleted are marked."""
    files: list[tuple[str, bytes]] = field(default_factory=list)
    updates: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What clicks were answered, by the query's id."""
    clicked: dict[str, list[str]] = field(default_factory=dict)
    """Ids of the queries by what the button carried."""
    failures: list[tuple[int, float | None]] = field(default_factory=list)
    no_private_chat: set[str] = field(default_factory=set)
    webhook: dict[str, Any] = field(default_factory=dict)
    conflicts: int = 0
    numbers: int = 100
    _polling: asyncio.Future[None] | None = None

    def env(self, replica: int = 0) -> dict[str, str]:
        env = {
            "PLACET_TELEGRAM_BOT_TOKEN": TOKEN,
            "PLACET_TELEGRAM_API_URL": f"http://127.0.0.1:{self.port}",
            "PLACET_TELEGRAM_LISTEN": f"127.0.0.1:{self.ports[replica]}",
        }
        return env | ({"PLACET_TELEGRAM_WEBHOOK_URL": "https://placet.example/tg"} if self.webhooks else {})

    async def call(self, request: web.Request) -> web.Response:
        if request.match_info["token"] != TOKEN:
            return _refused(401, "Unauthorized")
        method, given = request.match_info["method"], dict(await request.post())
        parts: dict[str, Any] = {
            name: json.loads(value) if name in _JSON and isinstance(value, str) else value
            for name, value in given.items()
        }
        if method == "sendDocument":
            attached = parts.pop(str(parts["document"]).removeprefix("attach://"))
            self.files.append((attached.filename, attached.file.read()))
        if told := telegram_limits.problem(method, parts):
            return _refused(400, told)
        if method in ("sendMessage", "editMessageText") and self.failures:
            status, wait = self.failures.pop(0)
            return _refused(status, "Too Many Requests" if wait else "Bad Gateway", retry_after=wait)
        return await getattr(self, f"_{method}")(parts)  # type: ignore[no-any-return]

    async def _getMe(self, _: dict[str, Any]) -> web.Response:
        return _done({**BOT, "can_join_groups": True})

    async def _deleteWebhook(self, _: dict[str, Any]) -> web.Response:
        self.webhook = {}
        return _done(True)

    async def _setWebhook(self, given: dict[str, Any]) -> web.Response:
        if not given["url"].startswith("https://"):
            return _refused(400, "Bad Request: bad webhook: An HTTPS URL must be provided for webhook")
        self.webhook = given
        return _done(True)

    async def _getUpdates(self, given: dict[str, Any]) -> web.Response:
        """As Telegram does: of two that ask the first is told that it was taken over."""
        if self.webhook:
            return _refused(409, "Conflict: can't use getUpdates method while webhook is active")
        if self._polling is not None and not self._polling.done():
            self._polling.set_result(None)
        mine = self._polling = asyncio.get_running_loop().create_future()
        offset = int(given.get("offset", 0))
        with suppress(TimeoutError):
            async with asyncio.timeout(float(given.get("timeout", 0))):
                while not mine.done() and not self._from(offset):  # noqa: ASYNC110 - a long poll
                    await asyncio.sleep(0.01)
        if mine.done():
            self.conflicts += 1
            return _refused(409, "Conflict: terminated by other getUpdates request")
        mine.set_result(None)
        # what was asked for with a later number is confirmed, and never sent again
        self.updates = [one for one in self.updates if one["update_id"] >= offset]
        return _done(self.updates[:100])

    def _from(self, offset: int) -> list[dict[str, Any]]:
        return [one for one in self.updates if one["update_id"] >= offset]

    async def _sendMessage(self, given: dict[str, Any]) -> web.Response:
        chat = int(given["chat_id"])
        if str(chat) in self.no_private_chat:
            return _refused(403, "Forbidden: bot can't initiate conversation with a user")
        if chat != GROUP and str(chat) not in self.people.values():
            return _refused(400, "Bad Request: chat not found")
        text, entities = telegram_limits.shown(given["text"], given.get("entities") or [])
        message: dict[str, Any] = {
            "message_id": self._number(),
            "date": 1_800_000_000,
            "chat": _chat(chat),
            "from": BOT,
            "text": text,
            "entities": entities,
        }
        self.messages[message["message_id"]] = {
            **message,
            "reply_markup": given.get("reply_markup") or {},
            "reply_to": (given.get("reply_parameters") or {}).get("message_id"),
        }
        return _done(message)

    async def _editMessageText(self, given: dict[str, Any]) -> web.Response:
        there = self.messages.get(int(given["message_id"]))
        if there is None or there.get("deleted") or there["chat"]["id"] != int(given["chat_id"]):
            return _refused(400, "Bad Request: message to edit not found")
        if there["reply_markup"].get("force_reply"):
            return _refused(400, "Bad Request: message can't be edited")
        text, entities = telegram_limits.shown(given["text"], given.get("entities") or [])
        new = {"text": text, "entities": entities, "reply_markup": given.get("reply_markup") or {}}
        if all(there[name] == value for name, value in new.items()):
            return _refused(400, "Bad Request: message is not modified: specified new message content ...")
        there |= new
        return _done({name: there[name] for name in ("message_id", "date", "chat", "from", "text")})

    async def _deleteMessage(self, given: dict[str, Any]) -> web.Response:
        self.messages[int(given["message_id"])]["deleted"] = True
        return _done(True)

    async def _sendDocument(self, given: dict[str, Any]) -> web.Response:
        message = {"message_id": self._number(), "date": 1_800_000_000, "chat": _chat(int(given["chat_id"]))}
        return _done(message)

    async def _answerCallbackQuery(self, given: dict[str, Any]) -> web.Response:
        if given["callback_query_id"] in self.answers:
            return _refused(400, "Bad Request: query is too old and response timeout expired")
        self.answers[given["callback_query_id"]] = given
        return _done(True)

    async def cards(self, approval_id: str) -> list[Shown]:
        return [
            Shown(
                reference=str(number),
                destination=str(message["chat"]["id"]),
                text=message["text"],
                buttons=_buttons(message),
                pings=tuple(one["type"] for one in message["entities"] if one["type"] not in ("pre", "bold")),
            )
            for number, message in sorted(self.messages.items())
            if message["chat"]["id"] == GROUP
            and f"\nRequest: {approval_id}" in message["text"]
            and not message.get("deleted")
        ]

    async def click(
        self, token: str, *, by: str, shown: Shown, typed: Mapping[str, str] | None = None, replica: int = 0
    ) -> Answer:
        before = self.numbers
        query = await self.press(token, by=by, message=int(shown.reference), replica=replica)

        async def answered() -> Any:
            return self.answers.get(query)

        given = await wait_until(answered)
        told = given.get("text", "")
        if told.startswith(_AT_IT):
            late = await self.said(before, by=by)
            told = "" if late["reply_markup"].get("force_reply") else late["text"]
        if told or token.split(":")[1] not in FORMS:
            return Answer(acknowledged=True, told=told)
        prompt = await self.said(before, by=by)
        before = self.numbers
        await self.reply(prompt, _typed(token, typed or {}), by=by, replica=replica)
        after = await self.said(before, by=by)
        return Answer(acknowledged=True, told=after["text"])

    async def said(self, since: int, *, by: str) -> dict[str, Any]:
        """The first message after a number that asks somebody, or answers their own."""

        async def there() -> Any:
            return next(
                (one for n, one in sorted(self.messages.items()) if n > since and self._to(one, by)), None
            )

        found: dict[str, Any] = await wait_until(there)
        return found

    def _to(self, message: dict[str, Any], by: str) -> bool:
        person = self.people[by]
        asked = self.messages.get(message["reply_to"], {}).get("from", {}).get("id")
        mentioned = [one["user"]["id"] for one in message["entities"] if one["type"] == "text_mention"]
        return message["from"] == BOT and (
            int(person) in (asked, *mentioned) or str(message["chat"]["id"]) == person
        )

    async def press(self, token: str, *, by: str, message: int, replica: int = 0) -> str:
        """Press a button; the query's id."""
        query, there = uuid4().hex, self.messages[message]
        self.clicked.setdefault(token, []).append(query)
        told = {name: there[name] for name in ("message_id", "date", "chat", "from", "text")}
        click = {"id": query, "from": self._person(by), "chat_instance": "1", "data": token, "message": told}
        await self.tell({"callback_query": click}, replica=replica)
        return query

    async def reply(
        self, to: dict[str, Any], text: str, *, by: str, replica: int = 0, **changes: Any
    ) -> dict[str, Any]:
        """Reply to a message; what the bot is told."""
        names = ("message_id", "date", "chat", "from", "text", "entities")
        message = {
            "message_id": self._number(),
            "date": 1_800_000_000,
            "chat": to["chat"],
            "from": self._person(by),
            "text": text,
            "reply_to_message": {name: to[name] for name in names},
            **changes,
        }
        self.messages[message["message_id"]] = {
            **message,
            "entities": [],
            "reply_markup": {},
            "reply_to": None,
        }
        return await self.tell({"message": message}, replica=replica)

    async def tell(self, event: dict[str, Any], *, replica: int = 0) -> dict[str, Any]:
        """Tell the bot what has happened: one replica by its webhook, or whoever asks."""
        update = {"update_id": self._number(), **event}
        if not self.webhooks:
            self.updates.append(update)
            return update
        assert await self.post(update, replica=replica) == 200
        return update

    async def post(self, update: Any, *, secret: str | None = None, replica: int = 0) -> int:
        """Call a replica's webhook; the status it answers."""
        url = f"http://127.0.0.1:{self.ports[replica]}/tg"

        async def sent() -> Any:
            given = self.webhook.get("secret_token") if secret is None else secret
            if given is None:
                return None
            headers = {"X-Telegram-Bot-Api-Secret-Token": given}
            with suppress(aiohttp.ClientConnectorError):  # it does not listen yet
                async with (
                    aiohttp.ClientSession() as session,
                    session.post(url, json=update, headers=headers) as answer,
                ):
                    return answer.status
            return None

        status: int = await wait_until(sent)
        return status

    def acknowledged(self, token: str) -> bool:
        return any(query in self.answers for query in self.clicked.get(token, []))

    def fail(self, times: int, *, retry_after: float | None = None) -> None:
        self.failures += [(502, None) if retry_after is None else (429, retry_after)] * times

    async def delete(self, shown: Shown) -> None:
        self.messages[int(shown.reference)]["deleted"] = True

    def _person(self, by: str) -> dict[str, Any]:
        return {"id": int(self.people[by]), "is_bot": False, "first_name": by.capitalize()}

    def _number(self) -> int:
        self.numbers += 1
        return self.numbers


def _typed(token: str, typed: Mapping[str, str]) -> str:
    """What a person replies."""
    if token.split(":")[1] != "edit":
        return next((typed[name] for name in ("message", "value") if typed.get(name)), "-")
    return "\n".join(f"{name}={value}" for name, value in typed.items())


def _buttons(message: dict[str, Any]) -> dict[str, str]:
    rows = message["reply_markup"].get("inline_keyboard", [])
    return {one["callback_data"].split(":")[1]: one["callback_data"] for row in rows for one in row}


def _chat(chat: int) -> dict[str, Any]:
    if chat > 0:
        return {"id": chat, "type": "private"}
    return {"id": chat, "type": "supergroup", "title": "Payments"}


def _done(result: Any) -> web.Response:
    return web.json_response({"ok": True, "result": result})


def _refused(status: int, description: str, *, retry_after: float | None = None) -> web.Response:
    told: dict[str, Any] = {"ok": False, "error_code": status, "description": description}
    if retry_after:
        told["parameters"] = {"retry_after": int(retry_after)}
    return web.json_response(told, status=status)


@asynccontextmanager
async def opened(folder: Path, *, webhooks: bool = False) -> AsyncIterator[Telegram]:
    telegram = Telegram(webhooks=webhooks)
    app = web.Application()
    app.router.add_post("/bot{token}/{method}", telegram.call)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    telegram.port = free_port()
    await web.TCPSite(runner, "127.0.0.1", telegram.port).start()
    try:
        yield telegram
    finally:
        await runner.cleanup()
