"""One seed, one schedule: which runs are asked for, what they do, and what breaks when."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from placet.state.runs import MultitaskStrategy

GATED = ("pay", "mail", "flaky", "wire")
"""Tools that a person is asked about beforehand."""
TOOLS = (*GATED, "look_up", "charge", "count", "ask")
MOST_STEPS = 3
MOST_CALLS = 3

FAULTS = {
    "kill_worker": 7,
    "stop_worker": 4,
    "end_worker": 3,
    "cut_worker": 3,
    "stall_worker": 2,
    "cut_connections": 2,
    "kill_store": 2,
    "pause_store": 2,
    "hold_store": 1,
    "fill_store": 1,
    "flush_scripts": 1,
    "kill_broker": 1,
    "pause_broker": 1,
    "drop_messages": 3,
    "repeat_messages": 2,
    "delay_messages": 2,
    "kill_decider": 2,
}
"""Every kind, and how often it comes beside the others."""

_STRATEGIES: dict[MultitaskStrategy, int] = {"enqueue": 5, "interrupt": 3, "rollback": 2, "reject": 1}
_LONG = frozenset({"stop_worker", "cut_worker", "stall_worker"})
"""Those that are to outlast a lease, mostly."""
_ALONE_EVERY = 25
"""Every so many faults, and at the end, a kill has nothing beside it: that is how takeovers are timed."""
_QUIET_BEFORE_SECONDS = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """A run that is to be asked for."""

    id: str
    thread: str
    agent: str
    at: float
    """Seconds after the start."""
    steps: list[list[dict[str, Any]]]
    """The tool calls that its model makes, message by message: `tool`, `args`, `id` (or None)."""
    strategy: MultitaskStrategy
    cancel_after: float | None
    start_after: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFault:
    """Something that is to break; `pick` (0 to 1) chooses what, where there are several."""

    at: float
    kind: str
    pick: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The whole schedule."""

    seed: int
    seconds: float
    lease_seconds: float
    """Tools and faults take their time in leases."""
    runs: tuple[PlannedRun, ...]
    faults: tuple[PlannedFault, ...]


def make_plan(
    *,
    seed: int,
    runs: int,
    faults: int,
    seconds: float,
    lease_seconds: float = 3.0,
    kinds: Sequence[str] = tuple(FAULTS),
) -> Plan:
    """Draw it; `kinds` are the faults there are."""
    rng = Random(f"placet {seed}")  # noqa: S311 - it has to come out the same again
    draw = _Draw(rng=rng, seconds=seconds, lease=lease_seconds)
    broken = tuple(draw.faults(faults, kinds))
    return Plan(
        seed=seed,
        seconds=seconds,
        lease_seconds=lease_seconds,
        runs=tuple(draw.runs(runs, broken)),
        faults=broken,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draw:
    rng: Random
    seconds: float
    lease: float

    def faults(self, count: int, kinds: Sequence[str]) -> Iterator[PlannedFault]:
        """Each kind once while there is room, then by weight; a kill now and then has nothing beside it."""
        rng = self.rng
        once = rng.sample(list(kinds), len(kinds))[:count]
        drawn = once + rng.choices(list(kinds), [FAULTS[kind] for kind in kinds], k=count - len(once))
        rng.shuffle(drawn)
        alone = {number for number in range(count - 1, -1, -_ALONE_EVERY) if "kill_worker" in kinds}
        quiet = _QUIET_BEFORE_SECONDS, 2 * self.lease
        gap = max(0.1, (self.seconds - len(alone) * sum(quiet)) / max(1, count))
        at = 0.0
        for number, kind in enumerate(drawn):
            at += rng.uniform(0.4, 1.6) * gap + (quiet[0] if number in alone else 0)
            yield PlannedFault(
                at=at,
                kind="kill_worker" if number in alone else kind,
                pick=rng.random(),
                seconds=rng.uniform(1.2, 2.5) * self.lease if kind in _LONG else rng.uniform(0.3, 2.5),
            )
            at += quiet[1] if number in alone else 0

    def runs(self, count: int, faults: Sequence[PlannedFault]) -> Iterator[PlannedRun]:
        """Two of three shortly before a fault, the others at any time; some follow another on its thread."""
        rng = self.rng
        threads: list[str] = []
        for number, at in enumerate(sorted(self._time(faults) for _ in range(count))):
            key = f"r{number:04}"
            follows = bool(threads) and rng.random() < 0.25
            threads.append(threads[-1] if follows else f"t{number:04}")
            later = rng.random() < 0.04
            strategy = rng.choices(list(_STRATEGIES), list(_STRATEGIES.values()))[0]
            yield PlannedRun(
                id=key,
                thread=threads[-1],
                agent=rng.choice(("batched", "per_call")),
                at=at,
                steps=self._steps(key),
                strategy="enqueue" if later else strategy,  # who is to start later is in nobody's way
                cancel_after=rng.uniform(0, 1.5) * self.lease if rng.random() < 0.08 else None,
                start_after=rng.uniform(0.2, 1) * self.lease if later else None,
            )

    def _time(self, faults: Sequence[PlannedFault]) -> float:
        if faults and self.rng.random() < 2 / 3:
            return max(0.0, self.rng.choice(faults).at - self.rng.uniform(0, 0.8) * self.lease)
        return self.rng.uniform(0, self.seconds)

    def _steps(self, run: str) -> list[list[dict[str, Any]]]:
        """Calls of one to three messages; some models use the same ids for their calls in each message."""
        rng = self.rng
        same_ids = rng.random() < 0.25
        return [
            [
                {
                    "tool": rng.choice(TOOLS),
                    "args": {
                        "key": f"{run}.{step}.{index}",
                        "amount": rng.randint(1, 999),
                        "seconds": round(self._duration(), 3),
                    },
                    "id": f"call_{index}" if same_ids else None,
                }
                for index in range(rng.randint(1, MOST_CALLS))
            ]
            for step in range(rng.randint(1, MOST_STEPS))
        ]

    def _duration(self) -> float:
        """How long a tool takes: no time, enough for a fault to meet it, or (one of eight) over a lease."""
        kind = self.rng.random()
        if kind < 0.45:
            return self.rng.uniform(0, 0.02) * self.lease
        if kind < 0.88:
            return self.rng.uniform(0.1, 0.67) * self.lease
        return self.rng.uniform(1, 1.5) * self.lease
