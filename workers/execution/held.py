"""A claim under execution, and how it is cancelled."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..state.leases import Claim
    from .segment import Segment

CANCEL, LATE, LOST, STOP = "cancelled", "segment timed out", "lease lost", "worker stops"
AWAY = "the store was away"


@dataclass(slots=True, kw_only=True)
class Held:
    """What the engine knows of one segment while it is executed."""

    claim: Claim
    task: asyncio.Task[Any]
    segment: Segment | None = None
    why_cancelled: str = ""
    cancelled_at: float = 0.0
    """When last, by the loop's clock."""
    left: bool = False
    """It does not end though it was cancelled: its run goes on, or has ended, without it."""
    committing: bool = False
    """Its outcome is on the way to the store: too late to cancel, the script there knows better."""

    @property
    def names(self) -> dict[str, Any]:
        """What every line of the log says of it."""
        run = self.claim.run
        return {"run_id": run.id, "thread_id": run.thread_id, "attempt": run.attempt}

    def cancel(self, why: str) -> None:
        """Cancel, unless it commits; called again while it goes on, for a library may lose a cancellation."""
        if not self.committing:
            self.why_cancelled = self.why_cancelled or why
            self.cancelled_at = asyncio.get_running_loop().time()
            self.task.cancel()
