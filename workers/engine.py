"""Executes segments: claims a run, drives its graph, keeps its lease, commits what it came to."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog
from langgraph.errors import GraphDrained

from .encoding import dump_shown
from .errors import (
    IncompatibleGraph,
    LeaseLost,
    PlacetError,
    RetryableError,
    UnknownAgent,
    UnreadableCheckpoint,
)
from .fingerprint import fingerprint
from .segment import Finished, Paused, Segment, graph_config

if TYPE_CHECKING:
    from .dispatch import Dispatcher
    from .factories import Graph
    from .graphs import Agents
    from .settings import Settings
    from .state.approvals import Approvals
    from .state.leases import Claim, Leases
    from .state.runs import RunError

log = structlog.get_logger("placet")

CANCEL, LOST, STOP = "cancelled", "lease lost", "worker stops"
CANCEL_TIMES, CANCEL_SECONDS = 3, 4.0
"""How often a stopping worker cancels what does not end, and how long it waits for that each time."""
MOST_ERROR_TEXT = 10_000
"""Characters of an exception's text that are kept with its run."""


@dataclass(slots=True, kw_only=True)
class _Held:
    """A claim under execution."""

    claim: Claim
    task: asyncio.Task[Any]
    segment: Segment | None = None
    why_cancelled: str = ""
    committing: bool = False
    """Its outcome is on the way to the store: too late to cancel, the script there knows better."""


class Engine:
    """All segments of one worker process, on one event loop."""

    def __init__(
        self,
        *,
        agents: Agents,
        leases: Leases,
        approvals: Approvals,
        dispatcher: Dispatcher,
        settings: Settings,
    ) -> None:
        self._agents = agents
        self._leases = leases
        self._approvals = approvals
        self._dispatcher = dispatcher
        self._settings = settings
        self._held: dict[str, _Held] = {}
        self._stopping = False
        self.started = 0
        """Segments started so far."""

    @property
    def active(self) -> int:
        """Segments under execution."""
        return len(self._held)

    async def execute(self, run_id: str) -> str:
        """Execute a run's next segment if there is something to do; says what came of it."""
        while (held := self._held.get(run_id)) and held.committing:
            # its pause is in the store, and answered there, before the reply of the commit is here
            await asyncio.wait([held.task])
        if self._stopping or held:
            return "stopping" if self._stopping else "busy"
        claim, why, wake_ups = await self._leases.claim(run_id)
        self._dispatcher.send(wake_ups)
        if claim is None:
            return why
        self.started += 1
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        held = self._held[run_id] = _Held(claim=claim, task=task)
        names = {"run_id": run_id, "thread_id": claim.run.thread_id, "attempt": claim.run.attempt}
        try:
            with structlog.contextvars.bound_contextvars(**names):
                return await self._execute(held)
        finally:
            del self._held[run_id]

    async def _execute(self, held: _Held) -> str:
        log.info("run.claimed", agent=held.claim.run.agent, segment=held.claim.run.segment)
        try:
            if self._stopping:
                return await self._give_back(held, reason=STOP, count_attempt=False)
            return await self._driven(held)
        except LeaseLost:
            log.warning("run.lost")
            return LOST
        except IncompatibleGraph as error:
            return await self._leave(held, why=str(error))
        except RetryableError as error:
            return await self._give_back(held, reason=str(error), count_attempt=True)

    async def _driven(self, held: _Held) -> str:
        """Drive the run and commit what it came to, an agent's error or a cancellation too."""
        try:
            return await self._drive(held)
        except asyncio.CancelledError:
            return await self._cancelled(held)
        except GraphDrained:
            return await self._give_back(held, reason=STOP, count_attempt=False)
        except RetryableError:
            raise
        except BaseException as error:
            # whatever an agent raises, `sys.exit` too, ends its run as data; only the log has the traceback
            if not isinstance(error, PlacetError):
                log.exception("run.failed")
            return await self._finish(held, "error", error=run_error(error), reason="an error ended the run")

    async def _drive(self, held: _Held) -> str:
        claim = held.claim
        await self._check_known(claim)
        opened = self._agents.open(claim.run.agent, graph_config(claim), context=claim.run.context)
        async with opened as graph:
            held.segment = Segment(claim=claim, graph=graph, leases=self._leases, approvals=self._approvals)
            if self._stopping:
                held.segment.control.request_drain()
            try:
                end = await held.segment.drive()
            except UnreadableCheckpoint as error:
                if claim.run.segment == 1 or held.segment.begun:
                    raise
                raise IncompatibleGraph(f"its state cannot be read: {error}") from error
        if isinstance(end, Finished):
            return await self._finish(held, "success", result=end.result)
        return await self._pause(held, end, graph)

    async def _check_known(self, claim: Claim) -> None:
        """Leave a run of an agent that is not here to a worker that has it, unless it is new and none has."""
        name, known = claim.run.agent, self._agents.names
        if name in known:
            return
        message = f"no agent {name!r}; there are: {', '.join(known)}"
        if claim.run.segment == 1 and not await self._leases.is_served(name, queue=claim.run.queue):
            raise UnknownAgent(message)
        raise IncompatibleGraph(message)

    async def _pause(self, held: _Held, end: Paused, graph: Graph) -> str:
        data = dump_shown(
            {
                "interrupts": end.interrupts,
                "approvals": [request.id for request in end.requests],
                "wake_at_ms": end.wake_at_ms,
            }
        )
        held.committing = True
        wake_ups = await self._leases.pause(
            held.claim,
            checkpoint_id=end.checkpoint_id,
            graph=fingerprint(graph),
            requests=end.requests,
            wake_at_ms=end.wake_at_ms,
            data=data,
            outcomes=held.segment.outcomes if held.segment else {},
            reopen_reason=end.reopen_reason,
        )
        self._dispatcher.send(wake_ups)
        log.info("run.interrupted", approvals=[request.id for request in end.requests])
        return "interrupted"

    async def _finish(
        self, held: _Held, status: str, *, result: str = "", error: RunError | None = None, reason: str = ""
    ) -> str:
        outcomes = held.segment.outcomes if held.segment else {}
        held.committing = True
        ended, wake_ups = await self._leases.finish(
            held.claim, status, result=result, error=error, reason=reason, outcomes=outcomes
        )
        self._dispatcher.send(wake_ups)
        log.info("run.ended", status=ended, error=error)
        return ended

    async def _cancelled(self, held: _Held) -> str:
        """The coroutine was cancelled, by us: for a cancelled run, a lost lease, or because we stop."""
        if held.why_cancelled == CANCEL:
            return await self._finish(held, "cancelled", reason=CANCEL)
        if held.why_cancelled == LOST:
            log.warning("run.lost")
            return LOST
        if held.why_cancelled == STOP:
            return await self._give_back(held, reason=STOP, count_attempt=False)
        raise asyncio.CancelledError

    async def _give_back(self, held: _Held, *, reason: str, count_attempt: bool) -> str:
        held.committing = True
        try:
            wake_ups = await self._leases.give_back(held.claim, reason=reason, count_attempt=count_attempt)
        except RetryableError as error:
            # the store is away or the lease is: the reconciler gives it back when the lease has run out
            log.warning("run.left", error=str(error))
            return LOST
        self._dispatcher.send(wake_ups)
        log.info("run.given_back", reason=reason)
        return "given_back"

    async def _leave(self, held: _Held, *, why: str) -> str:
        """Leave the run as it was, for a worker whose graph fits it."""
        held.committing = True
        try:
            self._dispatcher.send(await self._leases.unmatched(held.claim, why=why))
        except RetryableError as error:
            log.warning("run.left", error=str(error))
            return LOST
        log.warning("run.incompatible", reason=why)
        return "incompatible"

    async def keep_leases(self) -> None:
        """Renew all leases at a third of their length; cancel what is lost or to be cancelled. Never ends."""
        loop = asyncio.get_running_loop()
        renewed = loop.time()
        failing = False
        while True:
            await asyncio.sleep(self._settings.lease_seconds / 3)
            held = dict(self._held)
            try:
                lost, cancelled = await self._leases.renew(
                    {key: one.claim.token for key, one in held.items()}
                )
            except Exception as error:
                known = isinstance(error, RetryableError)
                if not failing and (held or not known):  # the reconciler tells of a store that is away
                    log.warning("leases.not_renewed", error=str(error), exc_info=not known)
                failing = True
                # past its length a lease may be another worker's: what we do would be refused anyway
                late = loop.time() - renewed > self._settings.lease_seconds
                lost, cancelled = (set(held) if late else set()), set()
            else:
                failing = False
                renewed = loop.time()
            for run_id in lost | cancelled:
                _cancel(held[run_id], LOST if run_id in lost else CANCEL)

    async def stop(self, *, grace_seconds: float) -> None:
        """Take nothing more; let segments reach a checkpoint, then cancel the rest; all are given back."""
        self._stopping = True
        for one in self._held.values():
            if one.segment is not None:
                one.segment.control.request_drain()
        await self._none_held(grace_seconds)
        for _ in range(CANCEL_TIMES):
            for one in self._held.values():
                _cancel(one, STOP)
            await self._none_held(CANCEL_SECONDS)

    async def _none_held(self, seconds: float) -> None:
        if self._held:
            await asyncio.wait([one.task for one in self._held.values()], timeout=seconds)


def _cancel(held: _Held, why: str) -> None:
    """Cancel, unless it commits; called again while it goes on, for a library may lose a cancellation."""
    if not held.committing:
        held.why_cancelled = held.why_cancelled or why
        held.task.cancel()


def run_error(error: BaseException) -> RunError:
    """An exception as data: class name, text (shortened), and the node that LangGraph says it came from."""
    node = None
    for note in getattr(error, "__notes__", ()):
        if note.startswith("During task with name '"):
            node = note.split("'")[1]
            break
    name = type(error).__name__
    text = (str(error) or name).encode("utf-8", "backslashreplace").decode()
    if len(text) > MOST_ERROR_TEXT:
        text = text[:MOST_ERROR_TEXT] + f" … ({len(text)} characters)"
    return {"type": name, "message": text, "node": node}
