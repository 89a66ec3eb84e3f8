"""A checkpointer that the deployment brings: `PLACET_CHECKPOINTER=package.module:factory`."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import BaseCheckpointSaver

from ..errors import InvalidSettings
from ..named_functions import load_function

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ..settings import Settings


@asynccontextmanager
async def other_checkpointer(settings: Settings) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    """Call the factory with the settings; it gives a checkpointer, or an async context manager of one.

    Raises:
        InvalidSettings: one line, when the factory is not there, raises, or gives something else.
    """
    name = settings.checkpointer
    factory = load_function(name, "PLACET_CHECKPOINTER")
    try:
        made = factory(settings)
        entered = await made.__aenter__() if _is_context(made) else made
    except Exception as error:
        text = " ".join(str(error).split())
        raise InvalidSettings(f"PLACET_CHECKPOINTER: {name}: {type(error).__name__}: {text}") from error
    try:
        if not isinstance(entered, BaseCheckpointSaver):
            raise InvalidSettings(
                f"PLACET_CHECKPOINTER: {name} gave a {type(entered).__name__}, no checkpointer"
            )
        yield entered
    finally:
        if _is_context(made):
            await made.__aexit__(None, None, None)


def _is_context(made: object) -> bool:
    # a checkpointer may be a context manager itself, and its factory have entered it
    return isinstance(made, AbstractAsyncContextManager) and not isinstance(made, BaseCheckpointSaver)
