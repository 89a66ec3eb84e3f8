"""Pauses that the system itself ends when they are due."""

from __future__ import annotations

from typing import NoReturn

from langgraph.config import get_config

from .pause import pause
from .shared import TIMER


def park(run_id: str, *, key: str, due_ms: int, why: str) -> NoReturn:
    """Leave the worker until `due_ms`, milliseconds since 1970; then the node is entered again.

    `why` is what the run says of it meanwhile.

    Nothing before this may have an effect: whoever parks keeps in the shared state how far it was, and parks
    again with the same `key` and `due_ms` when it is entered too early.

    Raises:
        GraphInterrupt: always.
    """
    pause({"type": TIMER, "run_id": run_id, "key": key, "due": due_ms, "why": why}, get_config())
