"""What must never break about decisions and the calls they let run: one function an invariant."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from .calls import CLOCK_SECONDS, IDEMPOTENT, calls_of, needless_starts, was_lost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from placet import Approval

    from .evidence import Evidence
    from .violation import Found
    from .witness import Reply

GOES = ("approve", "edit", "answer")
"""Decisions after which the call runs."""
UNCERTAIN = ("StoreUnavailable", "")
"""What a client was told that may have been done or not."""


def one_decision_one_resume(evidence: Evidence) -> Iterator[Found]:
    """The first decision wins, everyone else is told whose it was; an approved call is started once."""
    for approval, replies in _replies(evidence):
        winners = {reply.client for reply in replies if reply.said == "done"}
        if len(winners) > 1:
            yield approval.run_id, f"approval {approval.id} was decided by {sorted(winners)}", ""
        kind = (approval.decision or {}).get("type", "")
        for reply in replies:
            if reply.said == "AlreadyDecided" and reply.detail != f"{approval.decided_by} {kind}":
                text = f"approval {approval.id}: {reply.client} was told {reply.detail!r}"
                yield approval.run_id, f"{text}, it is {approval.decided_by} {kind}", ""
    for call in calls_of(evidence):
        if call.asked_about:
            for before, after in needless_starts(call, evidence.events.get(call.run, ())):
                text = f"{call.key} ({call.tool}) was started under {before.token} and {after.token}"
                yield call.run, text, "started_twice"


def a_rejected_call_never_runs(evidence: Evidence) -> Iterator[Found]:
    """Nor one that is expired, cancelled, superseded, or that nobody was asked about."""
    for call in calls_of(evidence):
        if not call.asked_about:
            continue
        for start in call.starts:
            allowed = [
                one
                for one in call.approvals
                if one.decision is not None
                and one.decision["type"] in GOES
                and one.decided_at is not None
                and one.decided_at.timestamp() <= start.at + CLOCK_SECONDS
            ]
            if not allowed:
                found = [(one.status, one.decision, one.decided_at) for one in call.approvals]
                yield call.run, f"{call.key} ({call.tool}) ran, its requests being {found}", "rejected_ran"
        if call.starts and any(one.outcome == "not_run" for one in call.approvals):
            yield call.run, f"{call.key} ({call.tool}) ran and is said not to have", "rejected_ran"


def nothing_starts_after_the_end(evidence: Evidence) -> Iterator[Found]:
    """A run that has ended or was cancelled starts no tool, but for a worker that had lost it."""
    for call in calls_of(evidence):
        run = evidence.runs.get(call.run)
        if run is None or run.ended_at is None:
            continue
        for start in call.starts:
            late = start.at > run.ended_at.timestamp() + CLOCK_SECONDS
            if late and not was_lost(start.token, evidence.events[run.id]):
                yield run.id, f"{call.key} ({call.tool}) was started after the run's end", "rejected_ran"


def what_a_reviewer_saw_is_what_runs(evidence: Evidence) -> Iterator[Found]:
    """Arguments are those that were approved or the edit's; another digest decides nothing."""
    for reply in evidence.replies:
        if reply.call == "decide" and not reply.sound and reply.said == "done":
            yield reply.run, f"approval {reply.approval} took a decision that does not fit it", ""
    for call in calls_of(evidence):
        expected = {"key": call.key, "amount": call.args["amount"]}
        for approval in call.approvals:
            decision = approval.decision or {}
            if decision.get("type") == "edit":
                expected["amount"] = decision["edited_action"]["args"]["amount"]
            elif decision.get("type") == "answer":
                expected["answer"] = decision["value"]
        for start in call.starts:
            if start.args != expected:
                yield call.run, f"{call.key} ran with {start.args}, not {expected}", ""


def an_acknowledged_answer_is_never_lost(evidence: Evidence) -> Iterator[Found]:
    """It stands in the record, and what it approved has run where the run came to its end."""
    for approval, replies in _replies(evidence):
        for reply in replies:
            if reply.said == "done" and not (
                approval.decided_by == reply.client and _same(reply.given, approval.decision)
            ):
                text = f"approval {approval.id}: {reply.client} was told that {reply.given} is saved"
                holds = f"{approval.status}, {approval.decided_by}: {approval.decision}"
                yield approval.run_id, f"{text}, it is {holds}", "lost_decisions"
    known = set(evidence.approvals)
    for reply in evidence.replies:
        if reply.call == "decide" and reply.said == "done" and reply.approval not in known:
            yield reply.run, f"approval {reply.approval} was decided and is not there", "lost_decisions"
    for call in calls_of(evidence):
        decided = [one for one in call.approvals if (one.decision or {}).get("type") in GOES]
        run = evidence.runs.get(call.run)
        given_up = any((one.decision or {}).get("type") == "reject" for one in call.doubts)
        if decided and run is not None and run.status == "success" and not call.starts and not given_up:
            yield call.run, f"{call.key} ({call.tool}) was approved and never ran", "lost_decisions"


def a_refused_answer_changes_nothing(evidence: Evidence) -> Iterator[Found]:
    """What a record holds is what somebody sent that was not refused."""
    for approval, replies in _replies(evidence):
        if approval.decision is not None and not any(
            reply.client == approval.decided_by
            and reply.sound
            and reply.said in ("done", *UNCERTAIN)
            and _same(reply.given, approval.decision)
            for reply in replies
        ):
            text = f"approval {approval.id} holds {approval.decision} of {approval.decided_by}"
            yield approval.run_id, f"{text}, who was refused or never sent it", ""


def an_unknown_outcome_is_not_silently_run_again(evidence: Evidence) -> Iterator[Found]:
    """The same for calls that nobody is asked about beforehand; who need not be asked is not."""
    for call in calls_of(evidence):
        for doubt in call.doubts:
            if call.tool in (*IDEMPOTENT, "wire"):
                yield call.run, f"{call.key} ({call.tool}): {doubt.id} asks what is declared already", ""
        if not call.asked_about:
            for before, after in needless_starts(call, evidence.events.get(call.run, ())):
                text = f"{call.key} ({call.tool}) was started under {before.token} and {after.token}"
                yield call.run, text, "started_twice"


def outcomes_are_told_as_they_were(evidence: Evidence) -> Iterator[Found]:
    """A call that is said to have succeeded did."""
    for call in calls_of(evidence):
        for approval in call.approvals:
            done = (approval.decision or {}).get("type") in GOES
            if done and approval.outcome == "succeeded" and not call.rows("end"):
                yield call.run, f"{call.key} ({call.tool}) is said to have succeeded and did not end", ""


def _replies(evidence: Evidence) -> Iterator[tuple[Approval, list[Reply]]]:
    """Requests with what was said about them; without those that were asked anew."""
    replies = defaultdict(list)
    for reply in evidence.replies:
        if reply.call == "decide":
            replies[reply.approval].append(reply)
    for approval in evidence.approvals.values():
        yield approval, replies[approval.id]


def _same(given: dict[str, Any], saved: dict[str, Any] | None) -> bool:
    """Whether a decision was saved as it was given; an edit's arguments alone are made a whole action."""
    if saved is None or given.get("type") != saved.get("type"):
        return False
    if given["type"] == "edit":
        wanted = given.get("args") or given["edited_action"]["args"]
        return bool(wanted == saved["edited_action"]["args"])
    return given == {name: saved.get(name) for name in given}
