"""What a platform's clicks come to: whether this person may, what was decided, what they are told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from ..errors import (
    AlreadyDecided,
    ChangedSinceSeen,
    InvalidDecision,
    InvalidInput,
    NotAllowed,
    NotFound,
    NotPending,
    PlacetError,
    StoreUnavailable,
)
from .card import card_of, read_button
from .forms import decision_of, field_of, form_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..client import Placet
    from .card import Button, Card

log = structlog.get_logger(__name__)

_AWAY = "Placet's store does not answer: nothing was decided. Please try again."
_CHANGED = "This request has changed since that card was drawn: nothing was decided. Please look at it again."


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came of a click, for the person who clicked alone."""

    text: str
    """One or two sentences; it may quote what a model wrote, so it is escaped as a card is."""
    card: Card | None = None
    """The request as it is now, None if that is not known or not for this person."""
    recorded: bool = False
    """Whether this person's decision stands."""
    issues: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with what was typed, by field; "" is the whole."""


class Reviews:
    """Takes what people do on one channel; safe to use by many tasks at once.

    Identities are the platform's verified ones, with the channel's name: `slack:U024BE7LH`.
    """

    def __init__(self, *, placet: Placet) -> None:
        self._placet = placet

    async def look(self, identity: str, token: str) -> Reply:
        """Look at a request before it is decided: for a form, or for all of its arguments.

        The reply's text is empty where this person may decide, the request is pending, and the button was
        drawn with what it asks now; else it says why not, with the card only for those who may see it.
        """
        try:
            button = read_button(token)
            approval = await self._placet.approval(button.approval_id)
            await self._placet.may_decide(approval, reviewer=identity)
            _check_as_drawn(button, card_of(approval))
        except PlacetError as error:
            return await self._refused(error, token, identity)
        return Reply(text="", card=card_of(approval))

    async def decide(self, identity: str, token: str, typed: Mapping[str, str] | None = None) -> Reply:
        """Decide as a button says, with what was typed into its form, by field name.

        The same click delivered again is told the same. Nothing is raised: what is refused is told.
        """
        try:
            button = read_button(token)
            if button.action == "details":
                return Reply(text=f"{button.action} decides nothing")
            card = card_of(await self._placet.approval(button.approval_id))
            await self._placet.may_decide(card.approval, reviewer=identity)
            fields = form_of(card, button.action)
            decision = decision_of(card, button.action, typed or {})
            approval = await self._placet.decide(
                button.approval_id, decision, reviewer=identity, seen=button.digest
            )
        except InvalidDecision as error:
            issues: dict[str, str] = {}
            for issue in error.issues:
                issues.setdefault(field_of(issue, fields), issue["message"])
            return Reply(text=f"Nothing was decided: {error}", card=card, issues=issues)
        except PlacetError as error:
            return await self._refused(error, token, identity)
        return Reply(text=card_of(approval).state, card=card_of(approval), recorded=True)

    async def inbox(self, identity: str, *, limit: int = 20) -> list[Card]:
        """What waits for this person's decision, newest first; empty for who is no reviewer.

        Raises:
            StoreUnavailable: when Redis does not answer.
        """
        found: list[Card] = []
        for approval in await self._placet.approvals(limit=1000):
            try:
                await self._placet.may_decide(approval, reviewer=identity)
            except NotAllowed:
                continue
            found.append(card_of(approval))
            if len(found) >= limit:
                break
        return found

    async def _refused(self, error: PlacetError, token: str, identity: str) -> Reply:
        """Tell why nothing was decided, and how things stand."""
        log.info("decision.refused", reviewer=identity, error=type(error).__name__)
        if (text := _without_card(error)) is not None:
            return Reply(text=text)
        button = read_button(token)
        try:
            card = card_of(await self._placet.approval(button.approval_id))
            own = isinstance(error, AlreadyDecided) and await self._is(identity, error.decided_by)
        except PlacetError:
            return Reply(text=_AWAY)
        if own and isinstance(error, AlreadyDecided):
            return Reply(text=card.state, card=card, recorded=button.action == error.decision)
        if isinstance(error, AlreadyDecided | NotPending):
            return Reply(text=f"Too late, you decided nothing. {card.state}", card=card)
        why = _CHANGED if isinstance(error, ChangedSinceSeen) else f"Nothing was decided: {error}"
        return Reply(text=why, card=card)

    async def _is(self, identity: str, reviewer: str) -> bool:
        found = await self._placet.reviewer(identity)
        return found is not None and found.id == reviewer


def _without_card(error: PlacetError) -> str | None:
    """What is told to somebody who may not see the request, or where there is none to see."""
    if isinstance(error, StoreUnavailable):
        return _AWAY
    if isinstance(error, NotAllowed):
        return f"You may not decide on this: {error.why}. It still waits."
    if isinstance(error, InvalidInput | NotFound):
        return "This button stands for no request any more. Nothing was decided."
    return None


def _check_as_drawn(button: Button, card: Card) -> None:
    """Refuse a button of a card that is not what is asked now.

    Raises:
        AlreadyDecided, NotPending, ChangedSinceSeen: when it is so.
    """
    from ..decisions import check_open  # noqa: PLC0415 - loads jsonschema when it is used

    check_open(card.approval, button.digest)
