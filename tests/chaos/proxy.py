"""The network between one worker and the store: a TCP proxy that can be cut or stalled."""

from __future__ import annotations

import asyncio
from contextlib import suppress

_CHUNK = 1 << 16


class Proxy:
    """Listens on a port of its own and passes on what it gets, both ways, while it may."""

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        """The port it leads to."""
        self.delay_seconds = 0.0
        """How long what it gets stays on its way."""
        self._flows = asyncio.Event()
        self._flows.set()
        self._cut = False
        self._open: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1")
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
        """Cut what is open, listen no more, and wait until all is closed."""
        if self._server is not None:
            self._server.close()
        self.cut()
        self._flows.set()
        if self._serving:
            await asyncio.wait(self._serving)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._cut:
            writer.transport.abort()
            return
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.upstream)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, up_writer}
        self._open |= pair
        try:
            await asyncio.gather(self._pump(reader, up_writer), self._pump(up_reader, writer))
        finally:
            self._open -= pair
            for one in pair:
                one.transport.abort()
                with suppress(OSError):
                    await one.wait_closed()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await reader.read(_CHUNK):
                await self._flows.wait()
                await asyncio.sleep(self.delay_seconds)
                writer.write(chunk)
                await writer.drain()
        # either side's end is the other's too
        writer.transport.abort()
