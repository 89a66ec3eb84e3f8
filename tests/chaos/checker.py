"""Checks the evidence against every invariant, and tells what it comes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import decision_invariants as decisions
from . import run_invariants as runs
from . import thread_invariants as threads
from .takeovers import takeovers
from .violation import Violation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .evidence import Evidence

INVARIANTS = (
    decisions.one_decision_one_resume,
    decisions.a_rejected_call_never_runs,
    decisions.what_a_reviewer_saw_is_what_runs,
    decisions.a_refused_answer_changes_nothing,
    decisions.an_acknowledged_answer_is_never_lost,
    decisions.an_unknown_outcome_is_not_silently_run_again,
    decisions.nothing_starts_after_the_end,
    decisions.outcomes_are_told_as_they_were,
    runs.a_waiting_run_holds_nothing,
    runs.errors_stay_inside,
    runs.every_run_ends,
    runs.a_cancelled_run_never_succeeds,
    runs.one_run_of_a_thread_at_a_time,
    runs.records_agree,
    threads.history_is_linear,
    threads.every_message_is_there_once,
    threads.every_call_has_one_result,
    threads.results_are_those_of_the_tools,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a trial came to."""

    runs: int
    faults: int
    seed: int
    violations: Sequence[Violation]
    longest_takeover_ms: int
    """Of the runs of killed workers, where nothing else was broken meanwhile."""
    takeovers: int
    """How many those are."""
    longest_disturbed_takeover_ms: int
    two_leases_ms: int

    def count(self, figure: str) -> int:
        """How many things are wrong of one kind, each run or call once."""
        return len({(one.run, one.text) for one in self.violations if one.figure == figure})

    def figures(self) -> dict[str, int]:
        """The counts, as `--json` prints them."""
        counted = ("lost_runs", "lost_decisions", "rejected_ran", "started_twice")
        return {
            "runs": self.runs,
            "faults": self.faults,
            "seed": self.seed,
            "violations": len(self.violations),
            **{figure: self.count(figure) for figure in counted},
            "longest_takeover_ms": self.longest_takeover_ms,
            "two_leases_ms": self.two_leases_ms,
            "takeovers": self.takeovers,
            "longest_disturbed_takeover_ms": self.longest_disturbed_takeover_ms,
        }


def check(evidence: Evidence) -> Report:
    """Verify each invariant by name."""
    violations = [
        Violation(invariant=invariant.__name__, run=run, text=text, figure=figure)
        for invariant in INVARIANTS
        for run, text, figure in invariant(evidence)
    ]
    taken = list(takeovers(evidence))

    def longest(*, undisturbed: bool) -> int:
        return int(1000 * max((one.seconds for one in taken if one.undisturbed == undisturbed), default=0))

    return Report(
        runs=len(evidence.plan.runs),
        faults=len(evidence.faults),
        seed=evidence.plan.seed,
        violations=violations,
        longest_takeover_ms=longest(undisturbed=True),
        takeovers=sum(one.undisturbed for one in taken),
        longest_disturbed_takeover_ms=longest(undisturbed=False),
        two_leases_ms=int(2000 * evidence.plan.lease_seconds),
    )
