"""The network between one worker and the store: a TCP proxy that can be cut or stalled."""

from __future__ import annotations

import asyncio
from contextlib import suppress

_CHUNK = 1 << 16


class Proxy:
    """Listens on a port of its own and passes on what it gets, both ways, while it may."""

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self._flows = asyncio.Event()
        self._flows.set()
        self._cut = False
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1")
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Reset all connections and refuse new ones."""
        self._cut = True
        for writer in list(self._open):
            writer.transport.abort()

    def stall(self) -> None:
        """Let nothing pass; what is on its way comes later."""
        self._flows.clear()

    def heal(self) -> None:
        self._cut = False
        self._flows.set()

    async def close(self) -> None:
        self.cut()
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._cut:
            writer.transport.abort()
            return
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, up_writer}
        self._open |= pair
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, up_writer))
                group.create_task(self._pump(up_reader, writer))
        finally:
            self._open -= pair

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await reader.read(_CHUNK):
                await self._flows.wait()
                writer.write(chunk)
                await writer.drain()
        # either side's end is the other's too
        writer.transport.abort()
