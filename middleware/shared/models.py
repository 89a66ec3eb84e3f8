"""Which models answer: a circuit breaker for each, over all processes, and what runs have fallen back to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from .tries import now_ms

MODEL_FAILURE = "placet_failure"
"""Of a message's `response_metadata`: it stands in place of an answer, because every attempt failed."""
ENDED_BY_LIMIT = "placet_limit"
"""In the response metadata of what a limit ended the agent with: the limiter's name."""
MODEL_ANSWERED = "placet_model"
"""Of a message's `response_metadata`: which of several models it is from."""

Ended = Literal["answered", "failed", "neither"]
"""What a model call says of its model; `neither`: it paused, was stopped, or the request was at fault."""


RECALL = 10
"""How many cool-downs an open breaker is half-open, if nobody calls its model, before it is forgotten."""


class Breaker(NamedTuple):
    """How a model's circuit breaker is set; Fowler's `CircuitBreaker`, with a half-open state."""

    model: str
    threshold: int
    """Failures in a row, in all processes, that open it."""
    cool_down_ms: int
    """How long it stays open; failures further apart than this are not in a row."""


class Models(Protocol):
    """Circuit breakers, and what runs have fallen back to.

    Closed: every call goes through; after a first failure no more at a time than there are failures left.
    Open: none does. Half-open, once it has cooled down: one at a time, whose end closes or opens it.
    """

    async def enter_model(self, run_id: str, breaker: Breaker, *, call: str) -> bool:
        """Whether a call may be made; `call` is unique."""

    async def leave_model(self, breaker: Breaker, *, call: str, ended: Ended) -> bool:
        """Tell how a call ended; returns whether that opened the breaker."""

    async def model_of(self, run_id: str, key: str) -> int:
        """The place, among its models, of the one that a run stays with."""

    async def stay_with_model(self, run_id: str, key: str, place: int) -> None:
        """Let the run stay with a model."""


@dataclass
class _Circuit:
    failures: int = 0
    open_until: int = 0
    forgotten_at: int = 0
    trials: set[str] = field(default_factory=set)
    """Calls under way since it has failed."""


class InMemoryModels:
    """Breakers and choices in this process."""

    def __init__(self) -> None:
        self._circuits: dict[str, _Circuit] = {}
        self._places: dict[tuple[str, str], int] = {}

    def _circuit(self, breaker: Breaker, now: int) -> _Circuit | None:
        found = self._circuits.get(breaker.model)
        if found is not None and found.forgotten_at <= now:
            del self._circuits[breaker.model]
            return None
        return found

    async def enter_model(self, run_id: str, breaker: Breaker, *, call: str) -> bool:  # noqa: ARG002 - for those who fence
        """See `Models`."""
        now = now_ms()
        circuit = self._circuit(breaker, now)
        if circuit is None:
            return True
        most = 1 if circuit.open_until else breaker.threshold - circuit.failures
        if circuit.open_until > now or len(circuit.trials) >= most:
            return False
        circuit.trials.add(call)
        return True

    async def leave_model(self, breaker: Breaker, *, call: str, ended: Ended) -> bool:
        """See `Models`."""
        now = now_ms()
        circuit = self._circuit(breaker, now) or _Circuit()
        tried = call in circuit.trials
        circuit.trials.discard(call)
        # what began before it opened says nothing of it any more
        if ended == "neither" or (circuit.open_until and not tried):
            return False
        if ended == "answered":
            self._circuits.pop(breaker.model, None)
            return False
        self._circuits[breaker.model] = circuit
        circuit.failures += 1
        circuit.forgotten_at = now + breaker.cool_down_ms
        if not circuit.open_until and circuit.failures < breaker.threshold:
            return False
        circuit.open_until = now + breaker.cool_down_ms
        circuit.forgotten_at = circuit.open_until + breaker.cool_down_ms * RECALL
        return True

    async def model_of(self, run_id: str, key: str) -> int:
        """See `Models`."""
        return self._places.get((run_id, key), 0)

    async def stay_with_model(self, run_id: str, key: str, place: int) -> None:
        """See `Models`."""
        self._places[run_id, key] = place
