"""All that middleware keeps outside the graph, one noun a file beside this one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from .calls import InMemoryToolCalls, ToolCalls
from .counts import CallCounts, InMemoryCallCounts
from .verdicts import InMemoryVerdicts, Verdicts

if TYPE_CHECKING:
    import asyncio


class SharedState(ToolCalls, CallCounts, Verdicts, Protocol):
    """What the middleware of all processes share; every change is atomic.

    Under Placet's workers each change is refused (`LeaseLost`) once the run's lease is another worker's.
    """

    loop: asyncio.AbstractEventLoop | None
    """The event loop that its methods must run on; None: any."""


class InMemorySharedState(InMemoryToolCalls, InMemoryCallCounts, InMemoryVerdicts):
    """Shared by what runs in this process, and gone with it."""

    loop: asyncio.AbstractEventLoop | None = None

    def __init__(self) -> None:
        InMemoryToolCalls.__init__(self)
        InMemoryCallCounts.__init__(self)
        InMemoryVerdicts.__init__(self)
