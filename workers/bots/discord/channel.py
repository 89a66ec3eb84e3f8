"""The connection to Discord: cards posted and drawn anew, clicks taken from the gateway."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp
import discord
import structlog
import yarl
from discord.gateway import DiscordWebSocket
from discord.http import Route

from ...digest import digest_of
from ...errors import InvalidSettings
from ..channel import CardGone, Undelivered
from .cards import message_of
from .clicks import Clicks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ..card import Card
    from ..reviews import Reviews

TOKEN, API_URL = "PLACET_DISCORD_BOT_TOKEN", "PLACET_DISCORD_API_URL"
CALL_SECONDS = 15.0
_MOST_WAIT_SECONDS = 10.0
"""What the library may wait by itself where Discord limits the rate: five messages in five seconds."""
_AGAIN_SECONDS = 2.0
_GONE = (10003, 10008)
"""Unknown channel, unknown message."""
_MOST_NONCE = 25
_OLD_SECONDS = 5.0
"""A message older than this when it is posted is one that was there before."""

log = structlog.get_logger(__name__)


def channel() -> DiscordChannel:
    """Make the channel that the environment's settings describe.

    Raises:
        InvalidSettings: naming what is missing or wrong.
    """
    token = os.environ.get(TOKEN, "").strip()
    if not token:
        raise InvalidSettings(
            f"{TOKEN}: must be the token of the application's page Bot (docs/bots/discord.md)"
        )
    api_url = os.environ.get(API_URL, "").rstrip("/")
    if api_url and (urlsplit(api_url).scheme not in ("http", "https") or not urlsplit(api_url).hostname):
        raise InvalidSettings(f"{API_URL}: must be a URL such as {Route.BASE}")
    return DiscordChannel(token=token, api_url=api_url)


class DiscordChannel:
    """Posts messages with buttons as a bot, and takes clicks on them from the gateway."""

    name = "discord"

    def __init__(self, *, token: str, api_url: str = "") -> None:
        library = logging.getLogger("discord")
        if not any(isinstance(one, _Told) for one in library.handlers):
            library.addHandler(_Told(logging.WARNING))
        self._token = token
        self._api_url = api_url
        self._client: discord.Client | None = None
        self._logged_in = asyncio.Event()

    async def serve(self, reviews: Reviews) -> None:
        """Stay connected until cancelled; raises as `Channel.serve`."""
        clicks = Clicks(reviews, self.update)
        if self._api_url:
            Route.BASE = self._api_url
        while True:
            async with _client(clicks) as client:
                try:
                    await client.login(self._token)
                    if self._api_url:
                        gateway = await client.http.request(Route("GET", "/gateway"))
                        DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(gateway["url"])
                    self._client = client
                    self._logged_in.set()
                    await client.connect()
                except discord.LoginFailure:
                    raise InvalidSettings(f"{TOKEN}: Discord refuses it") from None
                except discord.ConnectionClosed as error:
                    raise InvalidSettings(f"{TOKEN}: Discord's gateway refuses it ({error.code})") from None
                except Exception as error:  # noqa: BLE001 - whatever the library meets, and cannot read
                    log.warning("discord.disconnected", error=type(error).__name__)
                finally:
                    self._logged_in.clear()
            await asyncio.sleep(_AGAIN_SECONDS)

    async def post(self, destination: str, card: Card) -> str:
        """Post a card to a channel's id, or to a person as `@` and their id; see `Channel.post`."""
        id_ = destination.removeprefix("@")
        if not id_.isdecimal():
            raise Undelivered(f"discord:{destination} must be a channel's id, or @ and a person's")
        async with self._called() as client:
            place: discord.abc.Messageable = client.get_partial_messageable(int(id_))
            if destination.startswith("@"):
                place = await client.create_dm(discord.Object(int(id_)))
            message = await place.send(view=message_of(card), nonce=_nonce(destination, card))
            age = (discord.utils.utcnow() - message.created_at).total_seconds()
            if age > _OLD_SECONDS and not await _is_there(message, card):
                message = await place.send(view=message_of(card))
        return f"{message.channel.id}/{message.id}"

    async def update(self, reference: str, card: Card) -> None:
        """Draw a message anew; see `Channel.update`."""
        place, _, id_ = reference.partition("/")
        async with self._called() as client:
            message = client.get_partial_messageable(int(place)).get_partial_message(int(id_))
            try:
                await message.edit(view=message_of(card), allowed_mentions=discord.AllowedMentions.none())
            except discord.NotFound as error:
                if error.code in _GONE:
                    raise CardGone from None
                raise

    @asynccontextmanager
    async def _called(self) -> AsyncIterator[discord.Client]:
        """Call Discord within bounds.

        Raises:
            Undelivered: when it does not do what is asked.
        """
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await self._logged_in.wait()
                assert self._client is not None  # noqa: S101 - set before the event is
                yield self._client
        except discord.RateLimited as error:
            wait = error.retry_after
            raise Undelivered(f"Discord asks to wait {wait:.0f} s", retry_after=wait) from None
        except discord.HTTPException as error:
            told = f"Discord answered {error.status} ({error.code}): {error.text[:200]}"
            raise Undelivered(told, retry_after=_retry_after(error)) from None
        except TimeoutError:
            raise Undelivered(f"Discord did not answer within {CALL_SECONDS:.0f} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise Undelivered(f"Discord cannot be reached: {type(error).__name__}") from None


class _Told(logging.Handler):
    """What the library warns of, as events; its tracebacks are left out, as they may hold anything."""

    def emit(self, record: logging.LogRecord) -> None:
        log.warning("discord.warned", text=record.getMessage())


def _client(clicks: Clicks) -> discord.Client:
    """Make a client that keeps nothing of what it sees, and waits for no longer than it is told."""
    discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False  # nobody speaks here
    client = discord.Client(
        intents=discord.Intents(guilds=True),
        max_messages=None,
        member_cache_flags=discord.MemberCacheFlags.none(),
        chunk_guilds_at_startup=False,
        allowed_mentions=discord.AllowedMentions.none(),
    )
    # its constructor takes no less than 30 s, which is longer than a call lasts
    client.http.max_ratelimit_timeout = _MOST_WAIT_SECONDS

    @client.event
    async def on_interaction(click: discord.Interaction[discord.Client]) -> None:
        try:
            await clicks.take(click)
        except Exception as error:  # noqa: BLE001 - the others' clicks go on; its text may hold what was typed
            log.warning("click.failed", error=type(error).__name__)

    return client


def _nonce(destination: str, card: Card) -> str:
    """Name a post, so that Discord makes one message of what is sent twice within some minutes.

    That is where its answer was lost, or a bot died before it noted the message.
    """
    return digest_of([card.approval.id, card.drawn, destination, card.reminder])[:_MOST_NONCE]


async def _is_there(message: discord.Message, card: Card) -> bool:
    """Whether a message that an earlier attempt has posted has not been deleted since."""
    try:
        await message.edit(view=message_of(card), allowed_mentions=discord.AllowedMentions.none())
    except discord.NotFound:
        return False
    return True


def _retry_after(error: discord.HTTPException) -> float | None:
    text = error.response.headers.get("retry-after", "")
    return float(text) if text.replace(".", "", 1).isdecimal() else None
