"""What the bot sends: messages and cards, and what Telegram's refusals mean."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from aiogram.exceptions import (
    AiogramError,
    TelegramAPIError,
    TelegramBadRequest,
    TelegramForbiddenError,
    TelegramMigrateToChat,
    TelegramNetworkError,
    TelegramRetryAfter,
)
from aiogram.types import LinkPreviewOptions, ReplyParameters

from ..channel import CardGone, Undelivered
from .cards import draw

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aiogram import Bot
    from aiogram.types import BufferedInputFile, ForceReply, InaccessibleMessage, Message

    from ..card import Card
    from .cards import Drawn

_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)
_SAME = "message is not modified"
_GONE = ("message to edit not found", "message can't be edited", "MESSAGE_ID_INVALID")


class NotThere(Undelivered):
    """Raised when there is no such chat, or the bot may not write there, or not so."""


class Sending:
    """Sends by one bot's token."""

    def __init__(self, bot: Bot) -> None:
        self.bot = bot

    async def message(
        self,
        chat: int | str,
        drawn: Drawn,
        *,
        topic: int | None = None,
        reply_to: int | None = None,
        force_reply: ForceReply | None = None,
    ) -> Message:
        """Send a message; one that it replies to may be gone.

        Raises:
            Undelivered: `NotThere`, or another.
        """
        reply = None
        if reply_to is not None:
            reply = ReplyParameters(message_id=reply_to, allow_sending_without_reply=True)
        with refusals_told():
            return await self.bot.send_message(
                chat,
                drawn.text,
                message_thread_id=topic,
                entities=drawn.entities,
                link_preview_options=_NO_PREVIEW,
                reply_parameters=reply,
                reply_markup=force_reply or drawn.buttons,
            )

    async def document(self, chat: int, file: BufferedInputFile) -> None:
        """Send a file; raises as `message`."""
        with refusals_told():
            await self.bot.send_document(chat, file)

    async def post(self, destination: str, card: Card) -> str:
        """Post a card to `CHAT` or `CHAT/TOPIC`; see `Channel.post`."""
        chat, _, topic = destination.partition("/")
        try:
            place, thread = chat if chat.startswith("@") else int(chat), int(topic) if topic else None
        except ValueError:
            raise Undelivered(f"{destination!r} is no chat's number, @name or number/topic") from None
        return reference_to(await self.message(place, draw(card), topic=thread))

    async def update(self, reference: str, card: Card) -> None:
        """Draw a card anew; see `Channel.update`."""
        chat, message_id = read_reference(reference)
        drawn = draw(card)
        try:
            with refusals_told():
                await self.bot.edit_message_text(
                    drawn.text,
                    chat_id=chat,
                    message_id=message_id,
                    entities=drawn.entities,
                    link_preview_options=_NO_PREVIEW,
                    reply_markup=drawn.buttons,
                )
        except NotThere as error:
            if any(one in str(error) for one in _GONE):
                raise CardGone from None
            if _SAME not in str(error):
                raise


def reference_to(message: Message | InaccessibleMessage) -> str:
    """Name a message: `CHAT:MESSAGE`."""
    return f"{message.chat.id}:{message.message_id}"


def read_reference(reference: str) -> tuple[int, int]:
    """Read the chat and the message that `reference_to` named."""
    chat, _, message_id = reference.partition(":")
    return int(chat), int(message_id)


@contextmanager
def refusals_told() -> Iterator[None]:
    """Turn what aiogram raises into what operators are shown: never the token, which is in every address.

    Raises:
        Undelivered: `NotThere`, or another.
    """
    try:
        yield
    except TelegramRetryAfter as error:
        wait = float(error.retry_after)
        raise Undelivered(f"Telegram takes no more for {wait:.0f} s", retry_after=wait) from None
    except TelegramMigrateToChat as error:
        now = error.migrate_to_chat_id
        raise Undelivered(f"the group is a supergroup now: route to telegram:{now}") from None
    except (TelegramBadRequest, TelegramForbiddenError) as error:
        raise NotThere(f"Telegram answered: {error.message}") from None
    except TelegramNetworkError as error:
        raise Undelivered(f"Telegram is not reached: {error.message.partition(':')[0]}") from None
    except TelegramAPIError as error:
        raise Undelivered(f"Telegram answered: {error.message}") from None
    except AiogramError as error:
        raise Undelivered(f"Telegram's answer cannot be read: {type(error).__name__}") from None
