"""The Celery tasks: each waits while the process's event loop executes a segment."""

from __future__ import annotations

from ..celery import app
from ..dispatch import RESUME_RUN, START_RUN
from .process import current_worker


@app.task(name=START_RUN)
def start_run(run_id: str) -> str:
    """Execute a run's first segment, if there is something to do for it."""
    return current_worker().execute(run_id)


@app.task(name=RESUME_RUN)
def resume_run(run_id: str) -> str:
    """Execute a run's next segment, if there is something to do for it."""
    return current_worker().execute(run_id)
