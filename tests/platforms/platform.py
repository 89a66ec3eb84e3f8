"""What tests of bots need of a platform: a server that speaks its wire format, and people who click."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A message as the platform holds it."""

    reference: str
    destination: str
    text: str
    """All that a reader sees, as the platform would show it: markup resolved, escapes undone."""
    buttons: Mapping[str, str]
    """What each button carries by its action: approve, edit, reject, respond, answer, details."""
    pings: tuple[str, ...] = ()
    """People, channels or links that the platform would make of the text: mentions, links, formatting."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a person got for a click."""

    acknowledged: bool
    """Whether the platform was answered within its limit."""
    told: str
    """What this person alone was told; empty if nothing."""
    issues: Mapping[str, str] = field(default_factory=dict)
    """What was said to be wrong, by field of the form."""


class Platform(Protocol):
    """One platform's server on loopback; replicas of a bot connect to it, clicks go to any of them."""

    name: str
    destination: str
    """Where routes send the cards, without the channel's name."""
    people: Mapping[str, str]
    """The platform's ids of `alice` (group finance), `bob` (no group) and `mallory` (no reviewer)."""

    def env(self, replica: int = 0) -> dict[str, str]:
        """What a replica of the bot is set to: tokens, keys, the server's address, its own port."""
        ...

    async def cards(self, approval_id: str) -> list[Shown]:
        """The messages that show a request now, oldest first; deleted ones are left out."""
        ...

    async def click(
        self, token: str, *, by: str, shown: Shown, typed: Mapping[str, str] | None = None, replica: int = 0
    ) -> Answer:
        """Click a button, send the form that it opens, and wait until the bot has answered for good."""
        ...

    def acknowledged(self, token: str) -> bool:
        """Whether a click on a button with this token was acknowledged, though it may not be answered yet.

        True once it was sent where the platform's answer is the acknowledgement (a signed webhook).
        """
        ...

    def fail(self, times: int, *, retry_after: float | None = None) -> None:
        """Refuse the next posts and updates: as rate limited with `retry_after`, else as out of order."""
        ...

    async def delete(self, shown: Shown) -> None:
        """Delete a message, as an administrator does."""
        ...
