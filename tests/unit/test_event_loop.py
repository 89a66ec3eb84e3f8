"""The loop that runs live on, its threads for sync tools, and the watchdog over it."""

from __future__ import annotations

import asyncio
import contextvars
import threading

from structlog.testing import capture_logs

from placet.worker.event_loop import EventLoop


def block(told: threading.Event) -> None:
    told.wait(30)


def test_a_blocked_loop_is_told_with_its_stack() -> None:
    loop, told = EventLoop(threads=1), threading.Event()
    with capture_logs() as logs:
        loop.loop.call_soon_threadsafe(block, told)
        deadline = threading.Event()
        while not logs:
            assert not deadline.wait(0.05)
        told.set()
        loop.stop()
    (entry,) = logs
    assert (entry["event"], entry["log_level"]) == ("loop.blocked", "warning")
    assert "told.wait(30)" in entry["stack"]


def test_sync_tools_run_side_by_side_with_the_context_of_their_run() -> None:
    loop = EventLoop(threads=20)
    run: contextvars.ContextVar[int] = contextvars.ContextVar("run")
    meeting = threading.Barrier(20)

    def tool() -> int:
        meeting.wait(30)  # passes only if all twenty are in a thread at once
        return run.get()

    async def segment(number: int) -> int:
        run.set(number)
        return await asyncio.to_thread(tool)

    waiting = [loop.submit(segment(number)) for number in range(20)]
    assert [one.result(30) for one in waiting] == list(range(20))
    loop.stop()
