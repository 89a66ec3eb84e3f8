"""The run that is under way."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from langgraph.checkpoint.serde.base import SerializerProtocol

    from .state import SharedState

TIMER = "placet.timer"
"""`type` of a pause that the system itself ends, at its `due`, milliseconds since 1970."""


@dataclass(slots=True, kw_only=True)
class _Attempts:
    """A call's attempts while a run is under way."""

    runtime: ref[Any]
    """Of the execution they belong to: LangGraph makes one each time it executes the call."""
    current: int
    next_execution: int
    """The attempt that a further execution of the call, a node's retry, begins with."""
    is_entered_again: bool = False


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
    agent: str = ""
    """Its name; for limits by agent."""
    guarded: bool = False
    """Whether something else than the middleware puts every tool call through the ledger."""
    _attempts: dict[str, _Attempts] = field(default_factory=dict)
    _passed: dict[str, range] = field(default_factory=dict)
    _ends: dict[str, int] = field(default_factory=dict)
    _running: set[asyncio.Future[None]] = field(default_factory=set)

    def enter(self, key: str, runtime: object) -> int:
        """Count an attempt at a call, from 1: a retry is the next one, another execution finds the last."""
        known = self._attempts.get(key)
        if known is not None and known.runtime() is runtime:
            known.current += 1
            known.is_entered_again = False
            return known.current
        first = 1 if known is None else known.next_execution
        self._attempts[key] = _Attempts(runtime=ref(runtime), current=first, next_execution=first)
        return first

    def failed(self, key: str, attempt: int) -> None:
        """Note that an attempt failed here: a node's retry goes on to the next."""
        self._attempts[key].next_execution = attempt + 1

    def enter_again(self, key: str) -> None:
        """Let the next entry be the attempt that has just ended: how it ended is not known."""
        self._attempts[key].current -= 1
        self._attempts[key].is_entered_again = True

    def is_entered_again(self, key: str) -> bool:
        """Whether the ledger has left open how the call's attempt that has just ended did."""
        known = self._attempts.get(key)
        return known is not None and known.is_entered_again

    def attempts_at(self, key: str) -> int:
        """How many attempts at a call are behind; 0 if no ledger guards it."""
        known = self._attempts.get(key)
        return 0 if known is None else known.current

    def pass_over(self, key: str, runtime: object, attempts: int) -> None:
        """Let the next attempt at a call be the one after these, which failed elsewhere."""
        behind = self.attempts_at(key)
        if attempts > behind:
            self._attempts[key] = _Attempts(
                runtime=ref(runtime), current=attempts, next_execution=attempts + 1
            )
            self._passed[key] = range(behind + 1, attempts + 1)

    def passed(self, key: str) -> range:
        """The attempts at a call that were passed over, asked for once."""
        return self._passed.pop(key, range(0))

    def ends_of(self, key: str) -> int:
        """How often something came to its end while the run was under way here."""
        return self._ends.get(key, 0)

    def end(self, key: str) -> None:
        """Count such an end."""
        self._ends[key] = self.ends_of(key) + 1

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
