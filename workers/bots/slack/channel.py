"""Slack by its Bolt library: cards posted and drawn, clicks, forms, the Home and the command taken."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import aiohttp
import structlog
from slack_bolt.adapter.aiohttp import to_aiohttp_response, to_bolt_request
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from ...errors import InvalidSettings
from ..channel import CardGone, Undelivered
from ..listening import listen
from .blocks import message, section, shortened
from .clicks import Clicks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import web

    from ..card import Card
    from ..reviews import Reviews

CALL_SECONDS = 15
_REFUSED = (
    *("invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"),
    *("not_allowed_token_type", "missing_scope"),
)
AGAIN_SECONDS = 5.0
"""How long it waits when Slack cannot be reached at its start."""

log = structlog.get_logger(__name__)


class SlackChannel:
    """Cards in Slack's channels and direct messages.

    With an app-level token it connects by Socket Mode; else Slack calls it at `address`, signed.
    """

    name = "slack"

    def __init__(
        self,
        *,
        bot_token: str,
        app_token: str,
        signing_secret: str,
        address: tuple[str, int] | None,
        api_url: str,
    ) -> None:
        # the library's own log tells of requests with all that is in them
        logging.getLogger("slack_bolt").setLevel(logging.WARNING)
        logging.getLogger("slack_sdk").setLevel(logging.WARNING)
        # what is tried again, and when, is for delivery to say: the library might post a card twice
        self._client = AsyncWebClient(
            token=bot_token, base_url=api_url, timeout=CALL_SECONDS, retry_handlers=[]
        )
        self._app_token = app_token
        self._secret = signing_secret
        self._address = address

    async def serve(self, reviews: Reviews) -> None:
        """Take what people do until cancelled; raises as `Channel.serve`."""
        await _until_known(self._client.auth_test, "PLACET_SLACK_BOT_TOKEN")
        app = AsyncApp(
            client=self._client,
            signing_secret=self._secret,
            request_verification_enabled=self._address is not None,
        )
        clicks = Clicks(reviews=reviews, channel=self)
        clicks.listen_to(app)
        try:
            await self._take(app)
        finally:
            await clicks.settled()

    async def _take(self, app: AsyncApp) -> None:
        if self._address is None:
            await self._connect(app)
            return

        async def events(request: web.Request) -> web.Response:
            return await to_aiohttp_response(await app.async_dispatch(await to_bolt_request(request)))

        await listen(self._address, {"/slack/events": events}, setting="PLACET_SLACK_LISTEN")

    async def post(self, destination: str, card: Card) -> str:
        """Post a card; see `Channel.post`."""
        told = await self._call(
            "chat.postMessage",
            channel=destination,
            **message(card),
            unfurl_links=False,
            unfurl_media=False,
            link_names=False,
        )
        return f"{told['channel']}:{told['ts']}"

    async def update(self, reference: str, card: Card) -> None:
        """Draw a card anew; see `Channel.update`."""
        channel, _, ts = reference.partition(":")
        await self._call("chat.update", channel=channel, ts=ts, **message(card), link_names=False)

    async def view(self, method: str, view: dict[str, Any], **where: str) -> dict[str, Any]:
        """Call one of the `views.…` methods.

        Raises:
            Undelivered: when Slack does not take it.
        """
        told: dict[str, Any] = (await self._call(f"views.{method}", view=view, **where)).get("view", {})
        return told

    async def tell(self, channel: str, user: str, text: str) -> None:
        """Tell something to one person in a channel, seen by nobody else.

        Raises:
            Undelivered: when Slack does not take it.
        """
        blocks = [section((shortened(text, 3000), False))]
        await self._call("chat.postEphemeral", channel=channel, user=user, text="Placet", blocks=blocks)

    async def _connect(self, app: AsyncApp) -> None:
        """Take what comes by Socket Mode; the library connects again by itself."""

        # the library would try a token that is refused for ever
        def opened() -> Awaitable[object]:
            return self._client.apps_connections_open(app_token=self._app_token)

        await _until_known(opened, "PLACET_SLACK_APP_TOKEN")
        socket = AsyncSocketModeHandler(app, self._app_token)
        try:
            await socket.connect_async()  # type: ignore[no-untyped-call]
            await asyncio.Event().wait()
        finally:
            await socket.close_async()  # type: ignore[no-untyped-call]

    async def _call(self, method: str, **arguments: Any) -> dict[str, Any]:
        try:
            answer = await self._client.api_call(method, json=arguments)
        except SlackApiError as error:
            why = error.response.get("error") or f"status {error.response.status_code}"
            if why == "message_not_found":
                raise CardGone from None
            if why in ("not_in_channel", "channel_not_found"):
                why += " (invite the app to the channel)"
            wait = (error.response.headers or {}).get("Retry-After")
            raise Undelivered(f"{method}: {why}", retry_after=float(wait) if wait else None) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Undelivered(f"{method}: {type(error).__name__}") from None
        told: dict[str, Any] = dict(answer.data) if isinstance(answer.data, dict) else {}
        return told


async def _until_known(call: Callable[[], Awaitable[object]], setting: str) -> None:
    """Call until Slack answers: it may be out of reach for a while.

    Raises:
        InvalidSettings: when it refuses the token that the setting has.
    """
    while True:
        try:
            await call()
        except SlackApiError as error:
            why = error.response.get("error")
            if why in _REFUSED:
                raise InvalidSettings(f"{setting}: Slack refuses it: {why}") from None
            told = why or f"status {error.response.status_code}"
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            told = type(error).__name__
        else:
            return
        log.warning("slack.unreached", error=told)
        await asyncio.sleep(AGAIN_SECONDS)
