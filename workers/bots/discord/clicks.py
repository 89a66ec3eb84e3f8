"""What people do on Discord: each click acknowledged, decided on, and answered to the person alone."""

from __future__ import annotations

import asyncio
import io
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import aiohttp
import discord
import structlog

from ...errors import InvalidInput
from ..card import read_button
from ..channel import CardGone, Undelivered
from ..reviews import Reply
from .cards import all_of, buttons_of
from .forms import ALL, modal_of, quoted, typed_before, typed_into
from .text import escape, length

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ..card import Action, Card
    from ..reviews import Reviews

    Click = discord.Interaction[discord.Client]

LOOK_SECONDS = 1.5
"""How long the store may take before a form is opened: it must be within the platform's three seconds."""
ACKNOWLEDGE_SECONDS = 3.0
TELL_SECONDS = 15.0
_ALREADY = 40060
"""Discord's code for a click that another replica has acknowledged."""
_FRESH_SECONDS = 60.0
_MOST_CONTENT = 2000
_AWAY = "Placet's store does not answer: nothing was decided. Please try again."
_TOO_LONG = "This is too long for Discord. Decide on it with: `placet approvals show {}`"
_NOBODY = discord.AllowedMentions.none()

log = structlog.get_logger(__name__)


class Clicks:
    """Takes what people click and type. All replicas are sent every click: one of them may acknowledge it.

    The others go on with it all the same, should that one die over it: the decision is one, as is its answer.
    """

    def __init__(self, reviews: Reviews, update: Callable[[str, Card], Awaitable[None]]) -> None:
        self._reviews = reviews
        self._update = update

    async def take(self, click: Click) -> None:
        """Take a click on a button, or a form that was sent."""
        data: dict[str, Any] = dict(click.data or {})
        token = str(data.get("custom_id", ""))
        if click.type is discord.InteractionType.modal_submit:
            typed = typed_into(data.get("components", ()))
            await self._sent(click, token, typed)
        elif click.type is discord.InteractionType.component:
            action = _action(token)
            if action == "details":
                await self._details(click, token)
            elif action in (None, "approve"):
                await self._decide(click, token)
            else:
                await self._ask(click, token, action)

    async def _ask(self, click: Click, token: str, action: Action) -> None:
        """Open a form, which has to be the answer to the click itself, or tell why there is none."""
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                reply = await self._reviews.look(_identity(click), token)
        except TimeoutError:
            reply = Reply(text=_AWAY, refusal="away")
        text = escape(reply.text, _MOST_CONTENT)[0]
        if reply.card is not None and not reply.text:
            modal = modal_of(reply.card, action, typed_before(click.message))
            if modal is not None:
                await _acknowledged(click, click.response.send_modal(modal))
                return
            text = _TOO_LONG.format(reply.card.approval.id)
        answer = click.response.send_message(text, ephemeral=True, allowed_mentions=_NOBODY)
        await _acknowledged(click, answer)
        await self._mend(click, reply.card)

    async def _sent(self, click: Click, token: str, typed: dict[str, str]) -> None:
        """Decide as a form says."""
        if not token.endswith(ALL):
            await self._decide(click, token, typed)
            return
        token = token.removesuffix(ALL)
        if not await _defer(click):
            return
        seen = await self._reviews.look(_identity(click), token)
        if seen.text or seen.card is None:
            await asyncio.gather(self._mend(click, seen.card), _tell(click, seen, token, None))
            return
        typed = {"": typed.get("json", "")}
        try:
            args = json.loads(typed[""])
        except (ValueError, RecursionError) as error:
            wrong = f"Nothing was decided: the arguments must be JSON: {error}"
            await _tell(click, Reply(text=wrong, card=seen.card, refusal="invalid"), token, typed)
            return
        decision = {"type": "edit", "edited_action": {"name": seen.card.approval.tool, "args": args}}
        await self._record(click, token, typed, decision)

    async def _decide(self, click: Click, token: str, typed: dict[str, str] | None = None) -> None:
        if await _defer(click):
            await self._record(click, token, typed)

    async def _record(
        self,
        click: Click,
        token: str,
        typed: dict[str, str] | None,
        decision: Mapping[str, Any] | None = None,
    ) -> None:
        reply = await self._reviews.decide(
            _identity(click), token, typed, decision=decision, delivery=f"discord:{click.id}"
        )
        await asyncio.gather(self._mend(click, reply.card), _tell(click, reply, token, typed))

    async def _details(self, click: Click, token: str) -> None:
        """Show all of a request to one person, in a file, and the buttons below it."""
        if not await _defer(click):
            return
        reply = await self._reviews.look(_identity(click), token)
        if reply.text or reply.card is None:
            await asyncio.gather(self._mend(click, reply.card), _tell(click, reply, token, None))
            return
        card = reply.card
        content = all_of(card).encode()
        if len(content) > click.filesize_limit:
            await _answer(click, content=_TOO_LONG.format(card.approval.id))
            return
        file = discord.File(io.BytesIO(content), f"request-{card.approval.id}.txt")
        text = "All of it is in this file. Read it to its end before you decide."
        await _answer(click, content=text, attachments=[file], view=buttons_of(card, card.actions))

    async def _mend(self, click: Click, card: Card | None) -> None:
        """Draw a message anew that nobody has noted: a bot died between posting it and noting that.

        By the bot's own right, as always: what a click gives ends after 15 minutes.
        """
        message = click.message
        if card is None or message is None or message.flags.ephemeral:
            return
        reference = f"{message.channel.id}/{message.id}"
        if await self._reviews.is_orphan(card, "discord", reference):
            with suppress(Undelivered, CardGone):
                await self._update(reference, card)


def _identity(click: Click) -> str:
    return f"discord:{click.user.id}"


def _action(token: str) -> Action | None:
    try:
        return read_button(token).action
    except InvalidInput:
        return None


async def _defer(click: Click) -> bool:
    return await _acknowledged(click, click.response.defer(ephemeral=True, thinking=True))


async def _acknowledged(click: Click, answer: Awaitable[object]) -> bool:
    """Acknowledge a click; one that cannot be counts for nothing: Discord tells the person that it failed."""
    try:
        async with asyncio.timeout(ACKNOWLEDGE_SECONDS):
            await answer
    except discord.HTTPException as error:
        # one that comes late, after a connection was mended, is not taken up again
        age = (discord.utils.utcnow() - click.created_at).total_seconds()
        if error.code == _ALREADY and age < _FRESH_SECONDS:
            return True
        log.warning("click.unacknowledged", status=error.status, code=error.code)
        return False
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        log.warning("click.unacknowledged", error=type(error).__name__)
        return False
    return True


async def _tell(click: Click, reply: Reply, token: str, typed: Mapping[str, str] | None) -> None:
    """Tell a person what came of a click, and give back what was typed if it was refused."""
    wrong = [
        f"**{escape(name, 100)[0]}**: {escape(issue, 200)[0]}" for name, issue in reply.issues.items() if name
    ]
    lines = [escape(reply.text, _MOST_CONTENT // 2)[0], *wrong[:5]]
    if reply.refusal != "invalid" or not typed or reply.card is None:
        await _answer(click, content="\n".join(lines)[:_MOST_CONTENT])
        return
    action = _action(token)
    view = buttons_of(reply.card, [action] if action else [])
    content = "\n".join([*lines, quoted(typed)])
    if length(content) <= _MOST_CONTENT:
        await _answer(click, content=content, view=view)
        return
    file = discord.File(io.BytesIO(json.dumps(typed, ensure_ascii=False, indent=2).encode()), "typed.txt")
    await _answer(click, content="\n".join(lines)[:_MOST_CONTENT], attachments=[file], view=view)


async def _answer(click: Click, **message: Any) -> None:
    """Fill in what a person was promised with the acknowledgement; only words are lost where that fails."""
    try:
        async with asyncio.timeout(TELL_SECONDS):
            await click.edit_original_response(allowed_mentions=_NOBODY, **message)
    except (discord.HTTPException, aiohttp.ClientError, OSError, TimeoutError) as error:
        log.warning("click.unanswered", error=type(error).__name__)
