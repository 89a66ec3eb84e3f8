"""What reviewers do: look at requests, follow them, decide."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, get_args

from .approvals.reviewers import Reviewers
from .approvals.watch import ApprovalWatch
from .caller_input import check_decisions, check_filters, check_one_of, checked_id, checked_whole
from .errors import Conflict, InvalidDecision
from .state.approval_stream import ApprovalStream
from .state.approvals import Approvals, ApprovalStatus, CheckedDecision
from .state.cards import Cards
from .state.runs import Runs

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from .approvals.reviewers import Reviewer
    from .dispatch import Dispatcher
    from .errors import Issue
    from .state.approvals import Approval
    from .state.cards import PostedCard
    from .state.connection import Connection

_APPROVAL_STATUSES = (None, *get_args(ApprovalStatus))


class Reviewing:
    """The half of the client that concerns approval requests; `Placet` is both."""

    def __init__(self, *, connection: Connection, dispatcher: Dispatcher) -> None:
        self._connection = connection
        self._dispatcher = dispatcher
        self._runs = Runs(connection)
        self._approvals = Approvals(connection)
        self._cards = Cards(connection)
        self._reviewers = Reviewers(connection.settings.reviewers)
        self._watch = ApprovalWatch(approvals=self._approvals, stream=ApprovalStream(connection))

    async def approvals(
        self,
        *,
        status: ApprovalStatus | None = "pending",
        run_id: str | None = None,
        thread_id: str | None = None,
        agent: str | None = None,
        limit: int = 100,
    ) -> list[Approval]:
        """List approval requests, newest first; `status=None` lists all."""
        check_one_of("status", status, _APPROVAL_STATUSES)
        check_filters(run_id=run_id, thread_id=thread_id, agent=agent)
        checked_whole("limit", limit, least=1)
        return await self._approvals.newest(
            status=status, run_id=run_id, thread_id=thread_id, agent=agent, limit=limit
        )

    async def approval(self, approval_id: str) -> Approval:
        """Read an approval request.

        Raises:
            NotFound: when there is none of that id.
        """
        return await self._approvals.get(checked_id("approval_id", approval_id))

    async def watch_approvals(
        self, *, status: ApprovalStatus | None = "pending", group: str | None = None
    ) -> AsyncGenerator[Approval]:
        """Yield the requests that are pending, oldest first, then each one that something happens to.

        With `status=None` every change of a request is yielded, else those that have that status then.

        Watchers that give the same `group` share the changes between them, from the oldest that the stream
        has kept: each goes to one of them, and to another if that one dies before it asks for the next.
        """
        check_one_of("status", status, _APPROVAL_STATUSES)
        check_filters(group=group)
        changes = self._watch.alone(status) if group is None else self._watch.shared(group, status)
        async with aclosing(changes):
            async for approval in changes:
                yield approval

    async def cards(self, approval_id: str) -> list[PostedCard]:
        """Where a request is shown on chat platforms, and what could not be delivered there."""
        found = await self._cards.of(checked_id("approval_id", approval_id))
        return sorted(found, key=lambda card: card.place)

    async def reviewer(self, name: str) -> Reviewer | None:
        """Find who a reviewer's id or an identity (`slack:U024BE7LH`) stands for; None if nobody.

        Raises:
            InvalidSettings: when what `PLACET_REVIEWERS` names cannot be used.
        """
        return await self._reviewers.find(checked_id("name", name))

    async def may_decide(self, approval: Approval, *, reviewer: str) -> Reviewer:
        """Find out whether a reviewer may decide on a request, and as whom.

        Raises:
            NotAllowed: when not; it says why.
        """
        return await self._reviewers.allowed(checked_id("reviewer", reviewer), approval)

    async def decide(
        self, approval_id: str, decision: Mapping[str, Any], *, reviewer: str, seen: str | None = None
    ) -> Approval:
        """Decide on a request; the first decision wins.

        Args:
            approval_id: The request.
            decision: `{"type": "approve"}`, `{"type": "edit", "edited_action": {"name": …, "args": …}}`,
                `{"type": "reject", "message": …}`, `{"type": "respond", "message": …}`, or
                `{"type": "answer", "value": …}` to a question.
            reviewer: Who decides: a reviewer's id (`alice`), or an identity (`slack:U024BE7LH`). Where
                `PLACET_REVIEWERS` says who reviewers are, it must be one of them.
            seen: Digest of the request as it was shown.

        Raises:
            NotFound: when there is no such request.
            AlreadyDecided: when someone was faster; it says who.
            NotPending: when it is expired, superseded or cancelled.
            ChangedSinceSeen: when `seen` is not the request's digest.
            NotAllowed: when the reviewer is none, or the request's policy keeps it for others.
            ThreadExpired: when the run's checkpoints are gone; it has ended as `error`.
            InvalidDecision: when the decision does not fit; `issues` say where and why. Nothing was saved.
        """
        checked_id("approval_id", approval_id)
        digests = {} if seen is None else {approval_id: seen}
        decided = await self.decide_many({approval_id: decision}, reviewer=reviewer, seen=digests)
        return decided[0]

    async def decide_many(
        self,
        decisions: Mapping[str, Mapping[str, Any]],
        *,
        reviewer: str,
        seen: Mapping[str, str] | None = None,
    ) -> list[Approval]:
        """Decide on several requests (id to decision), all or none; otherwise as `decide`."""
        from .approvals.decisions import check_decision, check_open  # noqa: PLC0415 - loads jsonschema when it is used

        check_decisions(decisions, reviewer=reviewer, seen=seen)
        most_bytes = self._connection.settings.max_decision_bytes
        checked: list[CheckedDecision] = []
        issues: list[Issue] = []
        decided_by = reviewer
        for approval_id, decision in decisions.items():
            approval = await self._approvals.get(approval_id)
            decided_by = (await self._reviewers.allowed(reviewer, approval)).id
            check_open(approval, (seen or {}).get(approval_id))
            try:
                fits = check_decision(approval, decision, most_bytes=most_bytes)
            except InvalidDecision as error:
                prefix = f"/{approval_id}" if len(decisions) > 1 else ""
                issues += [{**issue, "path": prefix + issue["path"]} for issue in error.issues]
            else:
                checked.append(
                    CheckedDecision(approval_id=approval_id, digest=approval.digest, decision=fits)
                )
        if issues:
            raise InvalidDecision(issues)
        decided, wake_ups = await self._approvals.decide(checked, reviewer=decided_by)
        self._dispatcher.send(wake_ups)
        return decided

    async def resume(self, run_id: str, resume: Any, *, reviewer: str) -> list[Approval]:
        """Decide as LangGraph's `Command(resume=…)` does: an answer, or a map of interrupt id to answer.

        Raises:
            Conflict: when the run asks nothing now.
            InvalidDecision: when an answer does not fit, or it is not clear what it answers.
            NotFound, AlreadyDecided, NotPending: as `decide`.
        """
        from .approvals.answers import decisions_of_resume  # noqa: PLC0415 - loads jsonschema when it is used

        checked_id("reviewer", reviewer)
        await self._runs.get(checked_id("run_id", run_id))
        asked = [a for a in await self._approvals.of_pause(run_id) if a.status == "pending"]
        if not asked:
            raise Conflict(f"run {run_id} asks nothing now")
        most_bytes = self._connection.settings.max_decision_bytes
        decisions = decisions_of_resume(asked, resume, most_bytes=most_bytes)
        return await self.decide_many(decisions, reviewer=reviewer)
