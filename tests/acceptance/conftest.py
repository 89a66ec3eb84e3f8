"""Worker processes for each test, stopped after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from brokers import RabbitBroker, RedisBroker

from fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from brokers import Broker

    from placet import Placet


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> str:
    """The checkpointer that the workers use; a test may be parametrized with it."""
    return getattr(request, "param", "placet")


@pytest.fixture
def store_url(backend: str, request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue("stack_url" if backend == "langgraph-redis" else "redis_url")
    return url


@pytest.fixture
def broker(store_url: str, request: pytest.FixtureRequest) -> Broker:
    """Redis with the records, or RabbitMQ where a test is parametrized with it or `--broker` says so."""
    if getattr(request, "param", request.config.getoption("broker")) == "rabbitmq":
        return RabbitBroker(request.getfixturevalue("rabbitmq"))
    return RedisBroker(store_url)


@pytest.fixture
def fleet(backend: str, store_url: str, broker: Broker, tmp_path: Path, request: Any) -> Any:
    """Workers of the test; `@pytest.mark.settings(lease_seconds=60)` sets what they run with."""
    marker = request.node.get_closest_marker("settings")
    given = {"checkpointer": backend, **(marker.kwargs if marker else {})}
    made = Fleet(redis_url=store_url, broker_url=broker.url, folder=tmp_path, **given)
    yield made
    made.stop()
    if isinstance(broker, RabbitBroker):
        broker.delete(made.settings.queue_names[0])


@pytest.fixture
async def placet(fleet: Fleet) -> AsyncIterator[Placet]:
    async with fleet.connect() as client:
        yield client
