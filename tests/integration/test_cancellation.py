"""A cancelled call on the store is cancelled, however it falls."""

from __future__ import annotations

import asyncio

from placet.settings import Settings
from placet.state.connection import Connection

CALLERS = 5


async def test_cancellation_comes_through(redis_url: str) -> None:
    async with Connection.open(Settings.from_env({}, redis_url=redis_url)) as connection:

        async def call() -> None:
            while True:
                await connection.read(connection.patient.time())
                await connection.run("renew", 1000)

        for turn in range(200):
            calls = [asyncio.create_task(call()) for _ in range(CALLERS)]
            for _ in range(turn % 50):
                await asyncio.sleep(0)
            for one in calls:
                one.cancel()
            _, going = await asyncio.wait(calls, timeout=5)
            assert not going, turn
