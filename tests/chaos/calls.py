"""A tool call that a run planned, joined: what the witness saw of it, what people were asked about it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from .deciders import key_of
from .plan import GATED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from placet import Approval
    from placet.state.events import Event

    from .evidence import Evidence
    from .witness import Effect

CLAIMS = ("run.started", "run.resumed")
LOSSES = ("run.recovered", "run.given_back")
"""How a segment ends that its worker did not bring to a pause or an end."""
ENDS = (*LOSSES, "run.interrupted", "run.parked", "run.ended")
RUNS_AGAIN = frozenset({"pay", "mail", "flaky", "look_up", "ask"})
"""Tools that may be started again when the segment that started them was lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One planned call; its approval requests in the order they were made."""

    run: str
    key: str
    tool: str
    args: dict[str, Any]
    effects: Sequence[Effect]
    approvals: Sequence[Approval]

    @property
    def asked_about(self) -> bool:
        """Whether it may not run before a person has said so."""
        return self.tool in GATED or self.tool == "ask"

    def rows(self, what: str) -> list[Effect]:
        return [one for one in self.effects if one.what == what]

    @property
    def starts(self) -> list[Effect]:
        """In the order of the leases under which they were made."""
        return sorted(self.rows("start"), key=lambda one: (one.token, one.at))


def calls_of(evidence: Evidence) -> Iterator[Call]:
    """All planned calls, also those that were never made."""
    effects, approvals = defaultdict(list), defaultdict(list)
    for effect in evidence.effects:
        effects[effect.key].append(effect)
    for approval in sorted(evidence.approvals.values(), key=lambda one: one.created_at):
        approvals[key_of(approval)].append(approval)
    for run in evidence.plan.runs:
        for step in run.steps:
            for one in step:
                key = one["args"]["key"]
                yield Call(
                    run=run.id,
                    key=key,
                    tool=one["tool"],
                    args=one["args"],
                    effects=effects[key],
                    approvals=approvals[key],
                )


def needless_starts(call: Call, events: Sequence[Event]) -> Iterator[tuple[Effect, Effect]]:
    """Starts of a call beyond its first that nothing explains, each with the one before it."""
    for before, after in pairwise(call.starts):
        failed = any(one.token == before.token and one.at <= after.at for one in call.rows("error"))
        lost = before.token != after.token and was_lost(before.token, events) and call.tool in RUNS_AGAIN
        if not failed and not lost:
            yield before, after


def was_lost(token: int, events: Sequence[Event]) -> bool:
    """Whether the segment of that token was taken from its worker.

    A token is the server's milliseconds at the claim, or a little more where several came at once.
    """
    ended = ""
    for event in events:
        # rounded: the times of events went through floating-point seconds
        if event.type in CLAIMS and round(event.at.timestamp() * 1000) <= token:
            ended = ""
        elif event.type in CLAIMS:
            break
        elif event.type in ENDS and not ended:
            ended = event.type
    return ended in LOSSES
