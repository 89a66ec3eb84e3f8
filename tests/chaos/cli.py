"""The command line of the fault harness."""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from .mutations import MUTATIONS, plan_of
from .plan import FAULTS, make_plan
from .timeline import explain
from .trial import Trial

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .plan import Plan


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 1 when a promise was broken, or, with a guard taken away, when that was not noticed."""
    given = _arguments(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    folder = given.keep or Path(tempfile.mkdtemp(prefix="placet-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    trial = Trial(plan=_plan(given), folder=folder, workers=given.workers, mutation=given.mutation, say=_say)
    report, evidence = asyncio.run(trial.run())
    if report.violations:
        _say(explain(report, evidence))
    if report.violations or given.keep:
        _say(f"logs and records: {folder}")
    else:
        shutil.rmtree(folder)
    if given.json:
        print(json.dumps(report.figures()))  # noqa: T201
    else:
        for name, figure in report.figures().items():
            print(f"{name:32} {figure}")  # noqa: T201
    broken = {one.invariant for one in report.violations}
    if given.mutation:
        return 0 if broken & MUTATIONS[given.mutation].broken else 1
    return 1 if broken else 0


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Break things on a schedule, then check every promise.")
    parser.add_argument("--runs", type=int, default=150)
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="over which runs and faults are spread")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    parser.add_argument("--keep", type=Path, help="leave logs and records there")
    parser.add_argument("--only", nargs="*", choices=list(FAULTS), help="kinds of faults")
    parser.add_argument(
        "--mutation", default="", choices=MUTATIONS, help="take a guard away, and see that it is missed"
    )
    return parser.parse_args(arguments)


def _plan(given: argparse.Namespace) -> Plan:
    if given.mutation:
        return plan_of(MUTATIONS[given.mutation])
    seconds = 60 * given.minutes if given.minutes else max(10.0, given.faults * 2.5, given.runs * 0.4)
    return make_plan(
        seed=given.seed,
        runs=given.runs,
        faults=given.faults,
        seconds=seconds,
        kinds=given.only or list(FAULTS),
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201
