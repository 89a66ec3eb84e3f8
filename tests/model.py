"""What the test of any order of moves knows of runs: the scripts' model, small enough to be seen right."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from placet.state.leases import Claim

THREADS = ("t1", "t2")
WEIGHT = {"timeout": 1, "cancel": 2, "interrupt": 2, "rollback": 3}


@dataclass(slots=True)
class Asked:
    """A request as the model knows it."""

    interrupt: str
    decision: str = ""
    by: str = ""
    handed_to: int = 0
    void: bool = False


@dataclass(slots=True)
class Known:
    """A run as the model knows it."""

    thread: str
    status: str = "open"
    due: bool = True
    stop: str = ""
    timeout: bool = False
    ticks: bool = False
    segments: int = 0
    unfit: bool = False
    claim: Claim | None = None
    lost: bool = False
    pause: dict[str, Asked] = field(default_factory=dict)

    def answered(self) -> set[str]:
        open_ones = {one.interrupt for one in self.pause.values() if not one.decision}
        return {key for key, one in self.pause.items() if one.interrupt not in open_ones}

    def asks(self) -> bool:
        return any(not one.decision and not one.void for one in self.pause.values())

    def fresh(self) -> bool:
        return any(not self.pause[key].handed_to for key in self.answered())


class Model:
    """All runs, their threads' queues, and what was given out."""

    def __init__(self) -> None:
        self.runs: dict[str, Known] = {}
        self.queues: dict[str, list[str]] = defaultdict(list)
        self.last_run: dict[str, str] = {}
        self.rolled_back: dict[str, list[str]] = defaultdict(list)
        self.stale: list[Claim] = []
        self.tokens: list[int] = []
        self.asked = 0
        self.made = 0
        self.names = {thread: thread for thread in THREADS}

    def open_runs(self) -> list[str]:
        return [key for key, run in self.runs.items() if run.status == "open"]

    def ticking(self) -> list[str]:
        """Runs whose timeout's clock runs, and that nobody has asked to stop."""
        runs = [(key, self.runs[key]) for key in self.open_runs()]
        still = [key for key, run in runs if not run.claim and (run.asks() or run.unfit)]
        return [key for key, run in runs if run.ticks and not run.stop and key not in still]

    def held(self) -> list[str]:
        return [key for key, run in self.runs.items() if run.claim is not None]

    def end(self, key: str, status: str) -> None:
        run = self.runs[key]
        self.release(run)
        if run.stop == "rollback" and run.segments:
            self.rolled_back[run.thread].append(key)
        run.status, run.due, run.stop, run.pause, run.ticks = status, False, "", {}, False
        run.unfit = False
        if key in self.queues[run.thread]:
            self.queues[run.thread].remove(key)

    def stop(self, key: str, how: str) -> None:
        """Somebody asks a run to stop."""
        run = self.runs[key]
        if not run.stop or WEIGHT[how] > WEIGHT[run.stop]:
            run.stop = how
        if run.claim is None or run.lost:
            self.end(key, self.stopped(run))
        else:
            for one in run.pause.values():
                one.void = one.void or not one.decision

    @staticmethod
    def stopped(run: Known) -> str:
        return "timeout" if run.stop == "timeout" else "cancelled"

    def release(self, run: Known) -> None:
        if run.claim is not None:
            self.stale.append(run.claim)
        run.claim, run.lost = None, False
