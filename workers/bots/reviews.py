"""What a platform's clicks come to: whether this person may, what was decided, what they are told."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

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
    RetryableError,
    StoreUnavailable,
)
from .card import card_of, read_button
from .forms import decision_of, field_of, form_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..client import Placet
    from ..state.cards import Deliveries
    from .card import Button, Card

log = structlog.get_logger(__name__)

_AWAY = "Placet's store does not answer: nothing was decided. Please try again."
_UNSURE = "Placet's store did not answer: whether this was recorded is not known. Please try again."
_UNKNOWN = "This button stands for no request any more. Nothing was decided."
_CHANGED = "This request has changed since that card was drawn: nothing was decided. Please look at it again."


Refusal = Literal["not_allowed", "unknown", "conflict", "invalid", "away"]
"""This person may not; there is no such request; it is decided or changed; what was typed; no store."""


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
    refusal: Refusal | None = None
    """Why nothing was decided, for programs; None where it was."""


class Reviews:
    """Takes what people do on one channel; safe to use by many tasks at once.

    Identities are the platform's verified ones, with the channel's name: `slack:U024BE7LH`.
    """

    def __init__(self, *, placet: Placet, deliveries: Deliveries) -> None:
        self._placet = placet
        self._deliveries = deliveries

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

    async def decide(
        self,
        identity: str,
        token: str,
        typed: Mapping[str, str] | None = None,
        *,
        decision: Mapping[str, Any] | None = None,
        delivery: str = "",
    ) -> Reply:
        """Decide as a button says. The same click delivered again is told the same. Nothing is raised.

        Args:
            identity: Who clicked.
            token: What the button carries.
            typed: What was typed into its form, by field name.
            decision: What a program decides in its place, a decision as `placet.decide` takes it.
            delivery: The platform's id of this click. One that was recorded decides nothing when it is
                delivered once more, even if the request was opened again meanwhile.
        """
        try:
            button = read_button(token)
            card = card_of(await self._placet.approval(button.approval_id))
            await self._placet.may_decide(card.approval, reviewer=identity)
            if delivery and await self._deliveries.seen(delivery):
                # what was read above may be older than what the first delivery decided
                card = card_of(await self._placet.approval(button.approval_id))
                return Reply(text=card.state, card=card, recorded=not card.open, refusal=_conflict(card.open))
            fields = form_of(card, button.action)
            made = decision_of(card, button.action, typed or {}) if decision is None else dict(decision)
            _check_action(button, made)
            try:
                approval = await self._placet.decide(
                    button.approval_id, made, reviewer=identity, seen=button.digest
                )
            except StoreUnavailable:
                return Reply(text=_UNSURE, refusal="away")
            if delivery:
                with suppress(RetryableError):  # the decision stands all the same
                    await self._deliveries.note(delivery)
        except InvalidDecision as error:
            issues: dict[str, str] = {}
            for issue in error.issues:
                issues.setdefault(field_of(issue, fields), issue["message"])
            text = f"Nothing was decided: {error}"
            return Reply(text=text, card=card, issues=issues, refusal="invalid")
        except PlacetError as error:
            return await self._refused(error, token, identity)
        return Reply(text=card_of(approval).state, card=card_of(approval), recorded=True)

    async def is_orphan(self, card: Card, channel: str, reference: str) -> bool:
        """Whether nobody has noted that this message shows the request, so that nobody draws it anew.

        That is so when a bot died between posting it and noting it. All others are drawn anew without being
        clicked; drawn by a click too, an older state could come over a newer one.
        """
        try:
            cards = await self._placet.cards(card.approval.id)
        except PlacetError:
            return False
        return all((one.channel, one.reference) != (channel, reference) for one in cards)

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
        if isinstance(error, StoreUnavailable):
            return Reply(text=_AWAY, refusal="away")
        if isinstance(error, NotAllowed):
            return Reply(
                text=f"You may not decide on this: {error.why}. Nothing was decided.", refusal="not_allowed"
            )
        if isinstance(error, InvalidInput | NotFound):
            return Reply(text=_UNKNOWN, refusal="unknown")
        return await self._conflicting(error, read_button(token), identity)

    async def _conflicting(self, error: PlacetError, button: Button, identity: str) -> Reply:
        """Tell how things stand with a request that did not take the decision."""
        try:
            card = card_of(await self._placet.approval(button.approval_id))
            own = isinstance(error, AlreadyDecided) and await self._is(identity, error.decided_by)
        except PlacetError:
            return Reply(text=_AWAY, refusal="away")
        if isinstance(error, AlreadyDecided) and own:
            same = button.action == error.decision
            return Reply(text=card.state, card=card, recorded=same, refusal=_conflict(not same))
        if isinstance(error, AlreadyDecided | NotPending):
            text = f"Too late, you decided nothing. {card.state}"
        else:
            text = _CHANGED if isinstance(error, ChangedSinceSeen) else f"Nothing was decided: {error}"
        return Reply(text=text, card=card, refusal="conflict")

    async def _is(self, identity: str, reviewer: str) -> bool:
        found = await self._placet.reviewer(identity)
        return found is not None and found.id == reviewer


def _conflict(there: bool) -> Refusal | None:
    return "conflict" if there else None


def _check_action(button: Button, decision: Mapping[str, Any]) -> None:
    """Refuse a decision of another type than the button's.

    Raises:
        InvalidDecision: when it is.
    """
    if decision.get("type") != button.action:
        message = f"must be {button.action!r}, as the button says"
        raise InvalidDecision([{"path": "/type", "message": message}])


def _check_as_drawn(button: Button, card: Card) -> None:
    """Refuse a button of a card that is not what is asked now.

    Raises:
        AlreadyDecided, NotPending, ChangedSinceSeen: when it is so.
    """
    from ..approvals.decisions import check_open  # noqa: PLC0415 - loads jsonschema when it is used

    check_open(card.approval, button.digest)
