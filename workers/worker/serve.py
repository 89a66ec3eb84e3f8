"""The worker processes of one machine: how one is started, and several kept alive."""

from __future__ import annotations

import os
import sys
from dataclasses import fields
from typing import TYPE_CHECKING

from .processes import Supervisor, on_stop_signal

if TYPE_CHECKING:
    from ..settings import Settings


def worker_command(settings: Settings, *, number: int = 1) -> list[str]:
    """The command of one worker process, the `number`-th of this parent."""
    return [
        *(sys.executable, "-m", "celery", "--quiet", "--app", "placet", "worker", "--pool", "threads"),
        *("--concurrency", str(settings.concurrency), "--queues", ",".join(settings.queue_names)),
        *("--hostname", f"placet-{os.getpid()}-{number}@%h", "--loglevel", "INFO"),
    ]


def worker_env(settings: Settings) -> dict[str, str]:
    """All settings as the environment of a worker process, so that it inherits none of ours."""
    return {f"PLACET_{field.name.upper()}": str(getattr(settings, field.name)) for field in fields(settings)}


async def serve(settings: Settings, *, processes: int) -> int:
    """Keep worker processes alive until a signal; the exit status."""
    supervisor = Supervisor(
        commands=[worker_command(settings, number=number) for number in range(1, processes + 1)],
        env=worker_env(settings),
        say=lambda text: print(text, file=sys.stderr, flush=True),  # noqa: T201
    )
    with on_stop_signal(supervisor.end):
        return await supervisor.run()
