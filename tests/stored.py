"""All that a server holds: every key and value, unpacked as far as that can be done without a key."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import TYPE_CHECKING, Any

from placet.checkpoint import checkpointer
from placet.compact import inflated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis.asyncio import Redis

    from placet.settings import Settings


async def everything(redis: Redis) -> dict[str, bytes]:
    """By key what it holds."""
    return {str(key): b"\n".join(_texts([key, await _value(redis, key)])) async for key in redis.scan_iter()}


async def checkpoints(redis: Redis, settings: Settings, thread_id: str) -> str:
    """A thread's checkpoints and their writes, opened with the key."""
    async with checkpointer(redis, settings, others_as_data=True) as saver:
        found = saver.alist({"configurable": {"thread_id": thread_id}})
        return repr([one async for one in found])


async def _value(client: Redis, key: Any) -> Any:
    redis: Any = client
    kind = (await redis.type(key)).decode()
    if kind == "hash":
        return list((await redis.hgetall(key)).items())
    if kind == "list":
        return await redis.lrange(key, 0, -1)
    if kind == "set":
        return list(await redis.smembers(key))
    if kind == "zset":
        return await redis.zrange(key, 0, -1)
    if kind == "stream":
        return [list(fields.items()) for _, fields in await redis.xrange(key)]
    assert kind == "string", kind
    return await redis.get(key)


def _texts(value: Any) -> Iterator[bytes]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, bytes):
        yield value
        try:
            if value[:1] == b"\0":
                yield from _texts(inflated(value[1:]))
            elif value and len(value) % 4 == 0:
                yield from _texts(b64decode(value, validate=True))
        except (ValueError, binascii.Error):
            return
