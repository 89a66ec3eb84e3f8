"""What one worker process holds, and how Celery starts and stops it."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import platform
import signal
import socket
import sys
import threading
import time
import warnings
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog
from celery import signals
from celery.exceptions import SecurityWarning

from ..agents.graphs import Agents
from ..checkpoint import checkpointer, store
from ..digest import digest_of
from ..dispatch import Dispatcher
from ..errors import PlacetError, RetryableError
from ..execution.engine import Engine
from ..execution.reconciler import Reconciler
from ..logs import configure_logs, mask_logging
from ..sealing import seal_of
from ..settings import Settings
from ..state.approvals import Approvals
from ..state.connection import Connection
from ..state.leases import Leases
from ..state.timers import Timers
from .event_loop import EventLoop

if TYPE_CHECKING:
    from celery import Celery

log = structlog.get_logger("placet")

STOP_SECONDS = 15.0
"""What a stop may take beyond its grace before the process is ended as it is."""
COLLECT_AFTER = (10_000, 20, 50)
"""Python's thresholds of garbage collection: a quarter of a worker's time goes into it with its defaults."""
LINGER_SECONDS = 3.0
"""What a process that has given everything back may take to end by itself."""


class Worker:
    """The event loop of a worker process and all that lives on it."""

    def __init__(self, *, settings: Settings, app: Celery) -> None:
        self.settings = settings
        self._app = app
        self._loop = EventLoop(threads=min(settings.concurrency, 64))
        self._stack = AsyncExitStack()
        self._engine: Engine | None = None
        self._dispatcher: Dispatcher | None = None
        self._reconciler: Reconciler | None = None
        self._reconciling: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Load the agents and begin to look after the store.

        Raises:
            PlacetError: when a setting or an agent cannot be used.
        """
        self._loop.submit(self._open()).result()
        # what is loaded stays: without this the collector goes through all of it, over and over, for the sake
        # of the runs in flight, which are freed without it
        gc.collect()
        gc.freeze()
        gc.set_threshold(*COLLECT_AFTER)

    def execute(self, run_id: str) -> str:
        """Execute a run's next segment; blocks the calling thread, not the loop."""
        assert self._engine is not None  # noqa: S101 - `start` comes first
        try:
            return self._loop.submit(self._engine.execute(run_id)).result()
        except RetryableError as error:
            # the store is away: the wake-up is sent again, Celery has nothing to tell of
            log.warning("run.not_claimed", run_id=run_id, error=str(error))
            return "unavailable"

    def begin_stop(self, *, grace_seconds: float, status: int) -> None:
        """Let segments reach a checkpoint, cancel the rest, give all back; returns at once.

        The process ends by itself then, or is ended with `status`: neither a thread in which a tool blocks
        nor a blocked loop keeps it alive.
        """
        stopped = self._loop.submit(self._stop(grace_seconds))

        def end() -> None:
            with suppress(Exception):
                stopped.result(grace_seconds + STOP_SECONDS)
            if status == 0:
                time.sleep(LINGER_SECONDS)
            os._exit(status)

        threading.Thread(target=end, name="placet-end", daemon=True).start()

    async def _stop(self, grace_seconds: float) -> None:
        if self._engine is not None and self._dispatcher is not None:
            await self._engine.stop(grace_seconds=grace_seconds)
            await self._dispatcher.flush()
        if self._reconciler is not None and self._reconciling is not None:
            await _end(self._reconciling)
            await self._reconciler.leave()

    def close(self) -> None:
        """Release everything."""
        self._loop.submit(self._stack.aclose()).result(10)
        self._loop.stop()

    async def _open(self) -> None:
        settings, owner = self.settings, f"{socket.gethostname()}:{os.getpid()}"
        stack = self._stack
        connection = await stack.enter_async_context(Connection.open(settings))
        saver = await stack.enter_async_context(checkpointer(connection.reader, settings))
        agents = await Agents.load(settings, checkpointer=saver, store=store(connection.reader, settings))
        dispatcher = self._dispatcher = Dispatcher(settings=settings, app=self._app)
        stack.push_async_callback(dispatcher.aclose)
        fleet = settings.build_id or digest_of([agents.digest, settings.allowed_types])
        self._engine = Engine(
            agents=agents,
            leases=Leases(connection, owner=owner, fleet=fleet),
            approvals=Approvals(connection),
            dispatcher=dispatcher,
            settings=settings,
        )
        self._reconciler = Reconciler(
            timers=Timers(connection, owner=owner, fleet=fleet),
            engine=self._engine,
            dispatcher=dispatcher,
            settings=settings,
            facts=_facts(settings, agents.names),
            checkpoints=saver,
        )
        self._reconciling = asyncio.create_task(self._reconciler.run())
        for forever in (asyncio.create_task(self._engine.keep_leases()), self._reconciling):
            stack.push_async_callback(_end, forever)
        log.info("worker.started", agents=agents.names, owner=owner)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


def _facts(settings: Settings, agents: tuple[str, ...]) -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "queues": settings.queue_names,
        "concurrency": settings.concurrency,
        "agents": agents,
        "build_id": settings.build_id,
        "key_id": "" if (seal := seal_of(settings.encryption_key)) is None else seal.key_id,
        "python": platform.python_version(),
        "started_at": datetime.now(UTC).isoformat(),
    }


_worker: Worker | None = None


def current_worker() -> Worker:
    """The worker of this process; Celery's signals make it."""
    assert _worker is not None  # noqa: S101 - tasks run in a started worker
    return _worker


@signals.celeryd_init.connect
def _ignore_superuser(**_: object) -> None:
    """What Celery warns root of are messages that could run code; ours hold a run id, as JSON."""
    warnings.filterwarnings("ignore", category=SecurityWarning)


@signals.celeryd_init.connect
def _check_pool(conf: Any, options: dict[str, Any], **_: object) -> None:
    """A forked process has no event loop: only pools that stay in this process will do."""
    pool = options.get("pool") or conf.worker_pool
    name = pool if isinstance(pool, str) else f"{pool.__module__}"
    if not any(word in name for word in ("thread", "solo")):
        sys.exit(f"error: placet runs on Celery's threads pool (-P threads), not {name}")


@signals.worker_init.connect
def _start(sender: Any, **_: object) -> None:
    """Load everything before the first message is taken; what fails is one line and an exit."""
    global _worker  # noqa: PLW0603 - Celery's signals leave no other place
    settings = Settings.from_env()
    configure_logs(settings)
    mask_logging()
    for name in ("celery.worker.strategy", "celery.app.trace"):
        # of a message that came and went well, by an id that nothing else knows: the engine tells of runs
        logging.getLogger(name).setLevel(logging.WARNING)
    worker = Worker(settings=settings, app=sender.app)
    try:
        worker.start()
    except PlacetError as error:
        sys.exit(f"error: {error}")
    _worker = worker


@signals.worker_ready.connect
def _take_cold_shutdown(**_: object) -> None:
    """Be told of a cold shutdown: Celery's own, on threads, waits for the tasks before it tells anyone."""

    def stop(*_: object) -> None:
        if _worker is not None:
            log.warning("worker.cold_shutdown")
            _worker.begin_stop(grace_seconds=0, status=1)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGQUIT, stop)


@signals.worker_shutting_down.connect
def _begin_stop(how: str, **_: object) -> None:
    if _worker is not None and how == "Warm":
        _worker.begin_stop(grace_seconds=_worker.settings.grace_seconds, status=0)


@signals.worker_shutdown.connect
def _close(**_: object) -> None:
    if _worker is not None:
        _worker.close()
