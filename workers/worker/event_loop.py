"""One event loop in a thread of its own: runs live there, Celery's threads only wait for them."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future

log = structlog.get_logger("placet")
P = ParamSpec("P")
T = TypeVar("T")

BLOCKED_SECONDS = 1.0
"""From here on a loop that does not come round is told of in the log, with its stack."""


class SyncThreads(ThreadPoolExecutor):
    """Threads for sync tools; one whose caller was cancelled cannot be stopped, and is told of in the log."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a function in a thread."""
        future = super().submit(fn, *args, **kwargs)
        names = structlog.contextvars.get_contextvars()

        def look(_: object) -> None:
            if future.running():
                log.warning("thread.lost", **names)
                future.add_done_callback(lambda _: log.info("thread.returned", **names))

        with suppress(RuntimeError):  # submitted from a thread, by no task
            if (caller := asyncio.current_task()) is not None:
                caller.add_done_callback(look)
        return future


class EventLoop:
    """A running loop (uvloop where there is one), its executor for sync tools, and a watchdog over it."""

    def __init__(self, *, threads: int) -> None:
        self.loop = _new_loop()
        self.loop.set_default_executor(SyncThreads(threads, thread_name_prefix="placet-sync"))
        self._thread = threading.Thread(target=self._run, name="placet-loop", daemon=True)
        self._stopped = threading.Event()
        self._beat = time.monotonic()
        self._thread.start()
        threading.Thread(target=self._watch, name="placet-watchdog", daemon=True).start()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop, from any thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def stop(self) -> None:
        """Stop the loop; what runs on it is to have ended."""
        self._stopped.set()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(5)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.call_soon(self._pulse)
        while not self._stopped.is_set():
            try:
                self.loop.run_forever()
            except (SystemExit, KeyboardInterrupt):
                # from an agent's task: asyncio hands it to whoever waits there, and lets it out of the loop
                log.warning("loop.interrupted")
        self.loop.close()

    def _pulse(self) -> None:
        self._beat = time.monotonic()
        self.loop.call_later(BLOCKED_SECONDS / 4, self._pulse)

    def _watch(self) -> None:
        told = 0.0
        while not self._stopped.wait(BLOCKED_SECONDS / 4):
            beat = self._beat
            blocked = time.monotonic() - beat
            if blocked < BLOCKED_SECONDS or told == beat:
                continue
            told = beat
            frame = sys._current_frames().get(self._thread.ident or 0)  # noqa: SLF001 - the one way to a stack
            stack = "".join(traceback.format_stack(frame)) if frame else ""
            log.warning("loop.blocked", seconds=round(blocked, 1), stack=stack)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # noqa: PLC0415 - not on every platform
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
