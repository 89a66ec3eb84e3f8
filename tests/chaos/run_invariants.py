"""What must never break about runs and threads: one function an invariant, it yields what it finds."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from .deciders import LOSSES
from .decision_invariants import UNCERTAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .evidence import Evidence
    from .plan import PlannedRun
    from .violation import Found

_STOPPED = re.compile(r"(interrupted|rolled back) by run (.+)")
_WORDS = {"interrupted": "interrupt", "rolled back": "rollback"}


def every_run_ends(evidence: Evidence) -> Iterator[Found]:
    """A run that was taken on is there and has ended; as an error, none of these does."""
    for planned in evidence.plan.runs:
        run = evidence.runs.get(planned.id)
        if run is None and _refused(evidence, planned.id):
            continue
        if run is None:
            yield planned.id, "was enqueued and is not there", "lost_runs"
        elif not run.ended:
            yield run.id, f"has not ended: {run.status}, last event {run.last_event}", "lost_runs"
        elif run.status not in ("success", "cancelled") and not _doubted(evidence, planned):
            yield run.id, f"ended as {run.status}: {run.error}", "lost_runs"
        elif run.ended:
            ends = [event.type for event in evidence.events[run.id]].count("run.ended")
            if ends != 1 or evidence.events[run.id][-1].type != "run.ended":
                yield run.id, f"ended {ends} times, or went on afterwards", ""


def _doubted(evidence: Evidence, planned: PlannedRun) -> bool:
    """Whether it ended because a call of `wire` was cut off, which is declared to end the run."""
    run = evidence.runs[planned.id]
    lost = any(event.type in LOSSES for event in evidence.events[run.id])
    wires = any(one["tool"] == "wire" for step in planned.steps for one in step)
    return lost and wires and run.error is not None and run.error["type"] == "OutcomeUnknown"


def _refused(evidence: Evidence, run: str) -> bool:
    """Whether its thread was busy and it was to be rejected then."""
    return any(one.run == run and one.said == "ThreadBusy" for one in evidence.replies)


def a_cancelled_run_never_succeeds(evidence: Evidence) -> Iterator[Found]:
    """Who was told that a run is being cancelled finds it cancelled; others are not, but to make way."""
    strategies = {run.id: run.strategy for run in evidence.plan.runs}
    cancels = defaultdict(set)
    for reply in evidence.replies:
        if reply.call == "cancel":
            cancels[reply.run].add(reply.said)
    for run in evidence.runs.values():
        if "done" in cancels[run.id] and run.ended and run.status != "cancelled":
            yield run.id, f"was cancelled and ended as {run.status}", ""
        stopped_by = _STOPPED.match(run.reason)
        made_way = stopped_by is not None and strategies.get(stopped_by[2]) == _WORDS[stopped_by[1]]
        if run.status == "cancelled" and not made_way and not cancels[run.id] & {"done", *UNCERTAIN}:
            yield run.id, f"is cancelled, nobody having been told so: {run.reason}", "lost_runs"


def a_waiting_run_holds_nothing(evidence: Evidence) -> Iterator[Found]:
    """When all is quiet no worker executes anything."""
    if evidence.active:
        yield "", f"{evidence.active} segments are said to be under execution when all is quiet", ""


def errors_stay_inside(evidence: Evidence) -> Iterator[Found]:
    """No exception of the product's reaches Celery, whatever was away meanwhile."""
    for line in evidence.raised:
        yield "", line, ""


def one_run_of_a_thread_at_a_time(evidence: Evidence) -> Iterator[Found]:
    """A run starts when the one before it on the thread has ended."""
    threads = defaultdict(list)
    for run in evidence.runs.values():
        if run.started_at is not None:
            threads[run.thread_id].append(run)
    for runs in threads.values():
        for first, second in pairwise(sorted(runs, key=lambda run: (run.started_at, run.id))):
            if first.ended_at is None or second.started_at is None or first.ended_at > second.started_at:
                yield second.id, f"started before {first.id} of its thread had ended", ""


def records_agree(evidence: Evidence) -> Iterator[Found]:
    """All records and indexes of the store say the same."""
    if evidence.disagreement:
        yield "", evidence.disagreement, ""
