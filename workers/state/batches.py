"""Script calls that wait for Redis at the same time go there together, as one pipeline."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError
from redis.exceptions import TimeoutError as RedisTimeoutError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redis.asyncio import Redis
    from redis.commands.core import AsyncScript


class _Call(NamedTuple):
    script: AsyncScript
    keys: Sequence[str]
    args: Sequence[Any]
    reply: asyncio.Future[Any]


class Batches:
    """Calls on one client, each with a reply or error of its own; not a transaction.

    With many runs in flight most of a call's cost is its own way to the server and back.

    Args:
        redis: sends again what it does not get through, or does not, as it was made to.
        seconds: what one batch may take, its way there and back included.
    """

    def __init__(self, redis: Redis, *, seconds: float) -> None:
        self._redis = redis
        self._seconds = seconds
        self._waiting: list[_Call] = []
        self._sending: set[asyncio.Task[None]] = set()

    async def call(self, script: AsyncScript, keys: Sequence[str], args: Sequence[Any]) -> Any:
        """Run a script; a caller that is cancelled leaves without its reply.

        Raises:
            Exception: as the client does.
        """
        loop = asyncio.get_running_loop()
        call = _Call(script, keys, args, loop.create_future())
        self._waiting.append(call)
        if len(self._waiting) == 1:
            task = loop.create_task(self._send())
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        return await call.reply

    async def _send(self) -> None:
        batch, self._waiting = self._waiting, []
        try:
            async with asyncio.timeout(self._seconds):
                replies = await self._replies(batch)
        except (RedisConnectionError, RedisTimeoutError, OSError) as error:
            replies = [error] * len(batch)
        except Exception:  # noqa: BLE001 - what one of them gave cannot be sent: the others go without it
            replies = [await self._alone(call) for call in batch]
        for call, reply in zip(batch, replies, strict=True):
            if call.reply.done():
                continue
            if isinstance(reply, Exception):
                call.reply.set_exception(reply)
            else:
                call.reply.set_result(reply)

    async def _replies(self, batch: Sequence[_Call]) -> list[Any]:
        pipeline = self._redis.pipeline(transaction=False)
        for call in batch:
            pipeline.evalsha(call.script.sha, len(call.keys), *call.keys, *call.args)
        replies: list[Any] = await pipeline.execute(raise_on_error=False)
        for number, reply in enumerate(replies):
            if isinstance(reply, NoScriptError):  # a server that has forgotten it, or never knew
                replies[number] = await self._alone(batch[number])
        return replies

    async def _alone(self, call: _Call) -> Any:
        try:
            async with asyncio.timeout(self._seconds):
                return await call.script(keys=call.keys, args=call.args, client=self._redis)
        except Exception as error:  # noqa: BLE001 - the caller's, who will see it raised
            return error
