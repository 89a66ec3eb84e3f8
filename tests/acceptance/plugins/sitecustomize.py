"""Kills its process at an exact point; Python imports it at the start of every worker that has it on its path.

PLACET_TEST_KILL is `before` or `after`, a space, and `package.module:Class.method` of an async method. The
first process to get there while the file `kill` stands among the barriers takes the file away and dies.
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
from pathlib import Path
from typing import Any


def _die() -> None:
    try:
        (Path(os.environ["PLACET_TEST_BARRIERS"]) / "kill").unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def _arm(when: str, target: str) -> None:
    module, _, path = target.partition(":")
    cls, _, name = path.partition(".")
    owner = getattr(importlib.import_module(module), cls)
    method = getattr(owner, name)

    @functools.wraps(method)
    async def deadly(*args: Any, **kwargs: Any) -> Any:
        if when == "before":
            _die()
        result = await method(*args, **kwargs)
        if when == "after":
            _die()
        return result

    setattr(owner, name, deadly)


if point := os.environ.get("PLACET_TEST_KILL"):
    _arm(*point.split())
