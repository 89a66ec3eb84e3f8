"""A tool call that a run planned, joined: what the witness saw of it, what people were asked about it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from .deciders import LOSSES, key_of
from .plan import GATED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from placet import Approval
    from placet.state.events import Event

    from .evidence import Evidence
    from .witness import Effect

CLOCK_SECONDS = 0.002
"""The server's times are cut to milliseconds."""
CLAIMS = ("run.started", "run.resumed")
ENDS = (*LOSSES, "run.interrupted", "run.parked", "run.ended")
IDEMPOTENT = frozenset({"count"})
"""Tools that may be started again when the segment that started them was lost, without anyone's word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One planned call; its requests in the order they were made."""

    run: str
    key: str
    tool: str
    args: dict[str, Any]
    effects: Sequence[Effect]
    approvals: Sequence[Approval]
    """Those that let it run."""
    doubts: Sequence[Approval]
    """Those that asked whether it ran."""

    @property
    def asked_about(self) -> bool:
        """Whether it may not run before a person has said so."""
        return self.tool in GATED or self.tool == "ask"

    def rows(self, what: str) -> list[Effect]:
        return [one for one in self.effects if one.what == what]

    @property
    def starts(self) -> list[Effect]:
        return self.rows("start")


def calls_of(evidence: Evidence) -> Iterator[Call]:
    """All planned calls, also those that were never made."""
    effects: dict[str, list[Effect]] = defaultdict(list)
    approvals: dict[str, list[Approval]] = defaultdict(list)
    doubts: dict[str, list[Approval]] = defaultdict(list)
    for effect in evidence.effects:
        effects[effect.key].append(effect)
    for approval in sorted(evidence.approvals.values(), key=lambda one: one.created_at):
        (doubts if approval.kind == "unknown_call" else approvals)[key_of(approval)].append(approval)
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
                    doubts=doubts[key],
                )


def needless_starts(call: Call, events: Sequence[Event]) -> Iterator[tuple[Effect, Effect]]:
    """Starts of a call beyond its first that nothing explains, each with the one before it."""
    for before, after in pairwise(call.starts):
        failed = any(before.at <= one.at <= after.at for one in call.rows("error"))
        lost = before.token != after.token and was_lost(min(before.token, after.token), events)
        said = any(
            one.decision is not None
            and one.decision["type"] == "approve"
            and one.decided_at is not None
            and before.at <= one.decided_at.timestamp() + CLOCK_SECONDS <= after.at + 2 * CLOCK_SECONDS
            for one in call.doubts
        )
        if not failed and not (lost and call.tool in IDEMPOTENT) and not said:
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
