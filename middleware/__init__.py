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
    from .model_call_limit import ModelCallLimitExceededError, ModelCallLimitMiddleware
    from .shared import InMemorySharedState, RunContext, SharedState, run_context
    from .timeout import ToolTimeoutMiddleware
    from .tool_call_limit import ToolCallLimitExceededError, ToolCallLimitMiddleware
    from .windows import CallWindow

__all__ = [
    "NOT_DONE",
    "CallWindow",
    "HumanInTheLoopMiddleware",
    "InMemorySharedState",
    "InterruptOnConfig",
    "ModelCallLimitExceededError",
    "ModelCallLimitMiddleware",
    "RedisSharedState",
    "RunContext",
    "SharedState",
    "ToolCallLimitExceededError",
    "ToolCallLimitMiddleware",
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
    "CallWindow": "windows",
    "HumanInTheLoopMiddleware": "approval",
    "InMemorySharedState": "shared",
    "InterruptOnConfig": "interrupt_on",
    "ModelCallLimitExceededError": "model_call_limit",
    "ModelCallLimitMiddleware": "model_call_limit",
    "RedisSharedState": "placet.state.shared_state",
    "RunContext": "shared",
    "SharedState": "shared",
    "ToolCallLimitExceededError": "tool_call_limit",
    "ToolCallLimitMiddleware": "tool_call_limit",
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
