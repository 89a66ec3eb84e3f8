"""A run's events: one Redis stream a run, numbered without gaps, over all its pauses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from ..compact import load_json
from .connection import moment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from .connection import Connection
    from .runs import Run

EventType = Literal[
    "run.enqueued",
    "run.started",
    "run.resumed",
    "run.interrupted",
    "run.parked",
    "run.given_back",
    "run.recovered",
    "run.incompatible",
    "run.ended",
    "run.retried",
    "approval.decided",
    "approval.reopened",
    "updates",
    "messages",
    "custom",
    "cut",
    "resync",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened to a run.

    `run.interrupted` lists the pause under `data["interrupts"]`: id, value and response schema, and
    the approval requests made of it. `cut` stands for an event that was too large, and says its type, its
    size in bytes and how it begins. `resync` means that events before it were trimmed: read the run.
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


class Events:
    """Reads runs' event streams; the scripts write them."""

    def __init__(self, connection: Connection) -> None:
        self._c = connection

    async def after(self, run_id: str, position: int, *, block_ms: int) -> list[Event]:
        """Events past `position`, waiting for the first; a gap is told by a leading `resync` event."""
        key = self._c.keys("run_events", run_id)
        reply = await self._c.read(self._c.blocking.xread({key: f"{position}-0"}, count=500, block=block_ms))
        events = [event_of(run_id, at, fields) for at, fields in (reply[0][1] if reply else [])]
        if events and events[0].id > position + 1:
            first = events[0]
            missed = {"missed": first.id - 1 - position}
            events.insert(0, replace(first, id=first.id - 1, type="resync", data=missed, ns=(), pid=None))
        return events


def resync(run: Run, position: int) -> Event:
    """Tell a reader at `position` that all events up to the run's newest are gone."""
    return Event(
        id=run.last_event,
        run_id=run.id,
        type="resync",
        data={"missed": run.last_event - position},
        at=run.updated_at,
        attempt=run.attempt,
    )


def event_of(run_id: str, position: bytes, fields: Mapping[bytes, bytes]) -> Event:
    """Read one entry of a run's stream."""
    text = {name.decode(): value.decode() for name, value in fields.items() if name != b"data"}
    return Event(
        id=int(position.split(b"-")[0]),
        run_id=run_id,
        type=cast("EventType", text["type"]),
        data=load_json(fields[b"data"]),
        at=moment(text["at"]),
        attempt=int(text["attempt"]),
        ns=tuple(text["ns"].split("|")) if text["ns"] else (),
        pid=int(text["pid"]) if text["pid"] else None,
    )
