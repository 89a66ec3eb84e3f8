"""All that middleware keeps outside the graph, one noun a file beside this one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from .calls import InMemoryToolCalls, ToolCalls
from .counts import CallCounts, InMemoryCallCounts
from .models import InMemoryModels, Models
from .tries import InMemoryTries, Tries
from .verdicts import InMemoryVerdicts, Verdicts

if TYPE_CHECKING:
    import asyncio


class SharedState(ToolCalls, CallCounts, Models, Tries, Verdicts, Protocol):
    """What the middleware of all processes share; every change is atomic.

    Under Placet's workers each change is refused (`LeaseLost`) once the run's lease is another worker's.
    """

    loop: asyncio.AbstractEventLoop | None
    """The event loop that its methods must run on; None: any."""


class InMemorySharedState(
    InMemoryToolCalls, InMemoryCallCounts, InMemoryModels, InMemoryTries, InMemoryVerdicts
):
    """Shared by what runs in this process, and gone with it."""

    loop: asyncio.AbstractEventLoop | None = None

    def __init__(self) -> None:
        InMemoryToolCalls.__init__(self)
        InMemoryCallCounts.__init__(self)
        InMemoryModels.__init__(self)
        InMemoryTries.__init__(self)
        InMemoryVerdicts.__init__(self)

    async def forget_failures(self, run_id: str) -> None:
        """See `ToolCalls`, `Tries`."""
        await InMemoryToolCalls.forget_failures(self, run_id)
        await InMemoryTries.forget_failures(self, run_id)
