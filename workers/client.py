"""The client: enqueue runs, watch them, decide on what they ask."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, get_args
from uuid import uuid4

from .approval_watch import ApprovalWatch
from .caller_input import (
    MAX_REASON,
    check_decisions,
    check_filters,
    check_messages,
    check_one_of,
    checked_config,
    checked_id,
    checked_object,
    checked_queue,
    checked_seconds,
    checked_start,
    checked_whole,
)
from .dispatch import Dispatcher
from .encoding import dump_input
from .errors import Conflict, InvalidDecision, InvalidInput, NotFound, ThreadExpired, WaitTimeout
from .settings import Settings
from .state.approval_stream import ApprovalStream
from .state.approvals import Approvals, ApprovalStatus, CheckedDecision
from .state.connection import Connection
from .state.events import Events, resync
from .state.runs import NewRun, Runs, RunStatus
from .state.threads import Threads
from .thread_state import delete_checkpoints, newest_state

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping
    from datetime import datetime, timedelta

    from .errors import Issue
    from .state.approvals import Approval
    from .state.events import Event
    from .state.runs import Run

Until = Literal["end", "pause"]
_RUN_STATUSES = (None, *get_args(RunStatus))
_APPROVAL_STATUSES = (None, *get_args(ApprovalStatus))
BLOCK_MS = 2_000
"""How long one blocking read waits: what a lost notification costs at most."""


class Placet:
    """A connection to Placet, for one event loop: `async with Placet.connect() as placet`."""

    def __init__(self, *, connection: Connection, dispatcher: Dispatcher) -> None:
        self._connection = connection
        self._dispatcher = dispatcher
        self._runs = Runs(connection)
        self._approvals = Approvals(connection)
        self._watch = ApprovalWatch(approvals=self._approvals, stream=ApprovalStream(connection))
        self._events = Events(connection)
        self._threads = Threads(connection)

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        redis_url: str | None = None,
        *,
        broker_url: str | None = None,
        settings: Settings | None = None,
    ) -> AsyncIterator[Placet]:
        """Connect; what is not given comes from `PLACET_REDIS_URL`, `PLACET_BROKER_URL` and the like.

        Raises:
            InvalidSettings: when a setting cannot be used.
        """
        settings = settings or Settings.from_env(redis_url=redis_url, broker_url=broker_url)
        async with Connection.open(settings) as connection:
            dispatcher = Dispatcher(settings=settings)
            try:
                yield cls(connection=connection, dispatcher=dispatcher)
            finally:
                if not connection.forked:
                    await dispatcher.aclose()

    async def enqueue(
        self,
        agent: str,
        input: Any,  # noqa: A002 - LangGraph's own word
        *,
        thread_id: str | None = None,
        run_id: str | None = None,
        config: Mapping[str, Any] | None = None,
        context: Any = None,
        metadata: Mapping[str, Any] | None = None,
        principal: str | None = None,
        queue: str = "",
        start_at: datetime | timedelta | None = None,
    ) -> Run:
        """Create a run and return it; it is kept once this returns, whether the broker is up or not.

        The same `run_id` with the same payload is the same run: after a failure it can be enqueued again.

        Args:
            agent: Name of an agent in the workers' `langgraph.json`.
            input: The graph's input, as JSON values (messages as dicts or message objects).
            thread_id: The conversation; a new one if None. One run at a time executes on it.
            run_id: The run's id; made up if None.
            config: LangGraph's `configurable`, `tags`, `metadata`, `recursion_limit`, `run_name`,
                `max_concurrency`; keys that steer LangGraph or Placet themselves are refused.
            context: The graph's context, as JSON values.
            metadata: Yours, kept with the run.
            principal: The end user on whose behalf it runs.
            queue: The Celery queue, by default the first that this process is set to.
            start_at: When it may start, or in how long; at most ten years ahead.

        Raises:
            InvalidInput: when an argument is refused; the message names it.
            Conflict: when `run_id` stands for a run with another payload.
            ThreadExpired: when the thread was deleted or has expired: it takes nothing more.
            StoreUnavailable: when Redis does not answer; it may or may not have been created.
        """
        if input is None:
            raise InvalidInput("input", "must not be null; to go on from a pause, decide on its requests")
        settings = self._connection.settings
        check_messages(input, most=settings.max_messages)
        new = NewRun(
            id=checked_id("run_id", uuid4().hex if run_id is None else run_id),
            thread_id=checked_id("thread_id", uuid4().hex if thread_id is None else thread_id),
            agent=checked_id("agent", agent),
            queue=checked_queue(settings.queue_names[0] if queue == "" else queue),
            input=dump_input("input", input, settings),
            config=dump_input("config", checked_config(config), settings),
            context=dump_input("context", context, settings),
            metadata=dump_input(
                "metadata", checked_object("metadata", {} if metadata is None else metadata), settings
            ),
            principal=None if principal is None else checked_id("principal", principal),
            start_at=checked_start(start_at),
        )
        _, wake_ups = await self._runs.enqueue(new)
        self._dispatcher.send(wake_ups)
        return await self._runs.get(new.id)

    async def get(self, run_id: str) -> Run:
        """Read a run.

        Raises:
            NotFound: when there is none of that id.
        """
        return await self._runs.get(checked_id("run_id", run_id))

    async def runs(
        self,
        *,
        status: RunStatus | None = None,
        agent: str | None = None,
        thread_id: str | None = None,
        limit: int = 100,
    ) -> list[Run]:
        """List runs, newest first, without their input, config, context and result, which `get` reads."""
        check_one_of("status", status, _RUN_STATUSES)
        check_filters(agent=agent, thread_id=thread_id)
        checked_whole("limit", limit, least=1)
        return await self._runs.newest(status=status, agent=agent, thread_id=thread_id, limit=limit)

    async def wait(
        self,
        run_id: str,
        *,
        until: Until = "end",
        timeout: float | timedelta | None = None,  # noqa: ASYNC109
    ) -> Run:
        """Wait for a run to end, or (`until="pause"`) to ask a person or end.

        Raises:
            NotFound: when there is none of that id.
            WaitTimeout: after `timeout` (seconds, or a timedelta).
        """
        check_one_of("until", until, get_args(Until))
        checked_id("run_id", run_id)
        seconds = checked_seconds("timeout", timeout)
        try:
            async with asyncio.timeout(seconds):
                return await self._wait(run_id, until)
        except TimeoutError:
            raise WaitTimeout(run_id, seconds or 0) from None

    async def _wait(self, run_id: str, until: Until) -> Run:
        position = -1
        while True:
            run = await self._runs.get(run_id)
            if _there(run, until):
                return run
            position = max(position, run.last_event)
            told = False
            while not told:
                events = await self._events.after(run_id, position, block_ms=BLOCK_MS)
                position = events[-1].id if events else position
                told = not events or any(event.type.startswith("run.") for event in events)

    async def stream(
        self, run_id: str, *, after: int | None = None, until: Until = "end"
    ) -> AsyncGenerator[Event, None]:
        """Yield a run's events, past ones first, over all its pauses, up to its end (or its next pause).

        `after` is the id of the last event that was seen. Events that were trimmed meanwhile are told by a
        `resync` event: read the run and go on.

        Raises:
            NotFound: when there is none of that id.
        """
        check_one_of("until", until, get_args(Until))
        checked_id("run_id", run_id)
        position = checked_whole("after", 0 if after is None else after, least=0)
        while True:
            run = await self._runs.get(run_id)
            # ends and pauses in its past do not count: it may have been retried, or resumed
            there = _there(run, until)
            if there and position >= run.last_event:
                return
            events = await self._events.after(run_id, position, block_ms=1 if there else BLOCK_MS)
            if not events and there:
                events = [resync(run, position)]
            for event in events:
                position = event.id
                yield event

    async def cancel(self, run_id: str, *, reason: str = "cancelled") -> Run:
        """End a run: at once if no worker executes it, else at its next renewal of the lease.

        Raises:
            NotFound: when there is none of that id.
            Conflict: when it has ended.
        """
        checked_id("run_id", run_id)
        checked_id("reason", reason, most=MAX_REASON)
        self._dispatcher.send(await self._runs.cancel(run_id, reason=reason))
        return await self._runs.get(run_id)

    async def retry(self, run_id: str) -> Run:
        """Let a run that ended as `error` or `timeout` go on from its last checkpoint.

        Raises:
            NotFound: when there is none of that id.
            Conflict: when it did not fail, or its thread has gone on without it.
        """
        self._dispatcher.send(await self._runs.retry(checked_id("run_id", run_id)))
        return await self._runs.get(run_id)

    async def state(self, thread_id: str) -> dict[str, Any]:
        """A thread's newest state, as JSON values: `values`, `checkpoint_id`, `created_at`, `run_id`.

        Raises:
            NotFound: when the thread has no checkpoint.
            ThreadExpired: when it had one, and was deleted or has expired.
        """
        if (found := await newest_state(self._connection, checked_id("thread_id", thread_id))) is None:
            why = await self._threads.gone(thread_id)
            raise ThreadExpired(thread_id, why) if why else NotFound("thread", thread_id)
        return found

    async def delete_thread(self, thread_id: str) -> None:
        """Cancel a thread's runs and requests and remove its checkpoints; late answers are told so.

        Where the checkpointer is not Placet's own, a segment under way may still write some: delete again.

        Raises:
            NotFound: when nothing is known of it.
        """
        self._dispatcher.send(await self._threads.delete(checked_id("thread_id", thread_id)))
        await delete_checkpoints(self._connection, thread_id)

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
        changes = self._watch.alone() if group is None else self._watch.shared(group)
        async with aclosing(changes):
            async for approval in changes:
                if status in (None, approval.status):
                    yield approval

    async def decide(
        self, approval_id: str, decision: Mapping[str, Any], *, reviewer: str, seen: str | None = None
    ) -> Approval:
        """Decide on a request; the first decision wins.

        Args:
            approval_id: The request.
            decision: `{"type": "approve"}`, `{"type": "edit", "edited_action": {"name": …, "args": …}}`,
                `{"type": "reject", "message": …}`, `{"type": "respond", "message": …}`, or
                `{"type": "answer", "value": …}` to a question.
            reviewer: Who decides.
            seen: Digest of the request as it was shown.

        Raises:
            NotFound: when there is no such request.
            AlreadyDecided: when someone was faster; it says who.
            NotPending: when it is expired, superseded or cancelled.
            ChangedSinceSeen: when `seen` is not the request's digest.
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
        from .decisions import check_decision, check_open  # noqa: PLC0415 - loads jsonschema when it is used

        check_decisions(decisions, reviewer=reviewer, seen=seen)
        most_bytes = self._connection.settings.max_decision_bytes
        checked: list[CheckedDecision] = []
        issues: list[Issue] = []
        for approval_id, decision in decisions.items():
            approval = await self._approvals.get(approval_id)
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
        self._dispatcher.send(await self._approvals.decide(checked, reviewer=reviewer))
        return [await self._approvals.get(one.approval_id) for one in checked]

    async def resume(self, run_id: str, resume: Any, *, reviewer: str) -> list[Approval]:
        """Decide as LangGraph's `Command(resume=…)` does: an answer, or a map of interrupt id to answer.

        Raises:
            Conflict: when the run asks nothing now.
            InvalidDecision: when an answer does not fit, or it is not clear what it answers.
            NotFound, AlreadyDecided, NotPending: as `decide`.
        """
        from .answers import decisions_of_resume  # noqa: PLC0415 - loads jsonschema when it is used

        checked_id("reviewer", reviewer)
        await self._runs.get(checked_id("run_id", run_id))
        asked = [a for a in await self._approvals.of_pause(run_id) if a.status == "pending"]
        if not asked:
            raise Conflict(f"run {run_id} asks nothing now")
        most_bytes = self._connection.settings.max_decision_bytes
        decisions = decisions_of_resume(asked, resume, most_bytes=most_bytes)
        return await self.decide_many(decisions, reviewer=reviewer)


def _there(run: Run, until: Until) -> bool:
    return run.ended or (until == "pause" and run.status == "interrupted")
