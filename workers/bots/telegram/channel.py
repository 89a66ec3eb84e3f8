"""The Telegram bot's connection: updates by polling, or by Telegram's calls to a webhook."""

from __future__ import annotations

import asyncio
import hmac
import os
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import structlog
from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import (
    AiogramError,
    ClientDecodeError,
    TelegramBadRequest,
    TelegramConflictError,
    TelegramNotFound,
    TelegramRetryAfter,
    TelegramUnauthorizedError,
)
from aiogram.types import Update
from aiogram.utils.token import TokenValidationError
from aiohttp import web
from pydantic import ValidationError

from ...errors import InvalidSettings
from ..listening import listen, read_address
from .clicks import Clicks
from .sending import Sending

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from ..card import Card
    from ..reviews import Reviews

    Answer = TypeVar("Answer")

TOKEN, API_URL = "PLACET_TELEGRAM_BOT_TOKEN", "PLACET_TELEGRAM_API_URL"
WEBHOOK_URL, LISTEN = "PLACET_TELEGRAM_WEBHOOK_URL", "PLACET_TELEGRAM_LISTEN"
CALL_SECONDS = 15.0
POLL_SECONDS = 25
"""How long Telegram keeps a request for updates open while there are none."""
STANDBY_SECONDS = 5.0
"""How long a replica leaves polling to another one that has taken it over."""
AGAIN_SECONDS = 2.0
SHUTDOWN_SECONDS = 10.0
_UPDATES = ["message", "callback_query"]
_SIGNED_BY = "X-Telegram-Bot-Api-Secret-Token"

log = structlog.get_logger(__name__)


def channel() -> TelegramChannel:
    """Make the channel that the environment's settings describe.

    Raises:
        InvalidSettings: naming what is missing or wrong.
    """
    token = os.environ.get(TOKEN, "")
    if not token:
        raise InvalidSettings(f"{TOKEN}: must be the token that @BotFather gives (docs/bots/telegram.md)")
    urls = {
        API_URL: os.environ.get(API_URL) or "https://api.telegram.org",
        WEBHOOK_URL: os.environ.get(WEBHOOK_URL, ""),
    }
    for setting, url in urls.items():
        parts = urlsplit(url)
        if url and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise InvalidSettings(f"{setting}: must be an address that begins with https://")
    try:
        session = AiohttpSession(api=TelegramAPIServer.from_base(urls[API_URL]), timeout=CALL_SECONDS)
        bot = Bot(token, session=session)
    except TokenValidationError:
        raise InvalidSettings(f"{TOKEN}: must look like 123456:ABC-DEF, as @BotFather gives it") from None
    address = read_address(os.environ.get(LISTEN) or "127.0.0.1:8767", LISTEN)
    return TelegramChannel(bot=bot, webhook_url=urls[WEBHOOK_URL], address=address)


class TelegramChannel:
    """Posts cards as a Telegram bot and takes what people do with them."""

    name = "telegram"

    def __init__(self, *, bot: Bot, webhook_url: str, address: tuple[str, int]) -> None:
        self._bot = bot
        self._sending = Sending(bot)
        self._webhook_url = webhook_url
        self._address = address
        self._under_way: set[asyncio.Task[Any]] = set()

    async def serve(self, reviews: Reviews) -> None:
        """Take updates until cancelled, and bring to its end what is under way; raises as `Channel.serve`."""
        clicks = Clicks(sending=self._sending, reviews=reviews)
        try:
            await self._until_answered(self._bot.me)
            if self._webhook_url:
                await self._listen(clicks)
            else:
                await self._until_answered(self._bot.delete_webhook)
                await self._poll(clicks)
        finally:
            if self._under_way:
                await asyncio.wait(self._under_way, timeout=SHUTDOWN_SECONDS)
            await self._bot.session.close()

    async def post(self, destination: str, card: Card) -> str:
        """Post a card to a chat; see `Channel.post`."""
        return await self._start(self._sending.post(destination, card))

    async def update(self, reference: str, card: Card) -> None:
        """Draw a card anew; see `Channel.update`."""
        await self._start(self._sending.update(reference, card))

    def _start(self, work: Coroutine[Any, Any, Answer]) -> asyncio.Task[Answer]:
        """Begin what the connection is kept open for, even if this process is told to stop meanwhile."""
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task

    async def _take(self, clicks: Clicks, update: Update) -> None:
        try:
            await clicks.take(update)
        except Exception as error:  # noqa: BLE001 - the updates of others go on
            log.warning("update.failed", update_id=update.update_id, error=type(error).__name__)

    async def _poll(self, clicks: Clicks) -> None:
        """Ask for updates again and again. Of several replicas the one that asked last is answered."""
        offset: int | None = None
        while True:
            updates, wait = await self._polled(offset)
            for update in updates:
                offset = update.update_id + 1
                self._start(self._take(clicks, update))
            await asyncio.sleep(wait)

    async def _polled(self, offset: int | None) -> tuple[list[Update], float]:
        """Updates, and the seconds until they may be asked for again."""
        try:
            updates = await self._bot.get_updates(
                offset=offset,
                timeout=POLL_SECONDS,
                allowed_updates=_UPDATES,
                request_timeout=POLL_SECONDS + int(CALL_SECONDS),
            )
        except TelegramConflictError:
            log.info("polling.taken_over", again_seconds=STANDBY_SECONDS)
            return [], STANDBY_SECONDS
        except ClientDecodeError as error:
            return self._readable(error.data), AGAIN_SECONDS
        except AiogramError as error:
            return [], _wait(error)
        return updates, 0.0

    def _readable(self, answer: Any) -> list[Update]:
        """Of updates among which one is of a shape that aiogram does not know: that one alone is skipped."""
        found: list[Update] = []
        for one in answer.get("result", []) if isinstance(answer, dict) else []:
            try:
                found.append(Update.model_validate(one, context={"bot": self._bot}))
            except ValidationError:
                log.warning("update.skipped", update_id=one["update_id"])
                found.append(Update(update_id=one["update_id"]))
        return found

    async def _listen(self, clicks: Clicks) -> None:
        """Have Telegram call, and listen. The secret comes from the token, so replicas have the same one."""
        secret = hmac.digest(self._bot.token.encode(), b"placet telegram webhook", "sha256").hex()

        async def called(request: web.Request) -> web.Response:
            given = request.headers.get(_SIGNED_BY, "")
            if not hmac.compare_digest(given.encode(errors="surrogateescape"), secret.encode()):
                return web.Response(status=401)
            body = await request.read()
            try:
                update = Update.model_validate_json(body, context={"bot": self._bot})
            except ValidationError:  # refused, it would come again and again
                log.warning("update.skipped")
            else:
                self._start(self._take(clicks, update))
            return web.Response()

        async def set_webhook() -> bool:
            return await self._bot.set_webhook(
                self._webhook_url, secret_token=secret, allowed_updates=_UPDATES
            )

        await self._until_answered(set_webhook)
        path = urlsplit(self._webhook_url).path or "/"
        await listen(self._address, {path: called}, setting=LISTEN)

    async def _until_answered(self, call: Callable[[], Awaitable[object]]) -> None:
        """Call until Telegram answers.

        Raises:
            InvalidSettings: when it refuses the token, or the webhook.
        """
        while True:
            try:
                await call()
            except (TelegramUnauthorizedError, TelegramNotFound):
                raise InvalidSettings(
                    f"{TOKEN}: Telegram refuses it; @BotFather shows the right one"
                ) from None
            except TelegramBadRequest as error:
                raise InvalidSettings(f"{WEBHOOK_URL}: Telegram answered: {error.message}") from None
            except AiogramError as error:
                await asyncio.sleep(_wait(error))
            else:
                return


def _wait(error: AiogramError) -> float:
    """Seconds to wait after an error; tells it."""
    wait = float(error.retry_after) if isinstance(error, TelegramRetryAfter) else AGAIN_SECONDS
    log.warning("telegram.unreachable", error=type(error).__name__, again_seconds=wait)
    return wait
