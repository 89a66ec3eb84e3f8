"""Where requests are shown on chat platforms: each message there, and which are to be looked at again."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .connection import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class PostedCard:
    """A message that shows a request, or the attempts to post it."""

    channel: str
    destination: str
    number: int = 0
    """0 for the first card at a destination, then one for each reminder there."""
    reference: str = ""
    """The platform's, empty while it is not posted."""
    drawn: str = ""
    """Digest of what it shows."""
    gone: bool = False
    """Whether the message was deleted, or its channel draws it no more: the request takes no decision."""
    tries: int = 0
    """Failed attempts to post it, or to draw it anew, since the last one that succeeded."""
    error: str = ""
    """What the platform said to the last of them."""
    due_ms: int = 0
    """When it is tried again, by the bot's clock, Unix time."""

    @property
    def place(self) -> str:
        """Names it among the cards of its request."""
        return f"{self.number}:{self.channel}:{self.destination}"


class Deliveries:
    """Ids of clicks that were recorded, for as long as a platform may deliver one again."""

    KEEP_SECONDS = 3600

    def __init__(self, connection: Connection) -> None:
        self._c = connection

    async def seen(self, delivery: str) -> bool:
        """Whether this click was recorded before."""
        return bool(await self._c.read(self._c.reader.exists(self._c.keys("delivery", delivery))))

    async def note(self, delivery: str) -> None:
        """Keep that this click was recorded."""
        key = self._c.keys("delivery", delivery)
        await self._c.read(self._c.reader.set(key, "1", ex=self.KEEP_SECONDS))


class Cards:
    """Records of posted cards; of the replicas of a channel's bot one at a time looks after a request's."""

    def __init__(self, connection: Connection) -> None:
        self._c = connection

    async def of(self, approval_id: str) -> list[PostedCard]:
        """The cards of a request on all channels, in no order."""
        record = await self._c.read(self._c.reader.hgetall(self._c.keys("cards", approval_id)))
        return [PostedCard(**json.loads(text)) for text in record.values()]

    async def save(self, approval_id: str, card: PostedCard, *, who: str = "") -> None:
        """Keep what is known of a card, as long as its request is kept.

        If another replica has taken the request from `who` meanwhile, the card is drawn once more instead:
        nobody knows which of the two has drawn last.
        """
        text = json.dumps(asdict(card))
        await self._c.run("cards_save", approval_id, card.place, text, card.channel, who, again=True)

    async def forget(self, approval_id: str, card: PostedCard) -> None:
        """Forget a card that is there no more."""
        await self._c.run("cards_save", approval_id, card.place, "", card.channel, "", again=True)

    async def look_again(self, channel: str, approval_ids: Sequence[str]) -> None:
        """Have the cards of these requests looked at now, by whichever replica is free."""
        if approval_ids:
            await self._c.run("cards_hint", channel, *approval_ids, again=True)

    async def known(self, channel: str) -> list[str]:
        """The requests that are pending, and those whose cards are looked at again some time."""
        found: dict[str, None] = {}
        for key in (self._c.keys("cards_due", channel), self._c.keys("approvals_in", "pending")):
            found |= {one.decode(): None for one in await self._c.read(self._c.reader.zrange(key, 0, -1))}
        return list(found)

    async def take(self, channel: str, who: str, *, keep_ms: int, most: int) -> tuple[list[str], int | None]:
        """Take requests whose cards are to be looked at, for that long; and the ms until more are due."""
        until, *ids = await self._c.run("cards_take", channel, who, keep_ms, most)
        return [one.decode() for one in ids], int(until) if until else None

    async def done(self, channel: str, who: str, approval_id: str, *, again_in_ms: int | None) -> None:
        """Say that a request's cards were looked at, and when they are to be again."""
        again = "" if again_in_ms is None else again_in_ms
        await self._c.run("cards_done", channel, who, approval_id, again, again=True)
