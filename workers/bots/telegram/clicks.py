"""What people do in chats that the bot is in, and what they are told."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog
from aiogram.exceptions import AiogramError
from aiogram.types import BufferedInputFile, ForceReply

from ...errors import InvalidInput, PlacetError
from ..card import read_button
from ..channel import CardGone, Undelivered
from .cards import MOST_PAGES, Drawn, below_document, document, pages
from .prompts import Prompt, draw_prompt, read_prompt, read_reply
from .sending import NotThere, read_reference, reference_to
from .text import Text, cut, literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiogram.types import CallbackQuery, Message, Update, User

    from ..card import Action, Card
    from ..reviews import Reply, Reviews
    from .sending import Sending

ACKNOWLEDGE_SECONDS = 2.0
"""How long a click waits for its outcome before it is acknowledged without it."""
_ALERT_UNITS = 200
"""Of an answer to a click: https://core.telegram.org/bots/api#answercallbackquery."""
_TOLD_UNITS = 3000
_AT_IT = "Placet is at it. The card will say what came of it."
_NOT_YOURS = "Only the person who clicked may answer this, and under their own name. Nothing was decided."
_NO_TEXT = "Please answer with a text. Nothing was decided."
_NO_PRIVATE_CHAT = "I may not write to you yet: open a private chat with me, press Start, then try again."
_IN_PRIVATE = "All of it is in your private chat with me."
_BY_WHOM = "Telegram does not say who clicked. Nothing was decided."

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a click came to, for the person alone."""

    text: str = ""
    alert: bool = False
    """Whether it has to be read: a box with OK, not a line that fades."""
    card: Card | None = None
    """What the clicked message is to show now."""


class Clicks:
    """Takes updates of Telegram; safe to use by many tasks at once, and to be given an update again."""

    def __init__(self, *, sending: Sending, reviews: Reviews) -> None:
        self._sending = sending
        self._bot = sending.bot
        self._reviews = reviews

    async def take(self, update: Update) -> None:
        """Do what an update asks; what cannot be answered is logged."""
        try:
            if update.callback_query is not None:
                await self._clicked(update.callback_query, f"telegram:{update.update_id}")
            elif update.message is not None:
                await self._said(update.message, f"telegram:{update.update_id}")
        except (AiogramError, Undelivered, PlacetError) as error:
            log.warning("update.unanswered", update_id=update.update_id, error=type(error).__name__)

    async def _clicked(self, query: CallbackQuery, delivery: str) -> None:
        """Do what a button says; within two seconds the click is acknowledged whatever the store does."""
        acting = asyncio.create_task(self._act(query, delivery))
        await asyncio.wait([acting], timeout=ACKNOWLEDGE_SECONDS)
        late = not acting.done()
        try:
            told = Told(text=_AT_IT) if late else acting.result()
            text = cut(told.text, _ALERT_UNITS)
            await self._bot.answer_callback_query(query.id, text=text or None, show_alert=told.alert or None)
        except AiogramError as error:  # it is recorded all the same, and the card is drawn below
            log.warning("click.unacknowledged", error=type(error).__name__)
        told = await acting
        if late and told.text:
            with suppress(Undelivered):  # no private chat with this person: the card has to do
                await self._sending.message(query.from_user.id, _said_plainly(told.text))
        if told.card is not None and query.message is not None:
            await self._draw(reference_to(query.message), told.card)

    async def _act(self, query: CallbackQuery, delivery: str) -> Told:
        try:
            return await self._acted(query, delivery)
        except NotThere:
            return Told(text=_NO_PRIVATE_CHAT, alert=True)
        except Undelivered as error:
            return Told(text=f"{error}. Nothing was decided.", alert=True)

    async def _acted(self, query: CallbackQuery, delivery: str) -> Told:
        token, identity = query.data or "", _identity(query.from_user)
        if identity is None or query.message is None:
            return Told(text=_BY_WHOM, alert=True)
        action = _action(token)
        if action in ("approve", None):  # of one that is none of ours too it tells
            return _told(await self._reviews.decide(identity, token, delivery=delivery))
        reply = await self._reviews.look(identity, token)
        if reply.card is None or reply.text:
            return _told(reply)
        if action == "details":
            await self._details(query.from_user.id, reply.card)
            return Told(text="" if query.message.chat.id == query.from_user.id else _IN_PRIVATE)
        prompt = Prompt(token=token, person=query.from_user.id, reference=reference_to(query.message))
        await self._ask(reply.card, action, prompt, query.from_user)
        return Told()

    async def _details(self, person: int, card: Card) -> None:
        """Send all of a card to a person alone, the buttons last."""
        drawn = pages(card)
        if len(drawn) > MOST_PAGES:
            name = f"request-{card.approval.id}.json"
            await self._sending.document(person, BufferedInputFile(document(card), filename=name))
            drawn = [below_document(card)]
        for page in drawn:
            await self._sending.message(person, page)

    async def _ask(
        self,
        card: Card,
        action: Action,
        prompt: Prompt,
        who: User,
        *,
        issues: Mapping[str, str] | None = None,
        reply_to: Message | None = None,
    ) -> None:
        """Ask for a reply, below the card, or below the reply that was not taken."""
        chat, message_id = read_reference(prompt.reference)
        if reply_to is not None:
            chat, message_id = reply_to.chat.id, reply_to.message_id
        drawn = draw_prompt(card, action, prompt, who, issues or {})
        markup = ForceReply(selective=True, input_field_placeholder=card.label(action))
        try:
            await self._sending.message(chat, drawn, reply_to=message_id, force_reply=markup)
        except NotThere:  # nobody can be asked in a channel, where people do not write
            await self._sending.message(who.id, drawn, force_reply=markup)

    async def _said(self, message: Message, delivery: str) -> None:
        prompt = read_prompt(message.reply_to_message, bot_id=self._bot.id)
        if prompt is not None:
            await self._replied(message, prompt, delivery)
        elif message.chat.type == "private" or (message.text or "").startswith("/placet"):
            await self._introduce(message)

    async def _replied(self, message: Message, prompt: Prompt, delivery: str) -> None:
        """Take the reply to a prompt: decide, or say what is wrong and ask again."""
        who = message.from_user
        identity = None if who is None or message.sender_chat is not None else _identity(who)
        action = _action(prompt.token)
        if who is None or identity is None or action is None or who.id != prompt.person:
            await self._answer(message, _NOT_YOURS)
            return
        if not message.text:
            await self._answer(message, _NO_TEXT)
            return
        reply = await self._reviews.look(identity, prompt.token)
        issues: Mapping[str, str] = {}
        if reply.card is not None and not reply.text:
            try:
                typed = read_reply(reply.card, action, message.text)
            except InvalidInput as error:
                issues = {"": str(error)}
            else:
                reply = await self._reviews.decide(identity, prompt.token, typed, delivery=delivery)
                issues = reply.issues
        if issues and reply.card is not None:
            await self._ask(reply.card, action, prompt, who, issues=issues, reply_to=message)
        else:
            await self._answer(message, reply.text)
            if reply.card is not None:
                await self._draw(prompt.reference, reply.card)
        if message.reply_to_message is not None and reply.refusal != "away":
            with suppress(AiogramError):  # it is in the way of nobody
                await self._bot.delete_message(message.chat.id, message.reply_to_message.message_id)

    async def _introduce(self, message: Message) -> None:
        """Tell who one is here, for the files of reviewers and routes, and in private what waits for one."""
        text = Text().section("This chat, for routes", f"telegram:{message.chat.id}")
        identity = None if message.from_user is None else _identity(message.from_user)
        if identity is not None and message.sender_chat is None:
            text.section("You, for reviewers", identity)
            if message.chat.type == "private":
                waiting = await self._reviews.inbox(identity)
                lines = [cut(f"{card.approval.id} {literal(card.heading)}", 150) for card in waiting]
                text.section("Waits for you", "\n".join(lines) or "nothing")
        drawn = Drawn(text=text.text, entities=text.entities)
        await self._sending.message(message.chat.id, drawn, reply_to=message.message_id)

    async def _answer(self, message: Message, told: str) -> None:
        await self._sending.message(message.chat.id, _said_plainly(told), reply_to=message.message_id)

    async def _draw(self, reference: str, card: Card) -> None:
        """Draw the clicked message if nobody has noted it; delivery draws all others, in their order."""
        with suppress(CardGone, Undelivered):
            if await self._reviews.is_orphan(card, "telegram", reference):
                await self._sending.update(reference, card)


def _action(token: str) -> Action | None:
    try:
        return read_button(token).action
    except InvalidInput:
        return None


def _identity(user: User) -> str | None:
    """The person's number, which nobody else can get: a username can be given up and taken by another."""
    return None if user.is_bot else f"telegram:{user.id}"


def _told(reply: Reply) -> Told:
    return Told(text=reply.text, alert=not reply.recorded, card=reply.card)


def _said_plainly(told: str) -> Drawn:
    """What may quote a model or a person, as a message of its own."""
    text = Text().add(cut(literal(told), _TOLD_UNITS), "pre")
    return Drawn(text=text.text, entities=text.entities)
