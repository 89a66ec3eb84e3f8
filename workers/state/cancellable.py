"""Connections to Redis that a cancellation always comes through."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from redis.exceptions import TimeoutError as RedisTimeoutError

if TYPE_CHECKING:
    from redis.asyncio import ConnectionPool


class _Cancellable:
    """Mixed into a connection class of redis-py, whose sends can swallow a cancellation.

    They use `asyncio.wait_for` when there is a socket timeout; before Python 3.12 that returns normally
    if it is cancelled in the moment in which it has a result.
    """

    socket_timeout: float | None

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        seconds, self.socket_timeout = self.socket_timeout, None
        try:
            async with asyncio.timeout(seconds):
                await super().send_packed_command(command, check_health)  # type: ignore[misc]
        except TimeoutError:
            raise RedisTimeoutError("Timeout writing to socket") from None
        finally:
            self.socket_timeout = seconds


def make_cancellable(pool: ConnectionPool) -> None:
    """Let the pool make connections of this kind, whatever they go over."""
    base = pool.connection_class
    pool.connection_class = type(f"Cancellable{base.__name__}", (_Cancellable, base), {})
