"""`placet demo`: the main job, watched, with every decision and with none."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE
from typing import TYPE_CHECKING, Any

import psutil
import pytest

if TYPE_CHECKING:
    from asyncio.subprocess import Process

PATIENCE = 90
LAST_LINES = {
    "approve": "Approved: refund of 42.00 EUR ran once, in process {end} (paused in {pause}).",
    "edit": "Edited: refund of 21.00 EUR ran once, in process {end} (paused in {pause}).",
    "reject": "Rejected: refund of 42.00 EUR never ran; process {end} finished (paused in {pause}).",
    "respond": "Responded: refund of 42.00 EUR never ran; process {end} finished (paused in {pause}).",
}


async def start(*options: str) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "placet.cli", "demo", *options, stdin=PIPE, stdout=PIPE, stderr=PIPE
    )


async def demo(*options: str, stdin: str = "") -> tuple[int | None, list[dict[str, Any]], str]:
    """Exit status, JSON lines and what went to standard error; nothing it started is left."""
    process = await start("--json", *options)
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate(stdin.encode())
    lines = [json.loads(line) for line in out.splitlines()]
    assert all("pid" in line for line in lines)
    started = [line["pid"] for line in lines if line["type"] in {"server.started", "worker.started"}]
    assert len(started) >= 3
    assert [pid for pid in started if psutil.pid_exists(pid)] == []
    return process.returncode, lines, err.decode()


def pid_of(lines: list[dict[str, Any]], type_: str) -> int:
    pid: int = [line for line in lines if line["type"] == type_][-1]["pid"]
    return pid


@pytest.mark.parametrize("decision", ["approve", "edit", "reject", "respond"])
async def test_another_process_finishes_what_was_decided(decision: str) -> None:
    status, lines, err = await demo("--decide", decision)
    assert status == 0, err
    pause, end = pid_of(lines, "run.interrupted"), pid_of(lines, "run.ended")
    assert pid_of(lines, "run.started") == pause
    assert pid_of(lines, "worker.stopped") == pause
    assert pid_of(lines, "run.resumed") == end != pause
    assert lines[-1]["type"] == "summary"
    assert lines[-1]["message"] == LAST_LINES[decision].format(pause=pause, end=end)


async def test_a_person_edits_in_the_terminal() -> None:
    """A bare Enter asks again, keeps an argument, and decides nothing."""
    status, lines, err = await demo(stdin="\nedit\nback\nedit\n\ntwenty\n20\n")
    assert status == 0, err
    assert "Nothing is decided yet" in err
    assert "That is not a number." in err
    assert lines[-1]["args"] == {"order_id": "A-17", "amount": 20}


@pytest.mark.parametrize("stdin", ["", "\n\nyes\n", "edit\n"])
async def test_nothing_is_decided_without_a_decision(stdin: str) -> None:
    status, lines, err = await demo(stdin=stdin)
    assert status == 1
    assert "approval.decided" not in {line["type"] for line in lines}
    error = json.loads(err.splitlines()[-1])["error"]
    assert error["type"] == "EndOfInput"
    assert "nothing was decided" in error["message"]


async def test_the_timeline_ends_with_what_happened() -> None:
    process = await start("--decide", "approve")
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate()
    assert process.returncode == 0, err
    lines = out.decode().splitlines()
    assert lines[-1].startswith("Approved: refund of 42.00 EUR ran once, in process ")
    assert "run.interrupted" in out.decode()


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
async def test_a_stopped_demo_leaves_nothing(which: signal.Signals) -> None:
    process = await start()
    assert process.stderr is not None
    async with asyncio.timeout(PATIENCE):
        await process.stderr.readuntil(b"respond? ")
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) >= 2
        process.send_signal(which)
        _, err = await process.communicate()
    assert process.returncode == 130
    assert err == b"\nstopped; the demo's server and its run go with it\n"
    assert [child for child in children if child.is_running()] == []
