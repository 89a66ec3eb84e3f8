"""What people do in Slack: buttons, forms, Home, the command; each acknowledged before anything is read."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import aiohttp
from slack_sdk.errors import SlackClientError

from ...errors import PlacetError
from ..card import read_button
from ..channel import CardGone, Undelivered
from . import views
from .blocks import MESSAGE_BLOCKS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from slack_bolt.async_app import AsyncApp

    from ..card import Action, Card
    from ..reviews import Reply, Reviews
    from .channel import SlackChannel

    Ack = Callable[..., Awaitable[Any]]

SHUTDOWN_SECONDS = 10.0
ACK_SECONDS = 2.0
"""How long a submitted form waits for its decision, of the three seconds that Slack gives."""
_LOADING = views.told("Loading…")
_RECORDING = views.told("Recording your decision…")


class Clicks:
    """Listens to what people do; safe to have in several processes, since nothing of it is kept here."""

    def __init__(self, *, reviews: Reviews, channel: SlackChannel) -> None:
        self._reviews = reviews
        self._channel = channel
        self._under_way: set[asyncio.Task[Any]] = set()

    async def settled(self) -> None:
        """Wait until what was acknowledged is done, for ten seconds at most."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=SHUTDOWN_SECONDS)

    def _begin(self) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    def listen_to(self, app: AsyncApp) -> None:
        """Register with the library."""
        app.action(re.compile("^placet:"))(self._on_button)
        app.view(views.FORM)(self._on_form)
        app.event("app_home_opened")(self._on_home)
        app.command("/placet")(self._on_command)

    async def _on_button(self, ack: Ack, body: dict[str, Any]) -> None:
        self._begin()
        await ack()
        clicked = body["actions"][0]
        token, user = clicked.get("value", ""), f"slack:{body['user']['id']}"
        try:
            action = read_button(token).action
        except PlacetError:
            action = "approve"  # is told what it is
        delivery = f"slack:{body['user']['id']}:{clicked.get('action_ts', '')}:{token}"
        if action != "approve":
            await self._open(body, user, token, action)
            return
        reply = await self._reviews.decide(user, token, delivery=delivery)
        await self._tell(body, reply)

    async def _open(self, body: Mapping[str, Any], user: str, token: str, action: Action) -> None:
        """Open a form or the details: a window first, for Slack gives three seconds, then what is in it."""
        method = "push" if body.get("view", {}).get("type") == "modal" else "open"
        with suppress(Undelivered):
            window = await self._channel.view(method, _LOADING, trigger_id=body["trigger_id"])
            reply = await self._reviews.look(user, token)
            if reply.card is None or reply.text:
                shown = views.told(reply.text)
            elif action == "details":
                shown = views.everything(reply.card)
            else:
                shown = views.form(reply.card, action)
            await self._channel.view("update", shown, view_id=window["id"])
            await self._mend(body, reply.card)

    async def _on_form(self, ack: Ack, body: dict[str, Any]) -> None:
        self._begin()
        view = body["view"]
        token, typed, names = views.typed_in(view)
        user, delivery = f"slack:{body['user']['id']}", f"slack:{view['id']}:{view.get('hash', '')}"
        deciding = asyncio.ensure_future(self._reviews.decide(user, token, typed, delivery=delivery))
        done, _ = await asyncio.wait([deciding], timeout=ACK_SECONDS)
        if not done:
            await ack(response_action="update", view=_RECORDING)
        reply = await deciding
        # what was typed stays where it can be sent again
        issues = {"": reply.text} if reply.refusal == "away" else reply.issues
        if done and issues and names:
            await ack(response_action="errors", errors=views.errors_at(issues, names))
        elif done and reply.recorded:
            await ack(response_action="clear")
        elif done:
            await ack(response_action="update", view=views.told(reply.text))
        else:
            shown = views.again(view, typed, reply.text) if issues else views.told(reply.text)
            with suppress(Undelivered):
                await self._channel.view("update", shown, view_id=view["id"])

    async def _on_home(self, event: dict[str, Any]) -> None:
        self._begin()
        with suppress(Undelivered, PlacetError):
            cards = await self._reviews.inbox(f"slack:{event['user']}")
            await self._channel.view("publish", views.home(cards), user_id=event["user"])

    async def _on_command(self, ack: Ack, body: dict[str, Any], respond: Ack) -> None:
        self._begin()
        await ack()
        with suppress(PlacetError, SlackClientError, aiohttp.ClientError, TimeoutError):
            cards = await self._reviews.inbox(f"slack:{body['user_id']}")
            # by the command's own address: the app need not be in the channel
            await respond(text="Placet", blocks=views.inbox(cards, most=MESSAGE_BLOCKS))

    async def _tell(self, body: Mapping[str, Any], reply: Reply) -> None:
        """Tell a person what came of a button, where that is not on the card."""
        with suppress(Undelivered):
            if body.get("view", {}).get("type") == "modal":
                await self._channel.view("update", views.told(reply.text), view_id=body["view"]["id"])
            elif not reply.recorded:
                await self._channel.tell(body["channel"]["id"], body["user"]["id"], reply.text)
            await self._mend(body, reply.card)

    async def _mend(self, body: Mapping[str, Any], card: Card | None) -> None:
        """Draw a message anew that nobody has noted: a bot died between posting it and noting that."""
        container = body.get("container", {})
        if card is None or container.get("type") != "message":
            return
        reference = f"{container['channel_id']}:{container['message_ts']}"
        with suppress(CardGone):
            if await self._reviews.is_orphan(card, self._channel.name, reference):
                await self._channel.update(reference, card)
