"""What middleware keeps outside the graph, and the run that is under way."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from langgraph.checkpoint.serde.base import SerializerProtocol

UNKNOWN_CALL = "placet.unknown"
"""`type` of the pause that asks what became of a tool call."""

CallState = Literal["new", "done", "failed", "unknown"]
CallOutcome = Literal["succeeded", "failed", "unknown"]


class CallId(NamedTuple):
    """A tool call of a run, the same one in every process."""

    key: str
    """Unique in the run: made of the agent's namespace, the model's message and its id for the call."""
    tool: str
    tool_call_id: str


class CallRecord(NamedTuple):
    """What is known of one attempt at a tool call."""

    state: CallState
    """`new`: it has just been marked as started, by the caller. `unknown`: it was, and has no result."""
    start: int
    """How often this attempt has been started."""
    payload: bytes = b""
    """The result, or the error of a failed one."""
    note: str = ""
    """Of an unknown one: why there is no result, if it came to its end."""


class SharedState(Protocol):
    """What the middleware of all processes share; every change is atomic.

    Under Placet's workers each change is refused (`LeaseLost`) once the run's lease is another worker's.
    """

    loop: asyncio.AbstractEventLoop | None
    """The event loop that its methods must run on; None: any."""

    async def start_call(self, run_id: str, call: CallId, *, attempt: int, again: int = 0) -> CallRecord:
        """Mark an attempt as started unless it was before; `again` names the start that is done again."""

    async def end_call(
        self,
        run_id: str,
        call: CallId,
        *,
        attempt: int,
        start: int,
        state: CallState,
        payload: bytes = b"",
        note: str = "",
        outcome: CallOutcome,
    ) -> None:
        """Store what a start came to; nothing happens if the attempt was started again since."""

    async def withdraw_call(self, run_id: str, call: CallId, *, attempt: int, start: int) -> None:
        """Take a start back: the tool paused, and is entered again from its beginning."""

    async def forget_failures(self, run_id: str) -> None:
        """Drop the attempts that failed, because somebody has the run retried; results stay."""


@dataclass(slots=True, kw_only=True)
class _Attempts:
    """A call's attempts while a run is under way."""

    runtime: ref[Any]
    """Of the execution they belong to: LangGraph makes one each time it executes the call."""
    current: int
    next_execution: int
    """The attempt that a further execution of the call, a node's retry, begins with."""


@dataclass(slots=True, kw_only=True)
class RunContext:
    """A run that is driven on from where it stands; make a new one each time.

    Placet's workers set it. To use middleware without them, drive the graph within `run_context`.
    """

    run_id: str
    """What the shared state is kept under; without Placet's workers a name of your own."""
    shared: SharedState
    answers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Decisions on pauses of our own, by interrupt id."""
    serde: SerializerProtocol | None = None
    """The checkpointer's; None takes Placet's own, for plain data and messages."""
    guarded: bool = False
    """Whether something else than the middleware puts every tool call through the ledger."""
    _attempts: dict[str, _Attempts] = field(default_factory=dict)
    _running: set[asyncio.Future[None]] = field(default_factory=set)

    def enter(self, key: str, runtime: object) -> int:
        """Count an attempt at a call, from 1: a retry is the next one, another execution finds the last."""
        known = self._attempts.get(key)
        if known is not None and known.runtime() is runtime:
            known.current += 1
            return known.current
        first = 1 if known is None else known.next_execution
        self._attempts[key] = _Attempts(runtime=ref(runtime), current=first, next_execution=first)
        return first

    def failed(self, key: str, attempt: int) -> None:
        """Note that an attempt failed here: a node's retry goes on to the next."""
        self._attempts[key].next_execution = attempt + 1

    @contextmanager
    def running(self) -> Iterator[None]:
        """Mark that a tool runs on this event loop."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running.add(done)
        try:
            yield
        finally:
            self._running.discard(done)
            done.set_result(None)

    async def settled(self) -> None:
        """Wait for tools that still run: LangGraph does not for those beside one that paused or failed."""
        while self._running:
            await asyncio.wait(self._running)


_run: ContextVar[RunContext | None] = ContextVar("placet_run", default=None)


@contextmanager
def run_context(run: RunContext) -> Iterator[RunContext]:
    """Make `run` the current one, in the tools and subagents of the graph that is driven within too."""
    token = _run.set(run)
    try:
        yield run
    finally:
        _run.reset(token)


def current_run() -> RunContext | None:
    """The run that is under way."""
    return _run.get()


class InMemorySharedState:
    """Shared by what runs in this process, and gone with it."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._runs: dict[str, dict[str, list[CallRecord]]] = {}

    def _call(self, run_id: str, call: CallId) -> list[CallRecord]:
        return self._runs.setdefault(run_id, {}).setdefault(call.key, [])

    async def start_call(self, run_id: str, call: CallId, *, attempt: int, again: int = 0) -> CallRecord:
        """See `SharedState`."""
        records = self._call(run_id, call)
        known = records[attempt - 1] if attempt <= len(records) else None
        if known is not None and known.start != again:
            return known
        records[attempt - 1 : attempt] = [CallRecord("unknown", again + 1)]
        return CallRecord("new", again + 1)

    async def end_call(
        self,
        run_id: str,
        call: CallId,
        *,
        attempt: int,
        start: int,
        state: CallState,
        payload: bytes = b"",
        note: str = "",
        outcome: CallOutcome,  # noqa: ARG002 - for those who keep approval requests
    ) -> None:
        """See `SharedState`."""
        records = self._call(run_id, call)
        if records[attempt - 1].start == start:
            records[attempt - 1] = CallRecord(state, start, payload, note)

    async def withdraw_call(self, run_id: str, call: CallId, *, attempt: int, start: int) -> None:
        """See `SharedState`."""
        records = self._call(run_id, call)
        if records[attempt - 1].start == start:
            del records[attempt - 1]

    async def forget_failures(self, run_id: str) -> None:
        """See `SharedState`."""
        for records in self._runs.get(run_id, {}).values():
            records[:] = [record for record in records if record.state != "failed"]
