"""A cancellation is never lost on the way: a timeout, a stop and a lost lease all come as one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from core import request

from placet.checkpoint.saver import RedisSaver

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from core import Core

TICKS = 40


async def check(call: Callable[[], Awaitable[Any]]) -> None:
    """Cancel a loop of calls after every number of turns of the event loop."""

    async def forever() -> None:
        while True:
            await call()

    for ticks in range(TICKS):
        task = asyncio.create_task(forever())
        for _ in range(ticks):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task}, timeout=5)
        assert task.cancelled()


async def test_a_read_can_be_cancelled_at_any_moment(core: Core) -> None:
    await core.enqueue()
    await check(lambda: core.runs.get("r1"))


async def test_a_script_can_be_cancelled_at_any_moment(core: Core) -> None:
    await check(core.look)


async def test_a_listing_can_be_cancelled_at_any_moment(core: Core) -> None:
    await core.paused(request())
    await check(core.placet.approvals)


async def test_a_checkpoint_can_be_cancelled_at_any_moment(core: Core) -> None:
    saver = RedisSaver(core.redis)
    await check(lambda: saver.aget_tuple({"configurable": {"thread_id": "t1", "checkpoint_ns": ""}}))
