"""A server of the trial: an embedded Valkey on one port, killed and started again with what it kept."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from redis.asyncio import Redis
from redis.exceptions import RedisError

from placet.dev.embedded import _binary, free_port
from placet.worker.processes import Child

if TYPE_CHECKING:
    from pathlib import Path


class Server:
    """Append-only file as it is by default (fsync each second), `noeviction`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.redis = Redis.from_url(self.url)
        self.lock = asyncio.Lock()
        """Held while something is done to it."""
        self._child: Child | None = None

    async def start(self) -> None:
        """Start it and wait until it answers."""
        options = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "dir": str(self._folder),
            "appendonly": "yes",
            "maxmemory-policy": "noeviction",
            "save": "",
            "logfile": str(self._folder / "server.log"),
        }
        command = [str(_binary()), *(part for k, v in options.items() for part in (f"--{k}", v))]
        self._child = await Child.start(command, death_signal=signal.SIGKILL)
        async with asyncio.timeout(60):
            while True:
                with suppress(RedisError, OSError):
                    await self.redis.ping()
                    return
                await asyncio.sleep(0.02)

    def signal(self, which: signal.Signals) -> None:
        assert self._child is not None
        self._child.signal(which)

    async def kill(self) -> None:
        self.signal(signal.SIGKILL)
        assert self._child is not None
        await self._child.wait()

    async def close(self) -> None:
        await self.redis.aclose()
        if self._child is not None:
            await self.kill()
