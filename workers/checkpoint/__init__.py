"""Checkpointers and stores for LangGraph on Redis."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.store.base import BaseStore
    from redis.asyncio import Redis

    from ..settings import Settings

# read by langgraph when it is first imported: a checkpoint then constructs no type that is not allowed
os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")


@asynccontextmanager
async def checkpointer(
    redis: Redis, settings: Settings, *, others_as_data: bool = False
) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    """The checkpointer that the settings name, on a client that stays the caller's.

    `others_as_data` is for showing a checkpoint without the agent's code, not for running one; a checkpointer
    that the deployment brings does as it does.

    Raises:
        InvalidSettings: when it cannot be used here.
        StoreUnavailable: when its server does not answer.
    """
    from .other import other_checkpointer  # noqa: PLC0415 - loads langgraph
    from .serde import CheckpointSerde, parse_allowed_types  # noqa: PLC0415 - same

    if ":" in settings.checkpointer:
        async with other_checkpointer(settings) as other:
            yield other
        return
    serde = CheckpointSerde(
        allowed_types=() if others_as_data else parse_allowed_types(settings.allowed_types),
        others_as_data=others_as_data,
    )
    options: dict[str, Any] = {
        "namespace": settings.namespace,
        "encryption_key": settings.encryption_key or None,
        "serde": serde,
    }
    if settings.checkpointer == "langgraph-redis":
        from .stack import StackSaver  # noqa: PLC0415 - loads redisvl

        yield await StackSaver.open(redis, **options)
    else:
        from .saver import RedisSaver  # noqa: PLC0415 - loads langgraph

        yield RedisSaver(redis, **options)


def store(redis: Redis, settings: Settings) -> BaseStore:
    """The agents' store, on a client that stays the caller's."""
    from .store import RedisStore  # noqa: PLC0415 - loads langgraph

    return RedisStore(
        redis,
        namespace=settings.namespace,
        encryption_key=settings.encryption_key or None,
        allowed_types=settings.allowed_types,
    )
