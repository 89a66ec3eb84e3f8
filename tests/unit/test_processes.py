from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from placet.worker.processes import Child, Supervisor, on_stop_signal

if TYPE_CHECKING:
    from collections.abc import Callable

FOREVER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
IGNORING = "import signal, time; signal.signal(signal.{}, signal.SIG_IGN);"
STUBBORN = [sys.executable, "-c", IGNORING.format("SIGTERM") + FOREVER[2]]


class Heard:
    """Lines that children printed, and a way to wait for a number of them."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, str]] = []
        self._changed = asyncio.Condition()

    def __call__(self, pid: int, line: str) -> None:
        self.lines.append((pid, line))
        task = asyncio.get_running_loop().create_task(self._tell())
        task.add_done_callback(lambda _: None)

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(30), self._changed:
            await self._changed.wait_for(done)


async def test_a_child_is_read_line_by_line() -> None:
    heard = Heard()
    code = "import sys; print('ü'); print('e', file=sys.stderr); print('x' * 200_000); print('end', end='')"
    child = await Child.start([sys.executable, "-c", code], on_line=heard)
    assert await child.wait() == 0
    lines = [line for _, line in heard.lines]
    assert {"ü", "e", "end"} <= set(lines)
    assert sum(line.count("x") for line in lines) == 200_000


async def test_a_child_that_ignores_sigterm_is_killed_after_the_grace_time() -> None:
    heard = Heard()
    child = await Child.start(STUBBORN, on_line=heard)
    await heard.until(lambda: bool(heard.lines))
    assert await child.stop(grace_seconds=0.1) == -signal.SIGKILL
    assert not child.running


async def test_a_child_nobody_waits_for_any_more_is_killed() -> None:
    heard = Heard()
    child = await Child.start(STUBBORN, on_line=heard)
    await heard.until(lambda: bool(heard.lines))
    stopping = asyncio.create_task(child.stop(grace_seconds=600))
    await asyncio.wait({stopping}, timeout=0.05)
    stopping.cancel()
    assert await child.wait() == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
async def test_a_child_dies_with_its_parent() -> None:
    code = (
        "import asyncio, sys\n"
        "from placet.worker.processes import Child\n"
        "async def main():\n"
        "    child = await Child.start([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "    print(child.pid, flush=True)\n"
        "    await child.wait()\n"
        "asyncio.run(main())\n"
    )
    heard = Heard()
    parent = await Child.start([sys.executable, "-c", code], on_line=heard)
    await heard.until(lambda: bool(heard.lines))
    grandchild = psutil.Process(int(heard.lines[0][1]))
    # the parent alone is killed, not its session
    psutil.Process(parent.pid).kill()
    await parent.wait()
    await asyncio.to_thread(grandchild.wait, 10)
    assert not grandchild.is_running()


async def test_the_dead_are_started_again_and_all_end_when_told() -> None:
    heard = Heard()
    said: list[str] = []
    supervisor = Supervisor(
        commands=[FOREVER, FOREVER], on_line=heard, say=said.append, settled_seconds=0, delay_seconds=0.01
    )
    running = asyncio.create_task(supervisor.run())
    await heard.until(lambda: len(heard.lines) == 2)
    victim = supervisor.pids[0]
    psutil.Process(victim).kill()
    await heard.until(lambda: len(heard.lines) == 3)
    assert len(supervisor.pids) == 2
    assert victim not in supervisor.pids
    assert f"worker {victim} ended" in said[0]
    supervisor.end()
    assert await running == 0
    assert supervisor.pids == []


async def test_a_command_that_fails_at_once_ends_all_with_its_status() -> None:
    said: list[str] = []
    supervisor = Supervisor(
        commands=[FOREVER, [sys.executable, "-c", "raise SystemExit(3)"]], on_line=Heard(), say=said.append
    )
    assert await supervisor.run() == 3
    assert "could not start" in said[0]
    assert supervisor.pids == []


async def test_the_third_time_of_asking_kills() -> None:
    heard = Heard()
    stubborn = [*STUBBORN[:2], IGNORING.format("SIGQUIT") + STUBBORN[2]]
    supervisor = Supervisor(commands=[stubborn], on_line=heard, say=lambda _: None)
    running = asyncio.create_task(supervisor.run())
    await heard.until(lambda: bool(heard.lines))
    supervisor.end()
    supervisor.end()
    assert supervisor.pids
    supervisor.end()
    assert await running == 0


async def test_stop_signals_reach_the_callback() -> None:
    asked = asyncio.Event()
    with on_stop_signal(asked.set):
        signal.raise_signal(signal.SIGTERM)
        async with asyncio.timeout(5):
            await asked.wait()
