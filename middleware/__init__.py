"""AgentMiddleware classes that stay right across processes; importing the package loads nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from placet.state.shared_state import RedisSharedState

    from .approval import HumanInTheLoopMiddleware
    from .approved import amend
    from .attempt import current_idempotency_key
    from .declared import NOT_DONE, UnknownCall, idempotent, side_effect
    from .interrupt_on import InterruptOnConfig
    from .ledger import ToolLedgerMiddleware
    from .shared import InMemorySharedState, RunContext, SharedState, run_context
    from .timeout import ToolTimeoutMiddleware

__all__ = [
    "NOT_DONE",
    "HumanInTheLoopMiddleware",
    "InMemorySharedState",
    "InterruptOnConfig",
    "RedisSharedState",
    "RunContext",
    "SharedState",
    "ToolLedgerMiddleware",
    "ToolTimeoutMiddleware",
    "UnknownCall",
    "amend",
    "current_idempotency_key",
    "idempotent",
    "run_context",
    "side_effect",
]

_HOME = {
    "NOT_DONE": "declared",
    "HumanInTheLoopMiddleware": "approval",
    "InMemorySharedState": "shared",
    "InterruptOnConfig": "interrupt_on",
    "RedisSharedState": "placet.state.shared_state",
    "RunContext": "shared",
    "SharedState": "shared",
    "ToolLedgerMiddleware": "ledger",
    "ToolTimeoutMiddleware": "timeout",
    "UnknownCall": "declared",
    "amend": "approved",
    "current_idempotency_key": "attempt",
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
