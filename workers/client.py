"""The client: enqueue runs, watch them, decide on what they ask."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, get_args
from uuid import uuid4

from .caller_input import (
    MAX_REASON,
    check_filters,
    check_messages,
    check_one_of,
    checked_config,
    checked_id,
    checked_object,
    checked_queue,
    checked_seconds,
    checked_start,
    checked_timeout,
    checked_whole,
)
from .dispatch import Dispatcher
from .encoding import dump_input
from .errors import InvalidInput, NotFound, ThreadExpired, WaitTimeout
from .reviewing import Reviewing
from .settings import Settings
from .state.connection import Connection
from .state.events import Events, resync
from .state.runs import MultitaskStrategy, NewRun, RunStatus
from .state.threads import Threads
from .thread_state import delete_checkpoints, newest_state

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping
    from datetime import datetime, timedelta

    from .state.events import Event
    from .state.runs import Run

Until = Literal["end", "pause"]
_RUN_STATUSES = (None, *get_args(RunStatus))
BLOCK_MS = 2_000
"""How long one blocking read waits: what a lost notification costs at most."""


class Placet(Reviewing):
    """A connection to Placet, for one event loop: `async with Placet.connect() as placet`."""

    def __init__(self, *, connection: Connection, dispatcher: Dispatcher) -> None:
        super().__init__(connection=connection, dispatcher=dispatcher)
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
        multitask_strategy: MultitaskStrategy = "enqueue",
        timeout_seconds: float | None = None,
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
            multitask_strategy: What becomes of runs that are on the thread already, the one that executes
                or waits and those behind it. `enqueue`: this one waits its turn. `reject`: it is refused.
                `interrupt`: they end as `cancelled`, what they did stays, their requests are superseded.
                `rollback`: the same, and the thread goes back to before they began; what their tools did
                is not undone. Not with `start_at`: such a run waits its turn.
            timeout_seconds: What the run may take from its first start, over pauses, retries of a segment
                and crashes, but for the time that it waits for people; then it ends as `timeout`.

        Raises:
            InvalidInput: when an argument is refused; the message names it.
            Conflict: when `run_id` stands for a run with another payload.
            ThreadBusy: when it is rejected; a Conflict that names the run in the way.
            ThreadExpired: when the thread was deleted or has expired: it takes nothing more.
            StoreUnavailable: when Redis does not answer; it may or may not have been created.
        """
        if input is None:
            raise InvalidInput("input", "must not be null; to go on from a pause, decide on its requests")
        if isinstance(input, str | bytes):
            right = '{"messages": [{"role": "user", "content": "…"}]}'
            raise InvalidInput("input", f"must be an object of the agent's input, as {right}, not a text")
        settings = self._connection.settings
        check_messages(input, most=settings.max_messages)
        check_one_of("multitask_strategy", multitask_strategy, get_args(MultitaskStrategy))
        if start_at is not None and multitask_strategy != "enqueue":
            raise InvalidInput("multitask_strategy", "must be enqueue for a run with a start_at")
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
            multitask_strategy=multitask_strategy,
            timeout_ms=checked_timeout("timeout_seconds", timeout_seconds),
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
                told = not events or any(_may_be_there(event) for event in events)

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
        """End a run: at once if no worker executes it, else as soon as its worker hears of it.

        A worker hears within moments, at the next renewal of the lease (a third of it) at the latest. It then
        cancels the segment, and ends the run anyhow if that has not ended within another renewal. Whatever
        else the run comes to meanwhile, it ends as `cancelled`.

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


def _there(run: Run, until: Until) -> bool:
    return run.ended or (until == "pause" and run.status == "interrupted")


def _may_be_there(event: Event) -> bool:
    return event.type.startswith("run.") and event.type not in ("run.started", "run.resumed")
