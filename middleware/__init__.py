"""AgentMiddleware classes that stay right across processes; importing the package loads nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from placet.state.shared_state import RedisSharedState

    from .attempt import current_idempotency_key
    from .declared import NOT_DONE, UnknownCall, idempotent, side_effect
    from .detectors import detect_ip, detect_secret
    from .ledger import ToolLedgerMiddleware
    from .pii import PIIMiddleware
    from .redaction import PIIDetectionError
    from .shared import InMemorySharedState, RunContext, SharedState, run_context
    from .timeout import ToolTimeoutMiddleware

__all__ = [
    "NOT_DONE",
    "InMemorySharedState",
    "PIIDetectionError",
    "PIIMiddleware",
    "RedisSharedState",
    "RunContext",
    "SharedState",
    "ToolLedgerMiddleware",
    "ToolTimeoutMiddleware",
    "UnknownCall",
    "current_idempotency_key",
    "detect_ip",
    "detect_secret",
    "idempotent",
    "run_context",
    "side_effect",
]

_HOME = {
    "NOT_DONE": "declared",
    "InMemorySharedState": "shared",
    "PIIDetectionError": "redaction",
    "PIIMiddleware": "pii",
    "RedisSharedState": "placet.state.shared_state",
    "RunContext": "shared",
    "SharedState": "shared",
    "ToolLedgerMiddleware": "ledger",
    "ToolTimeoutMiddleware": "timeout",
    "UnknownCall": "declared",
    "current_idempotency_key": "attempt",
    "detect_ip": "detectors",
    "detect_secret": "detectors",
    "idempotent": "declared",
    "run_context": "shared",
    "side_effect": "declared",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for."""
    from importlib import import_module  # noqa: PLC0415 - importing the package stays cheap

    if name not in _HOME:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    home = _HOME[name]
    return getattr(import_module(home if "." in home else f".{home}", __name__), name)
