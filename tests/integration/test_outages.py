"""A store that takes no writes for now is unavailable, for whatever is kept there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.conformance.test_utils import generate_checkpoint, generate_metadata

from placet.checkpoint.saver import RedisSaver
from placet.checkpoint.store import RedisStore
from placet.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from core import Core
    from langchain_core.runnables import RunnableConfig
    from redis.asyncio import Redis

AT: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
OF: RunnableConfig = {"configurable": {**AT["configurable"], "checkpoint_id": "c"}}

WRITES: dict[str, Callable[[Core], Awaitable[Any]]] = {
    "run": lambda core: core.placet.enqueue("agent", {}),
    "checkpoint": lambda core: RedisSaver(core.redis).aput(
        AT, generate_checkpoint(), generate_metadata(), {}
    ),
    "writes": lambda core: RedisSaver(core.redis).aput_writes(OF, [("a", 1)], "task"),
    "store": lambda core: RedisStore(core.redis).aput(("names",), "key", {"a": 1}),
}


async def full(redis: Redis) -> None:
    await redis.config_set("maxmemory", "1")


async def replica(redis: Redis) -> None:
    await redis.replicaof("127.0.0.1", 1)


@pytest.fixture(params=[full, replica])
async def refusing(core: Core, request: pytest.FixtureRequest) -> Any:
    """A server without room, and one that is a replica since a failover."""
    await core.redis.ping()
    await request.param(core.redis)
    yield core
    await core.redis.config_set("maxmemory", "0")
    await core.redis.replicaof("NO", "ONE")


@pytest.mark.parametrize("what", list(WRITES))
async def test_what_cannot_be_written_now(refusing: Core, what: str) -> None:
    with pytest.raises(StoreUnavailable, match=r"memory|replica"):
        await WRITES[what](refusing)
