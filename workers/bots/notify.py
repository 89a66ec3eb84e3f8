"""One-way notifications with a link, over what Apprise knows: e-mail, SMS, Teams and a hundred more."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import parse_qs, urlsplit

from apprise import Apprise, AppriseAsset, NotifyFormat, OverflowMode
from pydantic import BaseModel, ConfigDict, Field

from ..errors import InvalidSettings
from ..settings_files import read_yaml
from .channel import CardGone, Undelivered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .card import Card
    from .reviews import Reviews

URLS, LINK = "PLACET_NOTIFY_URLS", "PLACET_NOTIFY_LINK"
CALL_SECONDS = 15
MOST_CONTENT = 1000
"""Characters of what is asked that are sent; all of it is behind the link."""
_ID = "{approval_id}"
_ALIVE = re.compile(r"@|://|\](?=\()|<(?=[!#@])|(?<=\w)\.(?=[^\W\d_])")
"""What services make mentions, links and markup of, also those that nothing is escaped for."""


class _Contents(BaseModel):
    model_config = ConfigDict(extra="forbid")
    destinations: Annotated[dict[str, str], Field(min_length=1)]


def channel() -> NotifyChannel:
    """Make the channel that the environment's settings describe.

    Raises:
        InvalidSettings: naming what is missing or wrong; no URL is told, for they hold passwords.
    """
    path, link = os.environ.get(URLS, ""), os.environ.get(LINK, "")
    if not path:
        raise InvalidSettings(f"{URLS}: must name a YAML file of destinations (docs/bots/notify.md)")
    if link and (link.count(_ID) != 1 or not re.fullmatch(r"https?", urlsplit(link).scheme)):
        example = f"https://placet.example.com/approvals/{_ID}"
        raise InvalidSettings(f"{LINK}: must be a URL with {_ID} in it, such as {example}")
    try:
        urls = read_yaml(Path(path), _Contents, URLS).destinations
    except OSError as error:
        raise InvalidSettings(f"{URLS}: {path}: {error.strerror}") from None
    return NotifyChannel(urls=urls, link=link)


class NotifyChannel:
    """Tells destinations that a request waits, and once what became of it; takes no decisions."""

    name = "notify"

    def __init__(self, *, urls: Mapping[str, str], link: str) -> None:
        # it logs answers of services and URLs that hold passwords
        logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
        self._targets = {name: _target(name, url) for name, url in urls.items()}
        self._link = link
        self._told: set[tuple[str, str]] = set()

    async def serve(self, reviews: Reviews) -> None:  # noqa: ARG002 - there is nobody to tell it anything
        """Wait until cancelled: nobody answers here."""
        await asyncio.Event().wait()

    async def post(self, destination: str, card: Card) -> str:
        """Notify a destination; see `Channel.post`."""
        await self._send(destination, card.heading, body_of(card, self._link))
        return destination

    async def update(self, reference: str, card: Card) -> None:
        """Tell once what became of a request. What was sent before cannot be changed, so there is no card."""
        if card.open:
            return
        told = (reference, card.approval.id)
        if told not in self._told:  # a request of which it reminded has several cards there
            self._told.add(told)
            try:
                await self._send(reference, card.heading, _body([card.state], card, self._link))
            except BaseException:
                self._told.discard(told)
                raise
        raise CardGone

    async def _send(self, destination: str, title: str, body: str) -> None:
        target = self._targets.get(destination)
        if target is None:
            raise Undelivered(f"{URLS} has no destination {destination!r}")
        try:
            async with asyncio.timeout(CALL_SECONDS):
                sent = await target.async_notify(body=body, title=_dead(title), body_format=NotifyFormat.TEXT)
        except TimeoutError:
            raise Undelivered(f"{destination}: no answer in {CALL_SECONDS} s") from None
        if not sent:
            raise Undelivered(f"{destination}: not taken; `apprise -v -b test URL` shows why")


def body_of(card: Card, link: str) -> str:
    """A request as text: where to decide first, so that a short message has it, what is asked at the end."""
    asked = "\n\n".join(one for one in (card.description, card.content) if one)
    if len(asked) > MOST_CONTENT:
        asked = f"{asked[:MOST_CONTENT]}…\n({len(asked) - MOST_CONTENT} characters more)"
    # marked, so that no line of it looks like one of ours
    quoted = [f"| {line}" for line in asked.splitlines()]
    return _body([card.state, *(f"{label}: {text}" for label, text in card.facts), *quoted], card, link)


def _body(lines: list[str], card: Card, link: str) -> str:
    first, *rest = [_dead(" ".join(line.splitlines())) for line in lines]
    where = link.replace(_ID, card.approval.id) if link else f"placet approvals show {card.approval.id}"
    return "\n".join([first, where, *rest])


def _dead(text: str) -> str:
    """Write what could come alive in a message as security reports do: `evil[.]example`."""
    return _ALIVE.sub(lambda found: "] " if found[0] == "]" else f"[{found[0]}]", text)


def _target(name: str, url: str) -> Apprise:
    """Make what sends to a destination.

    Raises:
        InvalidSettings: when it is no URL of a service that Apprise knows.
    """
    asset = AppriseAsset(app_id="Placet", app_desc="Placet", app_url="")
    found = Apprise.instantiate(url, asset=asset)
    if found is None:
        wrong = "is no complete URL of a service that Apprise knows (https://appriseit.com/services/)"
        raise InvalidSettings(f"{URLS}: destinations.{name}: {wrong}")
    if "overflow" not in parse_qs(urlsplit(url).query):
        found.overflow_mode = OverflowMode.TRUNCATE
    target = Apprise(asset=asset)
    target.add(found)
    return target
