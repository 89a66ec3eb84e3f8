"""Holds runs at an exact point or repeats messages; Python imports it at the start of each worker.

PLACET_TEST_REPEAT is how often each Celery message is sent again.

PLACET_TEST_HOLD is `before` or `after`, a space, and `package.module:Class.method` of an async method of
the product. Whoever gets there while the file `hold` stands among the barriers is logged as `held` and
waits until it is gone.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "agents"))


async def _hold() -> None:
    from acceptance_effects import is_open, logged  # noqa: PLC0415 - not before a test asks for it

    if is_open("hold"):
        with logged("held"):
            while is_open("hold"):  # noqa: ASYNC110 - the one who takes it away is another process
                await asyncio.sleep(0.01)


def _arm(when: str, target: str) -> None:
    module, _, path = target.partition(":")
    cls, _, name = path.partition(".")
    owner = getattr(importlib.import_module(module), cls)
    method = getattr(owner, name)

    @functools.wraps(method)
    async def held(*args: Any, **kwargs: Any) -> Any:
        if when == "before":
            await _hold()
        result = await method(*args, **kwargs)
        if when == "after":
            await _hold()
        return result

    setattr(owner, name, held)


if point := os.environ.get("PLACET_TEST_HOLD"):
    _arm(*point.split())

if (again := int(os.environ.get("PLACET_TEST_REPEAT", "0"))) > 0:
    from kombu import Producer

    _send = Producer.publish

    @functools.wraps(_send)
    def _send_often(*args: Any, **kwargs: Any) -> Any:
        for _ in range(again):
            _send(*args, **kwargs)
        return _send(*args, **kwargs)

    Producer.publish = _send_often  # type: ignore[method-assign]
