"""What middleware keeps outside the graph, and the run that is under way."""

from .calls import UNKNOWN_CALL, CallId, CallOutcome, CallRecord, CallState
from .counts import CallCount, Counted
from .run import TIMER, RunContext, current_run, run_context
from .state import InMemorySharedState, SharedState

__all__ = [
    "TIMER",
    "UNKNOWN_CALL",
    "CallCount",
    "CallId",
    "CallOutcome",
    "CallRecord",
    "CallState",
    "Counted",
    "InMemorySharedState",
    "RunContext",
    "SharedState",
    "current_run",
    "run_context",
]
