"""Guards that are taken away, one at a time, to see that the checker misses each.

`mutated/sitecustomize.py` does it in the processes of a trial, by the name in CHAOS_MUTATION;
the product knows nothing of it.
"""

from __future__ import annotations

import functools
import importlib
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from .plan import make_plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A piece of a script, and what stands in its place."""

    module: str
    """Whose function gives scripts their text."""
    function: str
    old: str
    new: str

    @contextmanager
    def made(self) -> Iterator[None]:
        """Make it in this process.

        Raises:
            LookupError: when the guard is not where it is looked for: the product has changed, and this list
                has to follow.
        """
        package = files(self.module.rpartition(".")[0])
        folder = package / "lua" if (package / "lua").is_dir() else package
        scripts = Path(str(folder)).rglob("*.lua")
        found = sum(one.read_text().count(self.old) for one in scripts)
        if found != 1:
            raise LookupError(f"{self.old!r} stands {found} times in {folder}, not once")
        module = importlib.import_module(self.module)
        text_of = getattr(module, self.function)

        @functools.wraps(text_of)
        def cut(*names: str) -> str:
            return str(text_of(*names).replace(self.old, self.new))

        setattr(module, self.function, cut)
        try:
            yield
        finally:
            setattr(module, self.function, text_of)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """A guard that is missing, the trial that shows it, and the invariants of which one has to miss it."""

    cuts: tuple[Cut, ...]
    seed: int
    runs: int
    faults: int
    seconds: float
    lease_seconds: float
    kinds: tuple[str, ...]
    broken: frozenset[str]


def _state(old: str, new: str) -> Cut:
    return Cut(module="placet.state.connection", function="_source", old=old, new=new)


MUTATIONS = {
    # a worker that was stopped for longer than its lease writes on, beside the one that took over
    "no_fence": Mutation(
        cuts=(
            _state(" or redis.call('HGET', K.lease(thread), 'token') ~= token", ""),
            Cut(
                module="placet.checkpoint.scripts",
                function="source",
                old="local lost = (redis.call('HGET', KEYS[2], 'token') or '') ~= ARGV[1]",
                new="local lost = false",
            ),
        ),
        seed=1,
        runs=30,
        faults=3,
        seconds=8.0,
        lease_seconds=1.0,
        kinds=("stop_worker",),
        broken=frozenset({"history_is_linear", "every_run_ends"}),
    ),
    # the second decision on a request is saved over the first
    "no_cas": Mutation(
        cuts=(
            _state("if a[1] == 'decided' then return", "if false then return"),
            _state("if a[1] ~= 'pending' then return {'not_pending'", "if false then return {'not_pending'"),
        ),
        seed=1,
        runs=30,
        faults=0,
        seconds=4.0,
        lease_seconds=1.0,
        kinds=("kill_decider",),
        broken=frozenset({"one_decision_one_resume"}),
    ),
    # a call that was started under a worker that died is started again, and nobody is asked
    "no_ledger": Mutation(
        cuts=(_state("if attempt and int(attempt.start) ~= ARGV[5] then", "if false then"),),
        seed=1,
        runs=40,
        faults=6,
        seconds=8.0,
        lease_seconds=1.0,
        kinds=("kill_worker",),
        broken=frozenset({"one_decision_one_resume", "an_unknown_outcome_is_not_silently_run_again"}),
    ),
    # a wake-up that is lost on the way is not sent again
    "no_outbox": Mutation(
        cuts=(_state("redis.call('ZADD', K.outbox(r[1]), int(NOW + RESEND_MS), run)", ""),),
        seed=1,
        runs=30,
        faults=3,
        seconds=6.0,
        lease_seconds=1.0,
        kinds=("drop_messages",),
        broken=frozenset({"every_run_ends", "records_agree"}),
    ),
}


@contextmanager
def made(name: str) -> Iterator[None]:
    """Take a guard away from this process, by its mutation's name; an empty one takes none."""
    with ExitStack() as stack:
        for cut in MUTATIONS[name].cuts if name else ():
            stack.enter_context(cut.made())
        yield


def plan_of(mutation: Mutation) -> Plan:
    """The trial that shows it."""
    return make_plan(
        seed=mutation.seed,
        runs=mutation.runs,
        faults=mutation.faults,
        seconds=mutation.seconds,
        lease_seconds=mutation.lease_seconds,
        kinds=mutation.kinds,
    )
