"""All that middleware shares over workers, one noun a file beside this one."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ..settings import Settings
from .connection import Connection
from .counts import RedisCallCounts
from .ledger import RedisToolCalls
from .models import RedisModels
from .tries import RedisTries
from .verdicts import RedisVerdicts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class RedisSharedState(RedisToolCalls, RedisCallCounts, RedisModels, RedisTries, RedisVerdicts):
    """Shared by all processes on one Redis; a worker's is fenced by the token of its lease.

    Made by `open` for use without Placet's workers: nothing is fenced there.
    """

    def __init__(self, connection: Connection, *, token: int | None = None) -> None:
        super().__init__(connection, token=token)
        self.loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, *, namespace: str = "placet-middleware") -> AsyncIterator[RedisSharedState]:
        """Connect, and close at the end; what is shared lies under `namespace`."""
        settings = Settings.from_env({}, redis_url=url, namespace=namespace)
        async with Connection.open(settings) as connection:
            yield cls(connection)
