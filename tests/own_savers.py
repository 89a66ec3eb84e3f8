"""Factories of checkpointers, as a deployment would bring them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.memory import InMemorySaver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from placet.settings import Settings

seen: list[str] = []


def plain(settings: Settings) -> InMemorySaver:
    seen.append(settings.namespace)
    return InMemorySaver()


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[InMemorySaver]:
    seen.append("opened")
    yield InMemorySaver()
    seen.append("closed")


def nothing(settings: Settings) -> Any:
    return {"not": settings}


def broken(settings: Settings) -> Any:
    raise ConnectionError("no\nserver")
