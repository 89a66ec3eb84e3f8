"""Executes segments: claims a run, drives its graph, keeps its lease, commits what it came to."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import structlog
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.errors import GraphDrained
from redis.exceptions import RedisError

from placet.middleware.shared import RunContext, run_context

from ..agents.fingerprint import fingerprint
from ..approvals.answers import own_answers
from ..checkpoint.codec import encrypted
from ..encoding import dump_shown, size_of
from ..errors import (
    IncompatibleGraph,
    LeaseLost,
    PlacetError,
    RetryableError,
    UnknownAgent,
    UnreadableCheckpoint,
)
from ..logs import logs_masked
from .held import AWAY, CANCEL, LATE, LOST, STOP, Held
from .run_error import run_error
from .segment import Finished, Paused, Segment, graph_config
from .tool_guard import guard_tools

if TYPE_CHECKING:
    from ..agents.factories import Graph
    from ..agents.graphs import Agents
    from ..dispatch import Dispatcher
    from ..settings import Settings
    from ..state.approvals import Approvals
    from ..state.leases import Claim, Leases
    from ..state.runs import RunError

log = structlog.get_logger("placet")

CANCEL_TIMES, CANCEL_SECONDS = 3, 4.0
"""How often a stopping worker cancels what does not end, and how long it waits for that each time."""
MOST_BLOCKED_SECONDS = 5.0
"""How long one read may block while it waits for runs that are to stop."""


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
        guard_tools()
        self._agents = agents
        self._leases = leases
        self._approvals = approvals
        self._dispatcher = dispatcher
        self._settings = settings
        self._held: dict[str, Held] = {}
        self._left: list[Claim] = []
        self._stopping = False
        self._ending: set[asyncio.Task[None]] = set()
        self._stops_seen = "0-0"
        self.started = 0
        """Segments started so far."""

    @property
    def active(self) -> int:
        """Segments under execution."""
        return len(self._held)

    async def execute(self, run_id: str) -> str:
        """Execute a run's next segment if there is something to do; says what came of it."""
        while (held := self._held.get(run_id)) and held.committing and not held.left:
            # its pause is in the store, and answered there, before the reply of the commit is here
            await asyncio.wait([held.task])
        if self._stopping or held:
            return "stopping" if self._stopping else "busy"
        claim, why, wake_ups = await self._leases.claim(run_id)
        self._dispatcher.send(wake_ups)
        if claim is None:
            if why == "missing":
                log.warning("run.missing")  # its id is whatever somebody sent
            return why
        self.started += 1
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        held = self._held[run_id] = Held(claim=claim, task=task)
        with structlog.contextvars.bound_contextvars(**held.names):
            try:
                return await self._execute(held)
            finally:
                del self._held[run_id]
                if held.left:
                    log.info("slot.returned")

    async def _execute(self, held: Held) -> str:
        log.info("run.claimed", agent=held.claim.run.agent, segment=held.claim.run.segment)
        if held.claim.unsealed:
            log.warning("run.unsealed", why="its client has no PLACET_ENCRYPTION_KEY")
        try:
            if self._stopping:
                return await self._give_back(held, reason=STOP, count_attempt=False)
            return await self._driven(held)
        except LeaseLost:
            if not held.left:
                log.warning("run.lost")
            return LOST
        except IncompatibleGraph as error:
            return await self._leave(held, why=str(error))
        except RetryableError as error:
            return await self._give_back(held, reason=str(error), count_attempt=True)

    async def _driven(self, held: Held) -> str:
        """Drive the run and commit what it came to, an agent's error or a cancellation too."""
        seconds = self._settings.segment_timeout_seconds
        clock = asyncio.get_running_loop().call_later(seconds, held.cancel, LATE) if seconds else None
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
            masks = held.segment.masks if held.segment else None
            if not isinstance(error, PlacetError):
                with logs_masked(masks.for_logs if masks else None):
                    log.exception("run.failed")
            if held.why_cancelled == LATE:
                return await self._cancelled(held)
            return await self._finish(
                held, "error", error=run_error(error, masks), reason="an error ended the run"
            )
        finally:
            if clock is not None:
                clock.cancel()

    async def _drive(self, held: Held) -> str:
        claim = held.claim
        await self._check_known(claim)
        opened = self._agents.open(claim.run.agent, graph_config(claim), context=claim.run.context)
        async with opened as graph:
            held.segment = Segment(claim=claim, graph=graph, leases=self._leases, approvals=self._approvals)
            if self._stopping:
                held.segment.control.request_drain()
            masked = logs_masked(held.segment.masks.for_logs)
            with masked, run_context(self._run_context(claim, graph)) as run:
                try:
                    end = await held.segment.drive()
                except UnreadableCheckpoint as error:
                    await run.settled()
                    if claim.run.segment == 1 or held.segment.begun:
                        raise
                    raise IncompatibleGraph(f"its state cannot be read: {error}") from error
                except Exception:
                    await run.settled()
                    raise
                await run.settled()
        if isinstance(end, Finished):
            return await self._finish(held, "success", result=end.result, reason=end.reason)
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

    def _run_context(self, claim: Claim, graph: Graph) -> RunContext:
        saver: Any = graph.checkpointer
        serde, key = saver.serde, self._settings.encryption_key
        if key and not isinstance(serde, EncryptedSerializer):
            serde, _ = encrypted(serde, key)
        return RunContext(
            run_id=claim.run.id,
            agent=claim.run.agent,
            shared=self._leases.shared(claim),
            answers=own_answers(claim.answers),
            serde=serde,
            guarded=True,
        )

    async def _pause(self, held: Held, end: Paused, graph: Graph) -> str:
        shown = {
            "interrupts": end.interrupts,
            "approvals": [request.id for request in end.requests],
            "wake_at_ms": end.wake_at_ms,
            "sleeps": end.sleeps,
        }
        data = dump_shown(shown)
        if (size := size_of(data)) > self._settings.max_event_bytes:
            # the requests have it all
            shown |= {"interrupts": [{"id": one["id"]} for one in end.interrupts], "cut": size}
            data = dump_shown(shown)
        held.committing = True
        wake_ups = await self._leases.pause(
            held.claim,
            checkpoint_id=end.checkpoint_id,
            graph=fingerprint(graph),
            requests=end.requests,
            wake_at_ms=end.wake_at_ms,
            sleeps=end.sleeps,
            data=data,
            outcomes=held.segment.outcomes if held.segment else {},
            reopen_reason=end.reopen_reason,
        )
        self._dispatcher.send(wake_ups)
        log.info("run.interrupted", approvals=[request.id for request in end.requests])
        return "interrupted"

    async def _finish(
        self, held: Held, status: str, *, result: str = "", error: RunError | None = None, reason: str = ""
    ) -> str:
        outcomes = held.segment.outcomes if held.segment else {}
        held.committing = True
        ended, wake_ups = await self._leases.finish(
            held.claim, status, result=result, error=error, reason=reason, outcomes=outcomes
        )
        self._dispatcher.send(wake_ups)
        log.info("run.ended", status=ended, error=error)
        return ended

    async def _cancelled(self, held: Held) -> str:
        """The coroutine was cancelled, by us: for a run that is to stop, a lost lease, or because we stop."""
        if held.why_cancelled == CANCEL:
            # or as a timeout, with its reason: the script knows
            return await self._finish(held, "cancelled", reason=CANCEL)
        if held.why_cancelled == LATE:
            late = f"timed out: a segment did not end within {self._settings.segment_timeout_seconds:g} s"
            error: RunError = {"type": "SegmentTimeout", "message": late, "node": None}
            return await self._finish(held, "timeout", error=error, reason=late)
        if held.why_cancelled == LOST:
            log.warning("run.lost")
            return LOST
        if held.why_cancelled in (STOP, AWAY):
            return await self._give_back(held, reason=held.why_cancelled, count_attempt=False)
        raise asyncio.CancelledError

    async def _give_back(self, held: Held, *, reason: str, count_attempt: bool) -> str:
        held.committing = True
        try:
            wake_ups = await self._leases.give_back(held.claim, reason=reason, count_attempt=count_attempt)
        except RetryableError as error:
            # the store is away or the lease is: by us or a reconciler it is given back once the store is here
            log.warning("run.left", error=str(error))
            if not isinstance(error, LeaseLost):
                self._left.append(held.claim)
            return LOST
        self._dispatcher.send(wake_ups)
        log.info("run.given_back", reason=reason)
        return "given_back"

    async def _leave(self, held: Held, *, why: str) -> str:
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
        """Renew all leases at a third of their length; stop what is lost or to be stopped. Never ends."""
        loop = asyncio.get_running_loop()
        renewed = loop.time()
        failing = away = False
        while True:
            await self._until_renewal()
            held = {key: one for key, one in self._held.items() if not one.left}
            try:
                lost, stopping = await self._leases.renew({key: one.claim.token for key, one in held.items()})
                await self._give_back_left()
            except Exception as error:
                known = isinstance(error, RetryableError)
                if not failing and (held or not known):  # the reconciler tells of a store that is away
                    log.warning("leases.not_renewed", error=str(error), exc_info=not known)
                failing = True
                # past its length a lease may be another worker's: what we do would be refused anyway
                late = loop.time() - renewed > self._settings.lease_seconds
                lost, stopping = (set(held) if late else set()), set()
            else:
                away, failing = failing, False
                renewed = loop.time()
            gone = AWAY if failing or away else LOST
            for run_id, one in held.items():
                why = gone if run_id in lost else CANCEL if run_id in stopping else one.why_cancelled
                if why not in ("", STOP):
                    self._stop_one(one, why)

    async def _until_renewal(self) -> None:
        """Wait for a third of the lease, or until a run that is executed here is asked to stop."""
        seconds = self._settings.lease_seconds / 3
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        with suppress(TimeoutError):
            async with asyncio.timeout_at(end + seconds / 10):
                while (left := end - loop.time()) > 0:
                    wait_ms = max(1, int(min(left, MOST_BLOCKED_SECONDS) * 1000))
                    try:
                        self._stops_seen, runs = await self._leases.stops(self._stops_seen, block_ms=wait_ms)
                    except (RetryableError, RedisError):  # a store that is away: the renewal tells of it
                        await asyncio.sleep(left)
                    else:
                        if runs & self._held.keys():
                            return

    async def _give_back_left(self) -> None:
        """Give back what could not be while the store was away: no worker died, no attempt counts."""
        while self._left:
            claim = self._left.pop()
            try:
                wake_ups = await self._leases.give_back(claim, reason=AWAY, count_attempt=False)
            except LeaseLost:
                continue  # another has it, and the store knows now that this worker had not died
            except RetryableError:
                self._left.append(claim)
                return
            self._dispatcher.send(wake_ups)

    def _stop_one(self, held: Held, why: str) -> None:
        """Cancel; what has not ended a renewal later is left behind: its run ends without it."""
        if not held.why_cancelled:
            held.cancel(why)
            return
        patience = self._settings.lease_seconds / 3
        if held.committing or asyncio.get_running_loop().time() - held.cancelled_at < patience:
            return
        # not cancelled again: LangGraph would leave a deaf tool's task to itself, and nobody would know of it
        held.left = True
        with structlog.contextvars.bound_contextvars(**held.names):
            log.warning("slot.lost", why=held.why_cancelled)
            if held.why_cancelled != LOST:
                ending = asyncio.create_task(self._end_without(held))
                self._ending.add(ending)
                ending.add_done_callback(self._ending.discard)

    async def _end_without(self, held: Held) -> None:
        """Commit the end of a run whose coroutine goes on; it can write nothing from then on."""
        try:
            await self._cancelled(held)
        except LeaseLost:
            log.warning("run.lost")
        except RetryableError as error:
            log.warning("run.left", error=str(error))
            held.left = held.committing = False  # once more, at a renewal to come

    async def stop(self, *, grace_seconds: float) -> None:
        """Take nothing more; let segments reach a checkpoint, then cancel the rest; all are given back."""
        self._stopping = True
        for one in self._held.values():
            if one.segment is not None:
                one.segment.control.request_drain()
        await self._none_held(grace_seconds)
        for _ in range(CANCEL_TIMES):
            for one in self._held.values():
                one.cancel(STOP)
            await self._none_held(CANCEL_SECONDS)

    async def _none_held(self, seconds: float) -> None:
        if self._held:
            await asyncio.wait([one.task for one in self._held.values()], timeout=seconds)
