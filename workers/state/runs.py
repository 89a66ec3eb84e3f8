"""A run: one request on a thread, from enqueue through its pauses to its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from datetime import datetime

RunStatus = Literal["pending", "running", "interrupted", "success", "error", "timeout", "cancelled"]
ENDED: frozenset[str] = frozenset({"success", "error", "timeout", "cancelled"})


class RunError(TypedDict):
    """Why a run failed, as data: the exception's class name, its text, the node (or None)."""

    type: str
    message: str
    node: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run as it stood when it was read; times are UTC."""

    id: str
    thread_id: str
    agent: str
    status: RunStatus
    queue: str
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    wake_at: datetime | None = None
    """When the run wakes by itself: its `start_at`, or a timer it sleeps on."""
    attempt: int = 0
    """Starts of the current segment without progress."""
    segment: int = 0
    """How many segments have been started."""
    input: Any = None
    config: dict[str, Any] = field(default_factory=dict)
    context: Any = None
    metadata: dict[str, Any] = field(default_factory=dict)
    principal: str | None = None
    result: Any = None
    """The graph's output, as JSON values, once `status` is `success`."""
    error: RunError | None = None
    worker: str | None = None
    """The worker that executes it, or did last: `host:pid`."""

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it, but for a retry."""
        return self.status in ENDED
