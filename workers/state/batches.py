"""Script calls that wait for Redis at the same time go there together, as one pipeline."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from redis.exceptions import DataError, NoScriptError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redis.asyncio import Redis
    from redis.commands.core import AsyncScript

CALL_SECONDS = 10
"""What one batch may take, its way there and back included."""


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    script: AsyncScript
    keys: Sequence[str]
    args: Sequence[Any]
    reply: asyncio.Future[Any]


class Batches:
    """Calls on one client, each with a reply or error of its own; not a transaction.

    With many runs in flight most of a call's cost is its own way to the server and back.
    """

    def __init__(self, redis: Redis, *, seconds: float = CALL_SECONDS) -> None:
        self._redis = redis
        self._seconds = seconds
        self._waiting: list[_Call] = []
        self._next: asyncio.Task[None] | None = None
        self._sending: set[asyncio.Task[None]] = set()

    async def call(self, script: AsyncScript, keys: Sequence[str], args: Sequence[Any]) -> Any:
        """Run a script.

        A caller that is cancelled takes its call back, or waits until it is over: nothing of it happens
        after what the caller does next. Cancelled again, it leaves at once.

        Raises:
            Exception: as the client does; TimeoutError after `seconds`.
        """
        loop = asyncio.get_running_loop()
        call = _Call(script, keys, args, loop.create_future())
        if self._next is None or self._next.done():
            self._next = loop.create_task(self._send())
            self._sending.add(self._next)
            self._next.add_done_callback(self._sending.discard)
        sending = self._next
        self._waiting.append(call)
        try:
            return await call.reply
        except asyncio.CancelledError:
            if call in self._waiting:
                self._waiting.remove(call)
            else:
                await asyncio.wait([sending])
            raise

    async def _send(self) -> None:
        await asyncio.sleep(0)  # a step's writes and the checkpoint after it come within a moment
        batch, self._waiting, self._next = self._waiting, [], None
        try:
            async with asyncio.timeout(self._seconds):
                replies = await self._replies(batch)
        except Exception as error:  # noqa: BLE001 - the callers', who will see it raised
            replies = [error] * len(batch)
        for call, reply in zip(batch, replies, strict=True):
            if call.reply.done():  # its caller was cancelled
                continue
            if isinstance(reply, Exception):
                call.reply.set_exception(reply)
            else:
                call.reply.set_result(reply)

    async def _replies(self, batch: Sequence[_Call]) -> list[Any]:
        pipeline = self._redis.pipeline(transaction=False)
        for call in batch:
            pipeline.evalsha(call.script.sha, len(call.keys), *call.keys, *call.args)
        replies: list[Any]
        try:
            replies = await pipeline.execute(raise_on_error=False)
        except (DataError, UnicodeError) as error:
            if len(batch) == 1:
                return [error]
            # found before anything was sent: the one that cannot be is its caller's error alone
            return [reply for call in batch for reply in await self._replies([call])]
        for number, (call, reply) in enumerate(zip(batch, replies, strict=True)):
            if isinstance(reply, NoScriptError):
                # somebody empties the server's script cache all the time: send the whole text
                replies[number] = await self._told(call)
        return replies

    async def _told(self, call: _Call) -> Any:
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.eval(call.script.script, len(call.keys), *call.keys, *call.args)  # type: ignore[arg-type]
        [reply] = await pipeline.execute(raise_on_error=False)
        return reply
