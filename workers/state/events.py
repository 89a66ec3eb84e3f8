"""A run's events: one Redis stream a run, numbered without gaps, over all its pauses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from datetime import datetime

EventType = Literal[
    "run.enqueued",
    "run.started",
    "run.resumed",
    "run.interrupted",
    "run.parked",
    "run.given_back",
    "run.recovered",
    "run.ended",
    "run.retried",
    "approval.decided",
    "approval.reopened",
    "updates",
    "messages",
    "custom",
    "resync",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened to a run.

    `run.interrupted` lists the pause under `data["interrupts"]`: id, value and response schema, and
    the approval requests made of it. `resync` means that events before it were trimmed: read the run.
    """

    id: int
    """Position in the run, from 1; pass it as `after` to go on from here."""
    run_id: str
    type: EventType
    data: Any
    at: datetime
    attempt: int
    """Of the segment it came from: events of an attempt that died may be seen again in the next."""
    ns: tuple[str, ...] = ()
    """The subgraph it came from, outermost first; empty for the agent itself."""
    pid: int | None = None
    """The process that caused it, None where a script of the store did."""
