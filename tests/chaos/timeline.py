"""What happened around a violation, in the order in which it happened."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .checker import Report
    from .evidence import Evidence

_MOST_TIMELINES = 5
_SHOWN = ("run.", "approval.")
_AROUND_SECONDS = 5.0
_MOST_LINES = 80
_MOST_TEXT = 160


def explain(report: Report, evidence: Evidence) -> str:
    """Every violation by name, with the seed, and the timelines of the first runs."""
    lines = [f"seed {report.seed}: {len(report.violations)} violations"]
    lines += [f"{one.invariant}: {one.run} {one.text}" for one in report.violations]
    runs = list(dict.fromkeys(one.run for one in report.violations if one.run))
    for run_id in runs[:_MOST_TIMELINES]:
        lines += ["", f"timeline of {run_id} (seed {report.seed})", *timeline(evidence, run_id)]
    return "\n".join(lines)


def timeline(evidence: Evidence, run: str) -> list[str]:
    """A line each: the run's events, its tools' rows, what clients were told, the faults around it."""
    lines = sorted({*_events(evidence, run), *_effects(evidence, run), *_replies(evidence, run)})
    if lines:
        begin, end = lines[0][0] - _AROUND_SECONDS, lines[-1][0] + _AROUND_SECONDS
        lines = sorted([*lines, *_faults(evidence, begin, end)])
    shown = [f"{datetime.fromtimestamp(at, UTC):%H:%M:%S.%f} {text[:_MOST_TEXT]}" for at, text in lines]
    if len(shown) > _MOST_LINES:
        cut = len(shown) - _MOST_LINES
        shown = [*shown[: _MOST_LINES // 2], f"… {cut} lines …", *shown[-_MOST_LINES // 2 :]]
    return shown


def _events(evidence: Evidence, run: str) -> Iterator[tuple[float, str]]:
    for event in evidence.events.get(run, ()):
        if event.type.startswith(_SHOWN):
            about = {name: value for name, value in event.data.items() if name != "interrupts"}
            pid = f" pid {event.pid}" if event.pid else ""
            yield event.at.timestamp(), f"event {event.id} {event.type}{pid} {json.dumps(about)}"


def _effects(evidence: Evidence, run: str) -> Iterator[tuple[float, str]]:
    for one in evidence.effects:
        if one.run == run:
            text = f"tool {one.what} {one.tool} {one.key} ({one.call}) pid {one.pid} token {one.token}"
            yield one.at, f"{text} {json.dumps(one.args)}"


def _replies(evidence: Evidence, run: str) -> Iterator[tuple[float, str]]:
    for one in evidence.replies:
        if one.run == run:
            about = f"{one.approval} {json.dumps(one.given)} " if one.approval else ""
            yield one.began, f"{one.client} {one.call} {about}-> {one.said or 'died first'} {one.detail}"


def _faults(evidence: Evidence, begin: float, end: float) -> Iterator[tuple[float, str]]:
    for one in evidence.faults:
        if one.began <= end and one.ended >= begin:
            yield one.began, f"FAULT {one.kind} pid {one.pid} {one.detail}, {one.ended - one.began:.1f} s"
