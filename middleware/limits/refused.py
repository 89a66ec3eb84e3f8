"""Refusals of calls that a limit has no room for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from langchain_core.messages import AIMessage
from langgraph.errors import GraphBubbleUp

from ..shared import ENDED_BY_LIMIT

if TYPE_CHECKING:
    from ..shared import CallCount
    from .meter import Limit


class Reached(NamedTuple):
    """What one count of a limiter was when a call was refused."""

    of: CallCount
    value: int
    full: bool


class LimitExceeded(GraphBubbleUp):
    """Raised when a limit is to end the run: no retry or fallback swallows it."""


def last_word(limiter: str, text: str) -> AIMessage:
    """What a limiter ends its agent with; the run says so too."""
    return AIMessage(text, response_metadata={ENDED_BY_LIMIT: limiter})


class CallRefused(GraphBubbleUp):
    """Raised in place of a call; its limiter alone says what becomes of it."""

    def __init__(self, limit: Limit, reached: list[Reached], place: tuple[str, str | None]) -> None:
        super().__init__(f"{limit.name} had no room for a call")
        self.limit = limit
        self.reached = reached
        self._place = place

    def is_of(self, checkpoint_ns: str, tool_call_id: str | None) -> bool:
        """Whether it stands in place of this tool call, and not of one inside."""
        return self._place == (checkpoint_ns, tool_call_id)
