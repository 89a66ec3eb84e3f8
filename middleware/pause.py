"""Pauses of our own: they are answered by our records, never through LangGraph's answer slots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from langgraph.errors import GraphInterrupt
from langgraph.types import Interrupt

from placet.digest import own_pause_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.runnables import RunnableConfig

_SCRATCHPAD, _SEND, _RESUME = "__pregel_scratchpad", "__pregel_send", "__resume__"


def pause(value: Mapping[str, Any], config: RunnableConfig) -> NoReturn:
    """Leave the worker; the node is entered again from its beginning.

    Args:
        value: What the pause is for, a JSON object with its `type`; its id is derived from it.
        config: That of the node's task.

    Raises:
        GraphInterrupt: always.
    """
    configurable = config.get("configurable", {})
    scratchpad, send = configurable.get(_SCRATCHPAD), configurable.get(_SEND)
    if scratchpad is not None and scratchpad.resume and send is not None:
        # answers to interrupts of the same task: LangGraph keeps those that `interrupt` has returned, and
        # this pause comes before it has, so they would be asked for again
        send([(_RESUME, list(scratchpad.resume))])
    raise GraphInterrupt((Interrupt(value=value, id=own_pause_id(value)),))
