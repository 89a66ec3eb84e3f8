"""All processes of a trial: store, broker, workers behind proxies, deciders, and a client of one's own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from placet import Placet
from placet.settings import Settings
from placet.worker.processes import Child
from placet.worker.serve import worker_command, worker_env

from .proxy import Proxy
from .servers import Server
from .witness import Witness

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from .plan import Plan

HERE = Path(__file__).parent
DECIDERS = 3
_READY = " ready."


class Process:
    """A child that is started again in the same place: a worker behind its proxy, or a decider."""

    def __init__(self, name: str, folder: Path, command: Sequence[str], env: dict[str, str]) -> None:
        self.name = name
        self._log = folder / f"{name}.log"
        self._command = command
        self._env = env
        self._ready = asyncio.Event()
        self._lock = asyncio.Lock()
        self.child: Child | None = None
        self.closing = False

    @property
    def pid(self) -> int:
        assert self.child is not None
        return self.child.pid

    async def start(self, *, instead_of: Child | None = None) -> None:
        """Start it, unless the trial ends or another one did already; does not wait until it is ready."""
        async with self._lock:
            if self.closing or self.child is not instead_of:
                return
            self._ready.clear()
            env = {**self._env, "PYTHONUNBUFFERED": "1"}
            self.child = await Child.start(
                self._command, env=env, on_line=self._take, death_signal=signal.SIGKILL
            )

    def _take(self, pid: int, line: str) -> None:
        with self._log.open("a") as log:
            log.write(f"{pid} {line}\n")
        if line.endswith(_READY):
            self._ready.set()

    def log(self) -> list[str]:
        """What it and those before it have printed."""
        return self._log.read_text().splitlines() if self._log.exists() else []

    async def ready(self) -> None:
        """Wait until it takes work.

        Raises:
            RuntimeError: with its log, when it ended instead.
        """
        assert self.child is not None
        waits = [asyncio.create_task(self._ready.wait()), asyncio.create_task(self.child.wait())]
        done, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED, timeout=120)
        for one in pending:
            one.cancel()
        if waits[0] not in done:
            raise RuntimeError(f"{self.name} did not start:\n" + "\n".join(self.log()[-50:]))

    async def kill(self) -> None:
        async with self._lock:
            child = self.child
        if child is not None:
            child.signal(signal.SIGKILL)
            await child.wait()


class World:
    """What a trial breaks, and what it asks."""

    def __init__(
        self, *, folder: Path, settings: Settings, store: Server, broker: Server, witness: Witness
    ) -> None:
        self.folder = folder
        self.settings = settings
        self.store = store
        self.broker = broker
        self.witness = witness
        self.workers: list[Process] = []
        self.proxies: list[Proxy] = []
        self.deciders: list[Process] = []

    @property
    def queue(self) -> str:
        """The Celery queue, a list in the broker."""
        return self.settings.queue_names[0]

    async def add_worker(self, env: dict[str, str]) -> None:
        number = len(self.workers)
        proxy = Proxy(self.store.port)
        await proxy.start()
        settings = replace(
            self.settings, redis_url=f"redis://127.0.0.1:{proxy.port}/0", broker_url=self.broker.url
        )
        command = worker_command(settings, number=number)
        worker = Process(f"worker-{number}", self.folder, command, worker_env(settings) | env)
        await worker.start()
        self.workers.append(worker)
        self.proxies.append(proxy)

    async def add_decider(self, env: dict[str, str]) -> None:
        number = len(self.deciders)
        command = [sys.executable, "-m", "chaos.deciders", str(number)]
        decider = Process(f"decider-{number}", self.folder, command, worker_env(self.settings) | env)
        await decider.start()
        self.deciders.append(decider)

    async def close(self) -> None:
        """End every process; what is stopped is killed as well."""
        for process in (*self.workers, *self.deciders):
            process.closing = True
        await asyncio.gather(*(process.kill() for process in (*self.workers, *self.deciders)))
        for proxy in self.proxies:
            await proxy.close()


@asynccontextmanager
async def open_world(
    plan: Plan, folder: Path, *, workers: int, mutation: str = ""
) -> AsyncIterator[tuple[World, Placet]]:
    """Start everything, and end it afterwards; gives a client that reaches the store directly."""
    async with AsyncExitStack() as stack:
        store, broker = Server(folder / "store"), Server(folder / "broker")
        for server in (store, broker):
            stack.push_async_callback(server.close)
            await server.start()
        witness = Witness(folder / "witness.sqlite")
        witness.create()
        settings = Settings.from_env(
            {},
            redis_url=store.url,
            broker_url=broker.url,
            namespace="chaos",
            queues="chaos",
            config=str(HERE / "langgraph.json"),
            lease_seconds=plan.lease_seconds,
            reconcile_seconds=0.3,
            grace_seconds=5.0,
            concurrency=40,
            # a thousand runs, hundreds of dead workers: none of them is to be taken for poison
            max_attempts=50,
            max_deaths=50,
        )
        world = World(folder=folder, settings=settings, store=store, broker=broker, witness=witness)
        stack.push_async_callback(world.close)
        path = [str(HERE.parent)] + ([str(HERE / "mutated")] if mutation else [])
        env = {
            "PYTHONPATH": os.pathsep.join(path),
            "CHAOS_WITNESS": str(folder / "witness.sqlite"),
            "CHAOS_SEED": str(plan.seed),
            "CHAOS_MUTATION": mutation,
        }
        for _ in range(workers):
            await world.add_worker(env)
        for _ in range(DECIDERS):
            await world.add_decider(env)
        for process in (*world.workers, *world.deciders):
            await process.ready()
        client = await stack.enter_async_context(Placet.connect(settings=settings))
        yield world, client
