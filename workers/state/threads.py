"""A thread: one conversation, on which at most one run executes at a time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..errors import NotFound
from .connection import wake_ups

if TYPE_CHECKING:
    from .connection import Connection, WakeUp


class Threads:
    """What concerns a whole conversation."""

    def __init__(self, connection: Connection) -> None:
        self._c = connection

    async def delete(self, thread_id: str) -> list[WakeUp]:
        """Cancel the thread's runs and requests, remove its checkpoints, leave a tombstone.

        Raises:
            NotFound: when nothing is known of it.
        """
        reply = await self._c.run("delete_thread", thread_id, os.getpid())
        if reply[0] == b"0":
            raise NotFound("thread", thread_id)
        return wake_ups(reply)

    async def gone(self, thread_id: str) -> str:
        """Why nothing is left of a thread that has no checkpoint; empty if nothing is known of it."""
        fields = {"deleted_at": "deleted", "expired_at": "expired", "kept": "lost"}
        key = self._c.keys("thread", thread_id)
        found = await self._c.read(self._c.reader.hmget(key, list(fields)))
        return next((why for why, text in zip(fields.values(), found, strict=True) if text), "")
