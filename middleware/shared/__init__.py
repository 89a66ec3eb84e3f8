"""What middleware keeps outside the graph, and the run that is under way."""

from .calls import BOUND, UNKNOWN_CALL, CallId, CallOutcome, CallRecord, CallState
from .counts import CallCount, Counted
from .models import ENDED_BY_LIMIT, MODEL_ANSWERED, MODEL_FAILURE, Breaker, Ended
from .run import TIMER, RunContext, current_run, run_context
from .state import InMemorySharedState, SharedState
from .tries import TryRecord

__all__ = [
    "BOUND",
    "ENDED_BY_LIMIT",
    "MODEL_ANSWERED",
    "MODEL_FAILURE",
    "TIMER",
    "UNKNOWN_CALL",
    "Breaker",
    "CallCount",
    "CallId",
    "CallOutcome",
    "CallRecord",
    "CallState",
    "Counted",
    "Ended",
    "InMemorySharedState",
    "RunContext",
    "SharedState",
    "TryRecord",
    "current_run",
    "run_context",
]
