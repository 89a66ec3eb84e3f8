"""Runs the same piece of work many times, so many at once."""

from __future__ import annotations

import asyncio
import time
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


async def rate(work: Callable[[], Awaitable[object]], *, count: int, at_once: int) -> float:
    """How often `work` is done in a second, over `count` times."""
    gate = asyncio.Semaphore(at_once)

    async def one() -> None:
        async with gate:
            await work()

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(count)))
    return count / (time.perf_counter() - began)


async def seconds(work: Awaitable[object]) -> float:
    """How long `work` takes."""
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


def median_ms(nanoseconds: list[int]) -> float:
    """Their median in milliseconds."""
    return median(nanoseconds) / 1e6
