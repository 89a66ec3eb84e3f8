"""How long the runs of a killed worker took to be claimed elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .calls import CLAIMS, ENDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from placet.state.events import Event

    from .evidence import Evidence
    from .witness import FaultSeen

_HARMLESS = frozenset({"kill_decider", "flush_scripts", "repeat_messages"})
_AFTERMATH_SECONDS = 4.0
"""How long after a fault connections are still made anew and wake-ups sent again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """One run of one killed worker."""

    run: str
    pid: int
    seconds: float
    undisturbed: bool
    """Whether nothing else was broken meanwhile."""


def takeovers(evidence: Evidence) -> Iterator[Takeover]:
    """All of them; runs that were cancelled in place of being claimed are left out."""
    for fault in evidence.faults:
        if fault.kind == "kill_worker":
            for run, events in evidence.events.items():
                claimed = _claimed(events, fault)
                if claimed is not None:
                    yield Takeover(
                        run=run,
                        pid=fault.pid,
                        seconds=claimed - fault.began,
                        undisturbed=not any(
                            _meets(other, fault.began, claimed)
                            for other in evidence.faults
                            if other is not fault and other.kind not in _HARMLESS
                        ),
                    )


def _claimed(events: Sequence[Event], fault: FaultSeen) -> float | None:
    """When a run that the worker held as it was killed was claimed again."""
    held = False
    for event in events:
        at = event.at.timestamp()
        if at <= fault.began:
            if event.type in CLAIMS:
                held = event.pid == fault.pid
            elif event.type in ENDS:
                held = False
        elif held and event.type in CLAIMS:
            return at
        elif held and event.type in ENDS and event.type != "run.recovered":
            return None  # its last words were still on the way
    return None


def _meets(other: FaultSeen, began: float, ended: float) -> bool:
    return other.began <= ended and other.ended + _AFTERMATH_SECONDS >= began
