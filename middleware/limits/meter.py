"""Counts calls of models and tools as they are made, against all limits that are in force there.

A limiter is in force around what comes after it in an agent's middleware, and in all that its agent's tools
do. What counts a call is a callback, which LangChain runs where a model or a tool is about to be called:
after every retry, fallback, decision and replay, and in subagents too.
"""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

import structlog
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables.config import ensure_config
from langchain_core.tracers.context import register_configure_hook

from ..reach import reaching_the_store
from ..shared import CallCount, current_run
from ..timer import park
from ..waiting import wait
from .refused import CallRefused, Reached

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from ..shared import Counted, RunContext
    from .windows import CallWindow

log = structlog.get_logger("placet")
# LangChain warns of each callback that raises
logging.getLogger("langchain_core.callbacks.manager").addFilter(
    lambda record: not isinstance(record.args, tuple) or "_Meter" not in record.args
)
Q = TypeVar("Q")
A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Limit:
    """A limiter's counts where it is in force."""

    name: str
    calls: Literal["model", "tool"]
    tool_name: str | None = None
    """None: every tool."""
    counts: tuple[CallCount, ...]
    """Of the run, of its thread, then of each window."""


def counts_of(
    name: str,
    run: RunContext,
    *,
    thread_limit: int | None,
    run_limit: int | None,
    windows: Sequence[CallWindow],
) -> tuple[CallCount, ...]:
    """What a limiter of this name counts in the agent that is under way.

    An agent inside a tool has counts of its own: of the run, for each time it is invoked; of the thread, for
    the path of nodes that leads to it.

    Raises:
        OwnerMissing: when the run does not say whose window its calls belong to.
    """
    configurable = ensure_config().get("configurable", {})
    level = configurable.get("checkpoint_ns", "").rpartition("|")[0]
    path = re.sub(r":[^|]*|\|\d+(?=\||$)", "", level)
    return (
        CallCount("run", f"{name}|{level}", run_limit),
        CallCount("thread", f"{name}|{path}", thread_limit),
        *(window.count(name, run, configurable) for window in windows),
    )


def current_thread(run: RunContext) -> str:
    """Name the thread whose counts the run adds to; without one the run stands for it."""
    return str(ensure_config().get("configurable", {}).get("thread_id") or run.run_id)


class _Meter(BaseCallbackHandler):
    """What is in force somewhere.

    It is a sync handler because LangChain lets only those stop a call in sync code; in async code it runs
    them in a thread.
    """

    raise_error = True

    def __init__(self, run: RunContext, limits: tuple[Limit, ...]) -> None:
        self.run = run
        self.limits = limits

    @property
    def ignore_llm(self) -> bool:
        """Tokens, and the ends of calls."""
        return True

    @property
    def ignore_chain(self) -> bool:
        """Graphs and their nodes."""
        return True

    @property
    def ignore_retriever(self) -> bool:
        return True

    @property
    def ignore_custom_event(self) -> bool:
        return True

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        """Count a call of a model."""
        self._count([one for one in self.limits if one.calls == "model"], None)

    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        *_: Any,
        tool_call_id: str | None = None,
        **__: Any,
    ) -> None:
        """Count a model's call of a tool; what code calls has no such id."""
        name = (serialized or {}).get("name")
        if tool_call_id is not None:
            mine = [one for one in self.limits if one.calls == "tool" and one.tool_name in (None, name)]
            self._count(mine, tool_call_id)

    def _count(self, limits: list[Limit], tool_call_id: str | None) -> None:
        if not limits:
            return
        counts = _distinct([count for limit in limits for count in limit.counts])
        ns = ensure_config().get("configurable", {}).get("checkpoint_ns", "")
        waiter = f"{self.run.run_id}|{ns}|{tool_call_id or ''}"
        shared = self.run.shared
        with reaching_the_store():
            counted = wait(
                shared.count_call(self.run.run_id, counts, thread_id=current_thread(self.run), waiter=waiter),
                shared.loop,
            )
        if counted.state == "waits":
            log.info("call.parked", limits=[limit.name for limit in limits], due=counted.due_ms)
            why = f"room for a call in {' and '.join(limit.name for limit in limits if _waits(limit))}"
            park(self.run.run_id, key=waiter, due_ms=counted.due_ms, why=why)
        if counted.state == "refused":
            _refuse(limits, counts, counted, (ns, tool_call_id))


def _waits(limit: Limit) -> bool:
    return any(count.waits for count in limit.counts)


def _refuse(
    limits: list[Limit], counts: list[CallCount], counted: Counted, place: tuple[str, str | None]
) -> NoReturn:
    """Raise for the first limiter that has no room."""
    known = {
        (count.scope, count.key): Reached(count, value, full)
        for count, value, full in zip(counts, counted.values, counted.full, strict=True)
    }
    for limit in limits:
        reached = [known[count.scope, count.key] for count in limit.counts]
        if any(one.full and not one.of.waits for one in reached):
            log.info("call.refused", limit=limit.name, calls=limit.calls)
            raise CallRefused(limit, reached, place)
    raise AssertionError("a call was refused by no limit")


def _distinct(counts: list[CallCount]) -> list[CallCount]:
    """Each count once, with the lowest of its limits: limiters may share a window."""
    found: dict[tuple[str, str], CallCount] = {}
    for one in counts:
        known = found.setdefault((one.scope, one.key), one)
        if one.limit is not None and (known.limit is None or one.limit < known.limit):
            found[one.scope, one.key] = one
    return list(found.values())


_meter: ContextVar[_Meter | None] = ContextVar("placet_meter", default=None)
register_configure_hook(_meter, inheritable=False)


@contextmanager
def _in_force(limit: Limit, run: RunContext) -> Iterator[None]:
    """Count and limit what is called within, in subagents and threads too."""
    outer = _meter.get()
    limits = outer.limits if outer is not None and outer.run is run else ()
    token = _meter.set(_Meter(run, (*limits, limit)))
    try:
        yield
    finally:
        _meter.reset(token)


async def alimited(
    request: Q,
    handler: Callable[[Q], Awaitable[A]],
    *,
    limit_of: Callable[[RunContext], Limit],
    instead: Callable[[CallRefused, Q], B],
) -> A | B:
    """Handle a request with a limit in force, or answer it with what is said `instead`."""
    if (run := current_run()) is None:
        return await handler(request)
    limit = limit_of(run)
    try:
        with _in_force(limit, run):
            return await handler(request)
    except CallRefused as refused:
        if refused.limit is not limit:
            raise
        return instead(refused, request)


def limited(
    request: Q,
    handler: Callable[[Q], A],
    *,
    limit_of: Callable[[RunContext], Limit],
    instead: Callable[[CallRefused, Q], B],
) -> A | B:
    """As `alimited`."""
    if (run := current_run()) is None:
        return handler(request)
    limit = limit_of(run)
    try:
        with _in_force(limit, run):
            return handler(request)
    except CallRefused as refused:
        if refused.limit is not limit:
            raise
        return instead(refused, request)
