"""`placet dev`: an embedded server and workers for the user's own agents, started again when code changes."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from .embedded import embedded_server, port_is_free
from .errors import InvalidSettings
from .fleet import worker_command, worker_env
from .output import console, plain
from .processes import Supervisor, on_stop_signal
from .settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

DATA_DIR = Path(".placet")
_COLOURS = ("cyan", "magenta", "green", "blue", "bright_red", "bright_yellow")
_GRACE_SECONDS = 2.0
_MARGIN_SECONDS = 3.0
_ENDINGS = (".py", ".json", ".toml", ".yaml", ".yml", ".env", ".md", ".txt", ".jinja")


async def develop(*, processes: int, redis_url: str | None, port: int, reset: bool) -> int:
    """Run until Ctrl-C; 0 then.

    Raises:
        InvalidSettings: when the embedded server cannot start, or watchfiles is not installed.
    """
    try:
        import watchfiles  # noqa: F401, PLC0415
    except ImportError:
        raise InvalidSettings("placet dev needs: pip install 'placet[dev-server]'") from None
    log = Log()
    stop = Stop()
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(on_stop_signal(stop))
        if redis_url is None:
            chosen = port if port_is_free(port) else None
            server = await stack.enter_async_context(
                embedded_server(data_dir=_absolute(DATA_DIR), port=chosen, reset=reset)
            )
            redis_url = server.url
        log.say(f"server  {redis_url}  (elsewhere: export PLACET_REDIS_URL={redis_url})")
        settings = Settings.from_env(redis_url=redis_url, broker_url=redis_url)
        settings = replace(settings, grace_seconds=min(settings.grace_seconds, _GRACE_SECONDS))
        config = _absolute(settings.config)
        log.say(f"agents  {config}")
        changes = _changes(config.parent)
        async with contextlib.aclosing(changes):
            await _serve(settings, processes, log=log, stop=stop, changes=changes)
    log.say("stopped")
    return 0


class Stop:
    """What Ctrl-C asks for: the end of `placet dev`, told on to the workers of the moment."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.supervisor: Supervisor | None = None

    def __call__(self) -> None:
        """Ask, more urgently each time."""
        self.asked.set()
        if self.supervisor is not None:
            self.supervisor.end()


class Log:
    """Prints lines behind the name of their process, in its colour."""

    def __init__(self) -> None:
        self._console = console()
        self._colours: dict[int, str] = {}

    def line(self, pid: int, line: str) -> None:
        """Print what a worker process said."""
        style = self._colours.setdefault(pid, _COLOURS[len(self._colours) % len(_COLOURS)])
        self._console.print(Text(f"{pid:>8} | ", style=style), Text.from_ansi(line), sep="", soft_wrap=True)

    def say(self, text: str) -> None:
        """Print a line of our own."""
        self._console.print(Text("  placet | ", style="bold"), Text(plain(text)), sep="", soft_wrap=True)


async def _serve(
    settings: Settings, processes: int, *, log: Log, stop: Stop, changes: AsyncGenerator[set[str]]
) -> None:
    """Start workers again after each change, until asked to stop."""
    changed = asyncio.ensure_future(anext(changes))
    while not stop.asked.is_set():
        supervisor = stop.supervisor = Supervisor(
            commands=[worker_command(settings, number=number) for number in range(1, processes + 1)],
            env=worker_env(settings),
            on_line=log.line,
            say=log.say,
            death_signal=signal.SIGKILL,
        )
        serving = asyncio.create_task(supervisor.run())
        await asyncio.wait({serving, changed}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done() and not stop.asked.is_set():
            log.say("waiting for a change")
            asked = asyncio.create_task(stop.asked.wait())
            await asyncio.wait({asked, changed}, return_when=asyncio.FIRST_COMPLETED)
            asked.cancel()
        if changed.done() and not stop.asked.is_set():
            log.say(f"changed: {', '.join(sorted(changed.result()))}; starting the workers again")
            changed = asyncio.ensure_future(anext(changes))
            supervisor.end()
        await _ended(supervisor, serving, seconds=settings.grace_seconds + _MARGIN_SECONDS)
    changed.cancel()
    await asyncio.wait({changed})


async def _ended(supervisor: Supervisor, serving: asyncio.Task[int], *, seconds: float) -> None:
    """Wait for the workers that were told to end, and tell them more urgently each time it is too long."""
    while not serving.done():
        await asyncio.wait({serving}, timeout=seconds)
        if not serving.done():
            supervisor.end()
    serving.result()


def _absolute(path: str | Path) -> Path:
    return Path(path).resolve()


async def _changes(root: Path) -> AsyncGenerator[set[str]]:
    """Names of the files under `root` that changed, a set for each burst."""
    from watchfiles import Change, DefaultFilter, awatch  # noqa: PLC0415

    default = DefaultFilter(ignore_paths=[root / DATA_DIR])

    def is_code(change: Change, path: str) -> bool:
        return path.endswith(_ENDINGS) and default(change, path)

    async for burst in awatch(root, watch_filter=is_code):
        yield {str(Path(path).relative_to(root)) for _, path in burst}
