"""The same work through Placet: real worker processes and a client, in a namespace of their own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from agents import INPUT, long_history, tool_started

from placet import Placet
from placet.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from placet import Approval, Run

CONFIG = Path(__file__).parent / "langgraph.json"


class Times(NamedTuple):
    """What one approval cycle took, in nanoseconds."""

    to_visible: int
    to_tool: int


class PlacetWorkers:
    """`count` worker processes, and a client that sees every approval request."""

    def __init__(self, *, client: Placet, processes: list[subprocess.Popen[bytes]], namespace: str) -> None:
        self.pids = [process.pid for process in processes]
        self.namespace = namespace
        self._client = client
        self._asked: dict[str, asyncio.Future[Approval]] = {}

    @classmethod
    @asynccontextmanager
    async def start(cls, *, redis_url: str, folder: Path, count: int) -> AsyncIterator[PlacetWorkers]:
        """Start them, and stop them at the end."""
        name = f"b{uuid4().hex[:5]}"  # as long as the default
        settings = Settings(
            redis_url=redis_url, namespace=name, queues=name, config=str(CONFIG), concurrency=500
        )
        logs = [folder / f"{name}-{number}.log" for number in range(count)]
        processes = [_process(settings, log) for log in logs]
        try:
            for process, log in zip(processes, logs, strict=True):
                while " ready." not in log.read_text():
                    if process.poll() is not None:
                        raise RuntimeError(log.read_text())
                    await asyncio.sleep(0.1)  # another process's log has no other sign
            async with Placet.connect(settings=settings) as client, asyncio.TaskGroup() as group:
                self = cls(client=client, processes=processes, namespace=name)
                watching = group.create_task(self._watch())
                yield self
                watching.cancel()
        finally:
            for process in processes:
                process.kill()  # nothing that it holds is wanted any more
                process.wait()

    async def _watch(self) -> None:
        async for approval in self._client.watch_approvals():
            asked = self._asked.pop(approval.run_id, None)
            if asked is not None and not asked.done():
                asked.set_result(approval)

    async def cycle(self) -> Times:
        """One approval cycle."""
        run_id = uuid4().hex
        asked = self._asked[run_id] = asyncio.get_running_loop().create_future()
        began = time.monotonic_ns()
        await self._client.enqueue("cycle", INPUT, run_id=run_id)
        approval = await asked
        visible = time.monotonic_ns()
        await self._client.decide(
            approval.id, {"type": "approve"}, reviewer="benchmark", seen=approval.digest
        )
        ended = await self._ended(run_id)
        return Times(visible - began, tool_started(ended.result) - visible)

    async def park(self) -> None:
        """A run that waits for its approval."""
        run = await self._client.enqueue("cycle", INPUT)
        await self._client.wait(run.id, until="pause")

    async def wait_all(self, count: int) -> None:
        """`count` runs at once that wait twice for a second."""
        runs = await asyncio.gather(*(self._client.enqueue("waits", INPUT) for _ in range(count)))
        for run in runs:
            await self._ended(run.id)

    async def long_thread(self) -> str:
        """A thread of a thousand messages."""
        run = await self._client.enqueue("turns", long_history())
        await self._ended(run.id)
        return run.thread_id

    async def turn(self, thread: str) -> None:
        """A further turn on it."""
        run = await self._client.enqueue("turns", INPUT, thread_id=thread)
        await self._ended(run.id)

    async def _ended(self, run_id: str) -> Run:
        run = await self._client.wait(run_id, timeout=120)
        if run.status != "success":
            raise RuntimeError(f"run {run_id} ended as {run.status}: {run.error}")
        return run


def _process(settings: Settings, log: Path) -> subprocess.Popen[bytes]:
    own = {f"PLACET_{name.upper()}": str(getattr(settings, name)) for name in Settings.__slots__}
    command = [sys.executable, "-m", "celery", "-A", "placet", "worker", "-P", "threads", "-l", "INFO"]
    command += ["-n", f"{log.stem}@%h", "--without-gossip", "--without-mingle"]
    with log.open("wb") as out:
        return subprocess.Popen(command, env={**os.environ, **own}, stdout=out, stderr=subprocess.STDOUT)


def peak_mb(pid: int) -> float:
    """The most memory that a process has held, in MB (Linux)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024
