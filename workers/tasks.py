"""The Celery tasks: each waits while the process's event loop executes a segment."""

from __future__ import annotations

import structlog

from .celery import app
from .worker import current_worker

log = structlog.get_logger("placet")


@app.task(name="placet.start_run")
def start_run(run_id: str) -> str:
    """Execute a run's first segment, if there is something to do for it."""
    return _execute(run_id)


@app.task(name="placet.resume_run")
def resume_run(run_id: str) -> str:
    """Execute a run's next segment, if there is something to do for it."""
    return _execute(run_id)


def _execute(run_id: object) -> str:
    # whoever can write to the broker may send anything; a wake-up is a run's id
    if not isinstance(run_id, str):
        log.warning("message.refused", reason=f"a run id is text, not {type(run_id).__name__}")
        return "refused"
    return current_worker().execute(run_id)
