"""Checkpointers and stores for LangGraph on Redis."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.store.base import BaseStore
    from redis.asyncio import Redis

    from ..settings import Settings

# read by langgraph when it is first imported: a checkpoint then constructs no type that is not allowed
os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")


def checkpointer(
    redis: Redis, settings: Settings, *, others_as_data: bool = False
) -> BaseCheckpointSaver[Any]:
    """The checkpointer that the settings name, on a client that stays the caller's.

    `others_as_data` is for showing a checkpoint without the agent's code, not for running one.
    """
    from .saver import RedisSaver  # noqa: PLC0415 - loads langgraph
    from .serde import CheckpointSerde, parse_allowed_types  # noqa: PLC0415 - same

    serde = CheckpointSerde(
        allowed_types=() if others_as_data else parse_allowed_types(settings.allowed_types),
        others_as_data=others_as_data,
    )
    ttl = timedelta(seconds=settings.thread_ttl_seconds) if settings.thread_ttl_seconds else None
    return RedisSaver(
        redis,
        namespace=settings.namespace,
        ttl=ttl,
        encryption_key=settings.encryption_key or None,
        serde=serde,
    )


def store(redis: Redis, settings: Settings) -> BaseStore:
    """The agents' store, on a client that stays the caller's."""
    from .store import RedisStore  # noqa: PLC0415 - loads langgraph

    return RedisStore(
        redis,
        namespace=settings.namespace,
        encryption_key=settings.encryption_key or None,
        allowed_types=settings.allowed_types,
    )
