"""What a worker refuses to start with, and the pools it runs on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from fleet import PATIENCE, human

if TYPE_CHECKING:
    from pathlib import Path

    from fleet import Fleet
    from placet import Placet


async def test_prefork_is_refused(fleet: Fleet) -> None:
    """By the name that Celery does not take for "whatever is configured"."""
    worker = fleet.start_one(pool="processes")
    assert await worker.ended() == 1
    assert worker.log.strip().splitlines() == [
        "error: placet runs on Celery's threads pool (-P threads), not celery.concurrency.prefork"
    ]


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        (None, "No such file"),
        ({"a": "./agents.py:nothing"}, "graphs.a: "),
        ({"a": "./absent.py:agent"}, "graphs.a: "),
        ({"a": "./agents.py:broken"}, "graphs.a: "),
    ],
)
async def test_a_broken_project(
    fleet: Fleet, placet: Placet, tmp_path: Path, graphs: dict[str, str] | None, message: str
) -> None:
    """One line and a status, before any message is taken."""
    run = await placet.enqueue("a", {})
    project = tmp_path / "project"
    project.mkdir()
    (project / "agents.py").write_text("def broken():\n    raise ValueError('not today')\n")
    if graphs is not None:
        (project / "langgraph.json").write_text(json.dumps({"dependencies": ["."], "graphs": graphs}))
    worker = fleet.start_one(PLACET_CONFIG=str(project / "langgraph.json"))
    assert await worker.ended() != 0
    errors = [line for line in worker.log.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, worker.log
    assert "Traceback" not in worker.log
    assert str(project) in errors[0]
    assert (await placet.get(run.id)).status == "pending"


async def test_a_checkpointer_that_this_server_cannot_have(fleet: Fleet) -> None:
    """One line that names what is missing."""
    chosen = {"PLACET_CHECKPOINTER": "langgraph-redis"}
    worker = fleet.start_one(**chosen)
    assert await worker.ended() == 1
    (line,) = (line for line in worker.log.splitlines() if line.startswith("error: "))
    assert "Traceback" not in worker.log
    assert line.startswith("error: PLACET_CHECKPOINTER: langgraph-redis needs the modules JSON and Search")


async def test_solo(fleet: Fleet, placet: Placet) -> None:
    """Tasks of one process, one after the other, all find their event loop running."""
    await fleet.start(pool="solo")
    for _ in range(3):
        run = await placet.wait((await placet.enqueue("plain", human("go"))).id, timeout=PATIENCE)
        assert run.status == "success", run.error
    assert len(fleet.effects("look_up")) == 3
