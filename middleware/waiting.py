"""Waiting in a thread for the shared state, which lives on an event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

LOOP_SECONDS = 10.0
"""How long a sync call waits for the event loop to turn before it takes it for blocked."""


def wait(coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop | None) -> T:
    """Run on the shared state's event loop, from another thread.

    Raises:
        RuntimeError: when it is called on an event loop, or the loop is blocked.
    """
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if running is None and loop is None:
        return asyncio.run(coroutine)
    turning = threading.Event()
    if running is None and loop is not None:
        loop.call_soon_threadsafe(turning.set)
        if turning.wait(LOOP_SECONDS):
            return asyncio.run_coroutine_threadsafe(coroutine, loop).result()
    coroutine.close()
    raise RuntimeError("an agent was invoked synchronously on an event loop, which it blocks: use ainvoke")
