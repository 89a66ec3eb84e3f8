"""A bot's own small HTTP server, for platforms that call back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from ..errors import InvalidSettings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

SHUTDOWN_SECONDS = 10.0
MOST_BYTES = 1024 * 1024
"""Of a request's body; aiohttp answers 413 above."""


def read_address(text: str, setting: str) -> tuple[str, int]:
    """Read `host:port`.

    Raises:
        InvalidSettings: naming the setting, when it is something else.
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise InvalidSettings(f"{setting}: must be host:port, such as 127.0.0.1:8765, not {text!r}")
    return host.strip("[]"), int(port)


async def listen(address: tuple[str, int], posts: Mapping[str, Handler], *, setting: str) -> None:
    """Serve POST requests by path, and GET /health, until cancelled.

    Raises:
        InvalidSettings: when the address cannot be listened at.
    """
    app = web.Application(client_max_size=MOST_BYTES)
    app.router.add_get("/health", _health)
    for path, handler in posts.items():
        app.router.add_post(path, handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, *address).start()
        await asyncio.Event().wait()
    except OSError as error:
        raise InvalidSettings(f"{setting}: {address[0]}:{address[1]}: {error.strerror}") from None
    finally:
        await runner.cleanup()


async def _health(_: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})
