"""The fault harness in short: nothing breaks under faults, and a guard that is taken away is missed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from chaos.mutations import MUTATIONS, plan_of
from chaos.plan import make_plan
from chaos.timeline import explain
from chaos.trial import Trial

if TYPE_CHECKING:
    from pathlib import Path


async def test_every_promise_holds_under_faults(tmp_path: Path) -> None:
    plan = make_plan(seed=4, runs=60, faults=12, seconds=30, lease_seconds=2)
    report, evidence = await Trial(plan=plan, folder=tmp_path, workers=3).run()
    assert not report.violations, explain(report, evidence)
    assert (report.runs, report.faults) == (60, 12)


@pytest.mark.parametrize("name", MUTATIONS)
async def test_a_guard_that_is_taken_away_is_missed(name: str, tmp_path: Path) -> None:
    mutation = MUTATIONS[name]
    trial = Trial(plan=plan_of(mutation), folder=tmp_path, workers=2, mutation=name, patience=60)
    report, _ = await trial.run()
    assert {one.invariant for one in report.violations} & mutation.broken
