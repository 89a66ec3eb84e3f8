"""Cards in a Microsoft Teams channel, decided behind a link: a channel of one's own for `placet bot`.

In Teams: ... > Workflows > "Send webhook alerts to a channel"; it shows a URL. Then:

    export TEAMS_OPS_URL=https://…                    # the destination teams:ops in PLACET_ROUTES
    export TEAMS_LINK=https://placet.example.com/approvals/{approval_id}
    placet bot teams_channel:channel                  # in the folder of this file
"""

from __future__ import annotations

import asyncio
import os
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import aiohttp

from placet.bots.channel import CardGone, Undelivered
from placet.errors import InvalidSettings

if TYPE_CHECKING:
    from placet.bots.card import Card
    from placet.bots.reviews import Reviews

MOST = 10_000
"""Characters of what is asked; Teams takes 28 KB a message."""


class TeamsChannel:
    name = "teams"

    def __init__(self, link: str) -> None:
        self.link = link

    async def serve(self, reviews: Reviews) -> None:  # noqa: ARG002 - of the protocol
        """A workflow's webhook takes cards and sends no clicks: people decide behind the link."""
        await asyncio.Event().wait()

    async def post(self, destination: str, card: Card) -> str:
        asked = "\n\n".join(text for text in (card.description, card.content) if text)
        if len(asked) > MOST:
            asked = f"{asked[:MOST]}… ({len(asked) - MOST} characters more)"
        facts = [f"{label}: {text}" for label, text in card.facts]
        await self.send(destination, card, [card.state, *facts, asked])
        return destination

    async def update(self, reference: str, card: Card) -> None:
        """Say in a second message what became of it: a workflow cannot change what it has posted."""
        if not card.open:
            await self.send(reference, card, [card.state])
            raise CardGone

    async def send(self, destination: str, card: Card, texts: list[str]) -> None:
        url = os.environ.get(f"TEAMS_{destination.upper()}_URL", "")
        if not url:
            raise Undelivered(f"TEAMS_{destination.upper()}_URL is not set")
        message = {"type": "message", "attachments": [self.attachment(card, texts)]}
        timeout = aiohttp.ClientTimeout(total=15)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.post(url, json=message, allow_redirects=False) as answer,
            ):
                wait = answer.headers.get("retry-after", "")
                if answer.status not in (HTTPStatus.OK, HTTPStatus.ACCEPTED):
                    told = f"Teams answered {answer.status}"
                    raise Undelivered(told, retry_after=float(wait) if wait.isdecimal() else None)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Undelivered(f"Teams: {type(error).__name__}") from None  # no URL: whoever has it can post

    def attachment(self, card: Card, texts: list[str]) -> dict[str, Any]:
        # text runs, because Teams reads a TextBlock and a Fact as Markdown
        body = [text_run(card.heading, weight="Bolder", size="Large"), *map(text_run, texts)]
        where = self.link.replace("{approval_id}", card.approval.id)
        content = {
            "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
            "type": "AdaptiveCard",
            "version": "1.4",
            "body": body,
            "actions": [{"type": "Action.OpenUrl", "title": "Open", "url": where}],
        }
        return {"contentType": "application/vnd.microsoft.card.adaptive", "content": content}


def text_run(text: str, **look: str) -> dict[str, Any]:
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **look}]}


def channel() -> TeamsChannel:
    link = os.environ.get("TEAMS_LINK", "")
    if "{approval_id}" not in link:
        raise InvalidSettings("TEAMS_LINK: must be a URL with {approval_id} in it")
    return TeamsChannel(link)
