"""Real worker processes against a real server, and what their tools did as seen from outside."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from placet import Placet
from placet.errors import RetryableError
from placet.settings import Settings

if TYPE_CHECKING:
    import contextlib
    import signal
    from collections.abc import Awaitable, Callable

    from placet import Approval, Run

AGENTS = Path(__file__).parent / "acceptance" / "agents" / "langgraph.json"
PATIENCE = 60
QUICK = {"lease_seconds": 3.0, "reconcile_seconds": 0.3, "grace_seconds": 5.0, "concurrency": 8}


def human(text: str) -> dict[str, Any]:
    """The input of an agent made with `create_agent`."""
    return {"messages": [{"role": "user", "content": text}]}


class Effect(NamedTuple):
    """A line that a tool wrote."""

    pid: int
    what: str
    name: str
    args: dict[str, Any]


async def wait_until(look: Callable[[], Awaitable[Any]], *, seconds: float = PATIENCE) -> Any:
    """Look again and again until there is something to see, and return it."""
    async with asyncio.timeout(seconds):
        while not (found := await look()):  # noqa: ASYNC110 - what it looks for happens in another process
            await asyncio.sleep(0.02)
    return found


async def until_it_works(call: Callable[[], Awaitable[Any]], *, seconds: float = PATIENCE) -> Any:
    """Do something again until the store, which may be away, takes it; what it returned."""

    async def done() -> Any:
        try:
            return (await call(),)
        except RetryableError:
            return None

    return (await wait_until(done, seconds=seconds))[0]


class WorkerProcess:
    """One Celery worker process."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.pid = process.pid
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def kill(self) -> None:
        """`kill -9`."""
        self.process.kill()
        self.process.wait()

    def send(self, which: signal.Signals) -> None:
        self.process.send_signal(which)

    async def ended(self) -> int:
        """Wait for its end; its exit status."""

        async def status() -> Any:
            code = self.process.poll()
            return None if code is None else (code,)

        code: int = (await wait_until(status))[0]
        return code


class Fleet:
    """Worker processes of one test, in a namespace and on a queue of their own."""

    def __init__(self, *, redis_url: str, folder: Path, **settings: Any) -> None:
        name = f"t{uuid4().hex[:8]}"
        self.folder = folder
        self.barriers = folder / "barriers"
        self.barriers.mkdir()
        self.effects_file = folder / "effects.log"
        own = {"redis_url": redis_url, "namespace": name, "queues": name, "config": str(AGENTS)}
        self.settings = Settings.from_env({}, **(own | QUICK | settings))
        self.workers: list[WorkerProcess] = []

    def env(self, **more: str) -> dict[str, str]:
        own = {f"PLACET_{name.upper()}": str(getattr(self.settings, name)) for name in Settings.__slots__}
        tests = {"PLACET_TEST_LOG": str(self.effects_file), "PLACET_TEST_BARRIERS": str(self.barriers)}
        return {**os.environ, **own, **tests, "PYTHONFAULTHANDLER": "1", **more}

    async def start(self, count: int = 1, *, pool: str = "threads", **env: str) -> list[WorkerProcess]:
        """Start workers and wait until they take messages."""
        started = [self.start_one(pool=pool, **env) for _ in range(count)]
        for worker in started:

            async def ready(worker: WorkerProcess = worker) -> bool:
                assert worker.process.poll() is None, worker.log
                return " ready." in worker.log

            await wait_until(ready)
        return started

    def start_one(self, *, pool: str = "threads", **env: str) -> WorkerProcess:
        """Start one worker and do not wait for it."""
        log = self.folder / f"worker-{len(self.workers)}.log"
        command = [sys.executable, "-m", "celery", "-A", "placet", "worker", "-P", pool]
        command += ["--loglevel", "INFO", "-n", f"{self.settings.namespace}-{len(self.workers)}@%h"]
        with log.open("wb") as out:
            process = subprocess.Popen(
                command,
                env=self.env(**env),
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        worker = WorkerProcess(process, log)
        self.workers.append(worker)
        return worker

    def by_pid(self, pid: int) -> WorkerProcess:
        return next(worker for worker in self.workers if worker.pid == pid)

    def effects(self, name: str | None = None, what: str = "start") -> list[Effect]:
        """What tools wrote: every start, or every end, of one tool or of all."""
        if not self.effects_file.exists():
            return []
        found = []
        for line in self.effects_file.read_text().splitlines():
            pid, kind, tool, args = line.split(" ", 3)
            if kind == what and name in (None, tool):
                found.append(Effect(int(pid), kind, tool, json.loads(args)))
        return found

    async def started(self, name: str, times: int = 1) -> list[Effect]:
        """Wait until a tool has started that often."""

        async def enough() -> list[Effect]:
            seen = self.effects(name)
            return seen if len(seen) >= times else []

        found: list[Effect] = await wait_until(enough)
        return found

    def open_barrier(self, name: str) -> None:
        (self.barriers / name).touch()

    def connect(self) -> contextlib.AbstractAsyncContextManager[Placet]:
        return Placet.connect(settings=self.settings)

    def stop(self) -> None:
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.process.kill()
            worker.process.wait()


async def paused(placet: Placet, run: Run) -> list[Approval]:
    """Wait for the run's pause; its requests, in the order they were asked."""
    run = await placet.wait(run.id, until="pause", timeout=PATIENCE)
    assert run.status == "interrupted", (run.status, run.error)
    return await placet._approvals.of_pause(run.id)
