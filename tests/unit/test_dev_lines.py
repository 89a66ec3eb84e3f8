from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from placet.dev.lines import Log, WorkerLines

if TYPE_CHECKING:
    from collections.abc import Sequence

STARTED = {"event": "worker.started", "level": "info", "timestamp": "t", "agents": ["support"]}
READY = "[2026-11-30 15:45:26,567: INFO/MainProcess] placet-1@vm ready."


def event(name: str, level: str = "info", **fields: Any) -> str:
    return json.dumps({"event": name, "level": level, "timestamp": "t", **fields})


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Any:
    def of(lines: Sequence[str], *, processes: int = 1, verbose: bool = False) -> list[str]:
        reader = WorkerLines(log=Log(), processes=processes, verbose=verbose)
        reader.begin()
        for pid, line in enumerate(lines):
            reader.line(pid, line)
        return [line.split(" | ", 1)[1] for line in capsys.readouterr().out.splitlines()]

    return of


def test_it_is_ready_when_all_are(shown: Any) -> None:
    assert shown([json.dumps(STARTED), READY], processes=2) == []
    assert shown([json.dumps(STARTED), READY, READY], processes=2) == [
        "ready: 2 workers, agents: support",
        'try: placet enqueue support --input \'{"messages": [{"role": "user", "content": "hi"}]}\'',
    ]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (event("run.claimed", run_id="r"), []),
        (event("reconciler.failed", "warning", error="away"), ["warning  reconciler.failed error=away"]),
        (event("run.ended", run_id="r", status="success", error=None), ["run r ended: success"]),
        ("[2026-11-30 15:45:26,567: INFO/MainProcess] Connected", []),
        ("[2026-11-30 15:45:26,567: ERROR/MainProcess] Cannot connect", ["error    Cannot connect"]),
        ("what a tool prints", ["what a tool prints"]),
        ('{"what": "a tool prints"}', ['{"what": "a tool prints"}']),
        ("", []),
        ("worker: Warm shutdown (MainProcess)", []),
    ],
)
def test_quiet_shows_what_matters(shown: Any, line: str, text: list[str]) -> None:
    assert shown([line]) == text


def test_what_all_workers_say_of_an_agent_is_told_once(shown: Any) -> None:
    assert shown(["error: graphs.a: no", "error: graphs.a: no"]) == ["error: graphs.a: no"]


def test_verbose_shows_all(shown: Any) -> None:
    lines = [event("run.claimed", run_id="r"), "[2026-11-30 15:45:26,567: INFO/MainProcess] Connected"]
    assert shown(lines, verbose=True) == ["info     run.claimed run_id=r", "info     Connected"]
