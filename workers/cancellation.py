"""Keeps cancellations that redis-py loses on Python 3.11."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable

T = TypeVar("T")


async def cancellable(command: Awaitable[T]) -> T:
    """Await a Redis command; a cancellation that came meanwhile is raised, at the latest with the reply.

    redis-py writes under `asyncio.wait_for`, which before Python 3.12 drops a cancellation that comes when
    the write is done: a timeout, a stop or a lost lease would not be noticed.
    """
    task = asyncio.current_task()
    requests = task.cancelling() if task else 0
    reply = await command
    if task and task.cancelling() > requests:
        raise asyncio.CancelledError
    return reply
