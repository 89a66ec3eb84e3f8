"""The checkpointer's Lua scripts on one client."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

from ..state.batches import Batches
from ..state.outages import outages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redis.asyncio import Redis
    from redis.commands.core import AsyncScript

Fenced = Literal["put", "put_writes", "delete", "copy", "sweep"]
Open = Literal["get", "index", "history"]
_FENCED: tuple[Fenced, ...] = ("put", "put_writes", "delete", "copy", "sweep")
_OPEN: tuple[Open, ...] = ("get", "index", "history")
SAVED = ("head", "pending", "saved")
"""The files that read a checkpoint."""


class Scripts:
    """Runs a script by name; a server that has forgotten it is told again."""

    def __init__(self, redis: Redis) -> None:
        sources: dict[str, str] = {name: source("fence", "head", name) for name in _FENCED}
        sources |= {name: source(*SAVED, name) for name in _OPEN}
        self._batches = Batches(redis)
        self._scripts = {name: redis.register_script(source) for name, source in sources.items()}

    async def run(self, name: Fenced | Open, keys: Sequence[str], args: Sequence[Any]) -> Any:
        """Run one.

        Raises:
            StoreUnavailable: when Redis does not answer.
        """
        return await call(self._batches, self._scripts[name], keys, args)


async def call(batches: Batches, script: AsyncScript, keys: Sequence[str], args: Sequence[Any]) -> Any:
    """Run a script.

    Raises:
        StoreUnavailable: when Redis does not answer.
    """
    with outages():
        return await batches.call(script, keys, args)


@cache
def source(*names: str) -> str:
    """The text of scripts, one after another."""
    folder = files(__package__)
    return "".join(folder.joinpath(f"{name}.lua").read_text(encoding="utf-8") for name in names)
