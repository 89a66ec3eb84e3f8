"""AgentMiddleware classes that stay right across processes; importing the package loads nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from placet.state.shared_state import RedisSharedState

    from .attempt import current_idempotency_key
    from .declared import NOT_DONE, UnknownCall, idempotent, side_effect
    from .fallback import ModelFallbackMiddleware
    from .ledger import ToolLedgerMiddleware
    from .retry import ModelRetryMiddleware, ToolRetryMiddleware
    from .retryable import get_retryable, stamp_retryable
    from .shared import InMemorySharedState, RunContext, SharedState, run_context
    from .timeout import ToolTimeoutMiddleware

__all__ = [
    "NOT_DONE",
    "InMemorySharedState",
    "ModelFallbackMiddleware",
    "ModelRetryMiddleware",
    "RedisSharedState",
    "RunContext",
    "SharedState",
    "ToolLedgerMiddleware",
    "ToolRetryMiddleware",
    "ToolTimeoutMiddleware",
    "UnknownCall",
    "current_idempotency_key",
    "get_retryable",
    "idempotent",
    "run_context",
    "side_effect",
    "stamp_retryable",
]

_HOME = {
    "NOT_DONE": "declared",
    "InMemorySharedState": "shared",
    "ModelFallbackMiddleware": "fallback",
    "ModelRetryMiddleware": "retry",
    "RedisSharedState": "placet.state.shared_state",
    "RunContext": "shared",
    "SharedState": "shared",
    "ToolLedgerMiddleware": "ledger",
    "ToolRetryMiddleware": "retry",
    "ToolTimeoutMiddleware": "timeout",
    "UnknownCall": "declared",
    "current_idempotency_key": "attempt",
    "get_retryable": "retryable",
    "idempotent": "declared",
    "run_context": "shared",
    "side_effect": "declared",
    "stamp_retryable": "retryable",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for."""
    from importlib import import_module  # noqa: PLC0415 - importing the package stays cheap

    if name not in _HOME:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    home = _HOME[name]
    return getattr(import_module(home if "." in home else f".{home}", __name__), name)
