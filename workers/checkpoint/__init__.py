"""Checkpointers and stores for LangGraph on Redis."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from redis.asyncio import Redis

    from ..settings import Settings


def checkpointer(redis: Redis, settings: Settings) -> BaseCheckpointSaver[Any]:
    """The checkpointer that the settings name, on a client that stays the caller's."""
    from .saver import RedisSaver  # noqa: PLC0415 - loads langgraph

    ttl = timedelta(seconds=settings.thread_ttl_seconds) if settings.thread_ttl_seconds else None
    return RedisSaver(
        redis,
        namespace=settings.namespace,
        ttl=ttl,
        encryption_key=settings.encryption_key or None,
        allowed_types=settings.allowed_types,
    )
