"""`placet dev`: an embedded server and workers for the user's own agents, started again when code changes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InvalidAgent, InvalidSettings
from ..settings import Settings
from ..worker.processes import Supervisor, on_stop_signal
from ..worker.serve import worker_command, worker_env
from .embedded import embedded_server, port_is_free
from .files import ProjectFiles
from .lines import Log, WorkerLines

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from ..agents.langgraph_json import Project

DATA_DIR = Path(".placet")
_GRACE_SECONDS = 2.0
_MARGIN_SECONDS = 3.0
_SETTLED_SECONDS = 60.0
"""A worker that fails before that, on a slow machine too, failed at its agents."""


async def develop(*, processes: int, redis_url: str | None, port: int, reset: bool, verbose: bool) -> int:
    """Run until Ctrl-C; 0 then.

    Raises:
        InvalidSettings: when the embedded server cannot start, or watchfiles is not installed.
        InvalidAgent: when there is no `langgraph.json`, or it cannot be used; nothing was started then.
    """
    try:
        import watchfiles  # noqa: F401, PLC0415
    except ImportError:
        raise InvalidSettings("placet dev needs: pip install 'placet[dev-server]'") from None
    # checked before anything starts; which server it is going to be is not known yet
    settings = Settings.from_env(redis_url=redis_url or f"redis://127.0.0.1:{port}/0")
    files = ProjectFiles(_absolute(settings.config))
    project = files.read()
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
        found = os.environ.get("PLACET_REDIS_URL") or Settings.from_env({}).redis_url
        log.say(f"server: {'' if redis_url == found else 'export PLACET_REDIS_URL='}{redis_url}")
        log.say(f"agents: {project.file}")
        settings = replace(
            settings,
            redis_url=redis_url,
            broker_url=redis_url,
            grace_seconds=min(settings.grace_seconds, _GRACE_SECONDS),
            log_format="json",
        )
        lines = WorkerLines(log=log, processes=processes, verbose=verbose)
        changes = _changes(files, _roots(project))
        async with contextlib.aclosing(changes):
            await _serve(settings, processes, log=log, lines=lines, stop=stop, files=files, changes=changes)
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


async def _serve(
    settings: Settings,
    processes: int,
    *,
    log: Log,
    lines: WorkerLines,
    stop: Stop,
    files: ProjectFiles,
    changes: AsyncGenerator[set[str]],
) -> None:
    """Start workers again after each change, until asked to stop."""
    changed = asyncio.ensure_future(anext(changes))
    while not stop.asked.is_set():
        lines.begin()
        supervisor = stop.supervisor = Supervisor(
            commands=[worker_command(settings, number=number) for number in range(1, processes + 1)],
            env={**worker_env(settings), "PYTHONUNBUFFERED": "1"},
            on_line=lines.line,
            say=log.say,
            death_signal=signal.SIGKILL,
            settled_seconds=_SETTLED_SECONDS,
        )
        serving = asyncio.create_task(supervisor.run())
        await asyncio.wait({serving, changed}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done() and not stop.asked.is_set():
            files.broken = True
            log.say("waiting for a change")
            asked = asyncio.create_task(stop.asked.wait())
            await asyncio.wait({asked, changed}, return_when=asyncio.FIRST_COMPLETED)
            asked.cancel()
        if changed.done() and not stop.asked.is_set():
            log.say(f"changed: {', '.join(sorted(changed.result()))}; starting the workers again")
            with contextlib.suppress(InvalidAgent):  # its workers say so
                files.read()
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


def _roots(project: Project) -> list[Path]:
    """Where the project's files are, each folder once."""
    places = {*project.directories, *(source.path.parent for source in project.agents if source.path)}
    return [one for one in places if not any(one != root and one.is_relative_to(root) for root in places)]


async def _changes(files: ProjectFiles, roots: Sequence[Path]) -> AsyncGenerator[set[str]]:
    """Names of what changed that the workers were started from, a set for each burst of writing."""
    from watchfiles import DefaultFilter, awatch  # noqa: PLC0415

    ignored = DefaultFilter(ignore_paths=[root / DATA_DIR for root in roots])
    async for burst in awatch(*roots, watch_filter=ignored):
        if names := files.changed(Path(path) for _, path in burst):
            yield names
