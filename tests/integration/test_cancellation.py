"""A cancellation reaches whoever waits for the store: a run that is to stop must not go on."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from core import Core

    from placet.state.connection import Connection

CALLS: dict[str, Callable[[Connection], Awaitable[Any]]] = {
    "script": lambda c: c.run("renew", 1000),
    "write": lambda c: c.redis.set("cancelled", 1, px=1),
    "read": lambda c: c.read(c.reader.get("x")),
    "blocking read": lambda c: c.read(c.blocking.xread({"x": "$"}, block=50)),
}


@pytest.mark.parametrize("call", CALLS)
async def test_a_cancellation_is_never_lost(core: Core, call: str) -> None:
    async def again_and_again() -> None:
        while True:
            await CALLS[call](core.connection)

    dice = random.Random(call)  # noqa: S311 - the same moments each time
    for _ in range(200):
        tasks = [asyncio.create_task(again_and_again()) for _ in range(3)]
        for _ in range(dice.randrange(12)):  # each turn of the loop is another moment
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        done, lost = await asyncio.wait(tasks, timeout=5)
        assert not lost
        assert all(task.cancelled() for task in done)
