"""Trying a call again: attempts counted in the shared state, short waits here, long ones off the worker."""

from __future__ import annotations

import asyncio
import random
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeVar

import structlog
from langchain.agents.middleware._retry import calculate_delay, should_retry_exception
from langgraph.errors import GraphBubbleUp

from placet import errors
from placet.json_values import canonical

from ..ledger.attempt import unsafe_retry
from ..reach import reaching_the_store
from ..timer import park
from ..waiting import wait
from .retryable import retry_after_seconds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from langchain.agents.middleware._retry import RetryOn

    from ..shared import RunContext

T = TypeVar("T")
Verdict = Literal["again", "final", "over"]

log = structlog.get_logger("placet")


class Policy(Protocol):
    """What a retry middleware was told."""

    @property
    def name(self) -> str:
        """Its name, one of its own in each agent."""

    max_retries: int
    retry_on: RetryOn
    backoff_factor: float
    initial_delay: float
    max_delay: float
    jitter: bool
    park_after: float
    max_total_wait: float


class GuardedCall(NamedTuple):
    """A tool call as the ledger knows it."""

    key: str
    runtime: object
    may_run_again: bool
    """Whether a failed attempt may be followed by another without anybody being asked."""
    looked_up: bool
    """Whether its tool can say what became of a failed attempt."""


_scope: ContextVar[tuple[str, ...]] = ContextVar("placet_tries", default=())


@contextmanager
def within(part: str) -> Iterator[None]:
    """Let what is tried within be counted apart: an attempt around it begins it anew."""
    token = _scope.set((*_scope.get(), part))
    try:
        yield
    finally:
        _scope.reset(token)


def key_of(*parts: str) -> str:
    """Name something inside the attempts that are under way."""
    return blake2b(canonical([*_scope.get(), *parts]), digest_size=12, person=b"placet.try").hexdigest()


class Tries:
    """The attempts at one call.

    Of a tool call, one whose worker died is the same attempt again, and the ledger says what becomes of it;
    of a model's it counts, for it may have been paid for.
    """

    def __init__(
        self, run: RunContext, policy: Policy, *, place: str, what: str, tool: GuardedCall | None
    ) -> None:
        self._run = run
        self._policy = policy
        self._what = what
        self._tool = tool
        self._entry = key_of(policy.name, place)
        # who is called by something else than a retry of ours a second time begins anew
        self._key = key_of(policy.name, place, str(run.ends_of(self._entry)))
        self._started = False
        self._waited_ms = 0
        self.number = 0
        """Of the attempt that is under way, from 1."""

    async def begin(self) -> None:
        """Wait until the next attempt is due, and count it.

        Raises:
            GraphInterrupt: when the wait is long.
            AttemptLost: when all have been started, and the last one's end is not known.
            LeaseLost, StoreUnavailable: when it must not start.
        """
        run, policy = self._run, self._policy
        while True:
            with reaching_the_store():
                known = await run.shared.start_try(run.run_id, self._key, deaths_count=self._tool is None)
            if not known.wait_ms:
                break
            if known.wait_ms > policy.park_after * 1000:
                why = f"attempt {known.number + 1} of {policy.max_retries + 1} at {self._what}"
                park(run.run_id, key=self._key, due_ms=known.due_ms, why=why)
            await asyncio.sleep(known.wait_ms / 1000)
        self.number, self._waited_ms = known.number, known.waited_ms
        if self.number > policy.max_retries + 1:
            self.number = policy.max_retries + 1
            raise errors.AttemptLost(self._what, self.number)
        self._started = True
        if self._tool is not None:
            run.pass_over(self._tool.key, self._tool.runtime, known.passed)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Make the call within."""
        asks = self._tool is not None and not self._tool.may_run_again
        token = unsafe_retry.set(self._goes_on if asks else None)
        try:
            with within(f"{self._policy.name}:{self.number}"):
                yield
        finally:
            unsafe_retry.reset(token)

    async def failed(self, error: Exception) -> Verdict:
        """Say what follows: another attempt (`again`), the error (`final`), or `on_failure` (`over`)."""
        if isinstance(error, errors.AttemptLost):
            return self._end("over")
        if not should_retry_exception(error, self._policy.retry_on):
            return self._end("final")
        seconds = self._delay(error)
        told = {"of": self._what, "attempt": self.number, "error": type(error).__name__}
        if not self._has_left(seconds):
            log.warning("attempts.exhausted", **told)
            return self._end("over")
        log.info("attempt.failed", **told, retry_in_seconds=round(seconds, 3))
        passed = 0 if self._tool is None else self._run.attempts_at(self._tool.key)
        self._started = False
        with reaching_the_store():
            await self._run.shared.fail_try(
                self._run.run_id, self._key, number=self.number, wait_ms=round(seconds * 1000), passed=passed
            )
        return "again"

    async def withdraw(self) -> None:
        """Take the attempt back: it paused, or was stopped."""
        if self._started:
            self._started = False
            with suppress(errors.RetryableError):  # whoever has the run now enters it again, or stops
                await self._run.shared.withdraw_try(self._run.run_id, self._key, number=self.number)

    def succeeded(self) -> None:
        """Note the end of this call here."""
        self._run.end(self._entry)

    def _end(self, verdict: Verdict) -> Verdict:
        self._run.end(self._entry)
        return verdict

    def _goes_on(self, error: Exception) -> bool:
        """Whether another attempt would follow on this error."""
        return should_retry_exception(error, self._policy.retry_on) and self._has_left(self._delay(error))

    def _asks_a_person(self) -> bool:
        """Whether a reviewer is asked before the next attempt: nothing is to be waited for first."""
        tool = self._tool
        return tool is not None and not tool.looked_up and self._run.is_entered_again(tool.key)

    def _has_left(self, seconds: float) -> bool:
        policy = self._policy
        enough_time = self._waited_ms / 1000 + seconds <= policy.max_total_wait
        return self.number <= policy.max_retries and enough_time

    def _delay(self, error: Exception) -> float:
        """Seconds until the next attempt: LangChain's backoff, never less than the response asks for."""
        policy = self._policy
        own = calculate_delay(
            self.number - 1,
            backoff_factor=policy.backoff_factor,
            initial_delay=policy.initial_delay,
            max_delay=policy.max_delay,
            jitter=policy.jitter,
        )
        asked = retry_after_seconds(error)
        if asked is None:
            return 0.0 if self._asks_a_person() else own
        # later by something: all that were refused at once would come back at once
        spread = random.uniform(0, 0.25) * policy.initial_delay if policy.jitter else 0.0  # noqa: S311
        return max(own, asked + spread)


async def aretried(
    tries: Tries, call: Callable[[], Awaitable[T]], *, give_up: Callable[[Exception, int], T]
) -> T:
    """Call until it succeeds, or is not to be called again; `give_up` gets the last error and its number."""
    while True:
        try:
            await tries.begin()
            with tries.attempt():
                made = await call()
        except (GraphBubbleUp, asyncio.CancelledError):
            await tries.withdraw()
            raise
        except Exception as error:
            verdict = await tries.failed(error)
            if verdict == "final":
                raise
            if verdict == "over":
                return give_up(error, tries.number)
        else:
            tries.succeeded()
            return made


def retried(
    tries: Tries,
    call: Callable[[], T],
    *,
    give_up: Callable[[Exception, int], T],
    loop: asyncio.AbstractEventLoop | None,
) -> T:
    """As `aretried`, in a thread."""
    while True:
        try:
            wait(tries.begin(), loop)
            with tries.attempt():
                made = call()
        except GraphBubbleUp:
            wait(tries.withdraw(), loop)
            raise
        except Exception as error:
            verdict = wait(tries.failed(error), loop)
            if verdict == "final":
                raise
            if verdict == "over":
                return give_up(error, tries.number)
        else:
            tries.succeeded()
            return made
