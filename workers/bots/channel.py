"""What a chat platform has to offer, so that requests can be shown and decided there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ..errors import RetryableError

if TYPE_CHECKING:
    from .card import Card
    from .reviews import Reviews


class Channel(Protocol):
    """One platform: it posts cards, draws them anew, and hands over what people click.

    Several processes may serve the same channel. Only one of them posts or updates a request's cards at a
    time, but a click may come to any of them, whoever posted the card.
    """

    @property
    def name(self) -> str:
        """What its destinations and its people's identities begin with: `slack` in `slack:C024BE91L`."""
        ...

    async def serve(self, reviews: Reviews) -> None:
        """Connect or listen until cancelled, and tell `reviews` what people do.

        A click is acknowledged to the platform before `reviews` is asked: its store may be slow, the
        platform's patience is short. What `reviews` answers is told to the person alone.

        Raises:
            InvalidSettings: when the platform refuses the token, or the address cannot be listened at.
        """
        ...

    async def post(self, destination: str, card: Card) -> str:
        """Post a card there (`C024BE91L`, without the channel's name) and return a reference to it.

        The reference is kept as it is and given to `update`, perhaps by another process.

        Raises:
            Undelivered: when it was not posted.
        """
        ...

    async def update(self, reference: str, card: Card) -> None:
        """Draw a posted card anew; one whose request takes no decision any more has no buttons left.

        Raises:
            Undelivered: when it still shows what it did.
            CardGone: when there is no such message any more.
        """
        ...


class Undelivered(RetryableError):
    """Raised when the platform did not take a card; it is tried again, `retry_after` seconds later if given.

    The message is shown to operators: it tells what the platform said, and no token.
    """

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class CardGone(Exception):
    """Raised when the message that showed a card was deleted."""
