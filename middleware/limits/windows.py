"""Limits of calls over time, by whom they are made for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from langgraph.errors import GraphBubbleUp

from placet import errors
from placet.caller_input import checked_seconds, checked_whole

from ..shared import CallCount

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from ..shared import RunContext

By = Literal["principal", "tenant", "agent", "all"]
_MISSING: Any = ""
"""No default: where `by` is left out, the words that may stand there are told."""
MOST_CALLS = 1_000_000
"""Of a window: each call in it is remembered, in some ten bytes."""


class OwnerMissing(errors.InvalidInput, GraphBubbleUp):
    """Raised when a run does not say whose calls it makes, and they are limited by that."""


def windows_of(given: object, *limits: int | None) -> tuple[CallWindow, ...]:
    """Read a limiter's windows.

    Raises:
        InvalidInput: when they are none, or it has no limit at all, `limits` included.
    """
    if not isinstance(given, list | tuple) or not all(isinstance(one, CallWindow) for one in given):
        raise errors.InvalidInput("windows", "must be a list, [CallWindow(limit=…, per=…, by=…)]")
    if not given and all(one is None for one in limits):
        # as LangChain says it
        message = "At least one limit must be specified (thread_limit, run_limit or windows)"
        raise errors.InvalidInput("run_limit", message)
    return tuple(given)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallWindow:
    """At most `limit` calls in any stretch of time that is `per` long, over all runs and workers.

    Args:
        limit: how many; at least 1.
        per: seconds, or a timedelta.
        by: whose calls share the count: the run's `principal`, its `configurable["tenant"]`, its agent, or
            everybody's.
        park: let a call for which there is no room wait, without holding a worker; else it is refused.

    Raises:
        InvalidInput: when an argument is none of these.
    """

    limit: int
    per: float | timedelta
    by: By = _MISSING
    park: bool = False

    def __post_init__(self) -> None:
        checked_whole("limit", self.limit, least=1, most=MOST_CALLS)
        if self.per is None or not checked_seconds("per", self.per):
            raise errors.InvalidInput("per", "must be over 0 seconds")
        if self.by not in get_args(By):
            raise errors.InvalidInput("by", f"must be one of {', '.join(get_args(By))}")

    @property
    def per_ms(self) -> int:
        """Its length in milliseconds."""
        return max(1, round((checked_seconds("per", self.per) or 0) * 1000))

    def count(self, name: str, run: RunContext, configurable: Mapping[str, Any]) -> CallCount:
        """Its count for this run; limiters of one name share it.

        Raises:
            OwnerMissing: when the run does not say whose it is.
        """
        owner = {"all": "all", "agent": run.agent}.get(self.by, configurable.get(self.by))
        if not isinstance(owner, str) or not owner:
            where = {"agent": "run_context.agent", "principal": "principal"}.get(
                self.by, f"config.configurable.{self.by}"
            )
            raise OwnerMissing(where, f"must be a text, not empty: calls are limited by {self.by}")
        key = f"{name}|{self.by}|{self.per_ms}|{owner}"
        return CallCount("window", key, self.limit, self.per_ms, self.park)

    def shown(self, value: int) -> str:
        """What a user is told when it is full."""
        return f"{self.by} limit ({value}/{self.limit} in {self.per_ms / 1000:g} s)"
