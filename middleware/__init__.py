"""AgentMiddleware classes that stay right across processes; importing the package loads nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain.agents.middleware import (
        AgentState,
        ClearToolUsesEdit,
        CodexSandboxExecutionPolicy,
        ContextEditingMiddleware,
        DockerExecutionPolicy,
        ExtendedModelResponse,
        HostExecutionPolicy,
        LLMToolSelectorMiddleware,
        ModelChoice,
        ModelRefusalMiddleware,
        ModelRequest,
        ModelResponse,
        PIIMatch,
        ProviderToolSearchMiddleware,
        RedactionRule,
        TodoListMiddleware,
        ToolCallRequest,
        ToolErrorMiddleware,
        dynamic_prompt,
        hook_config,
    )

    from placet.state.shared_state import RedisSharedState

    from .auto_mode import AutoModeMiddleware
    from .custom import (
        AgentMiddleware,
        after_agent,
        after_model,
        before_agent,
        before_model,
        wrap_model_call,
        wrap_tool_call,
    )
    from .file_search import FilesystemFileSearchMiddleware
    from .gate.approval import HumanInTheLoopMiddleware
    from .gate.approved import amend
    from .gate.interrupt_on import InterruptOnConfig
    from .ledger.attempt import current_idempotency_key
    from .ledger.declared import NOT_DONE, UnknownCall, idempotent, side_effect
    from .ledger.ledger import ToolLedgerMiddleware
    from .limits.model_call_limit import ModelCallLimitExceededError, ModelCallLimitMiddleware
    from .limits.tool_call_limit import ToolCallLimitExceededError, ToolCallLimitMiddleware
    from .limits.windows import CallWindow
    from .model_router import ModelRouterMiddleware
    from .named_tools import DynamicTool
    from .order import stack
    from .pii.detectors import detect_ip, detect_secret
    from .pii.pii import PIIMiddleware
    from .pii.redaction import PIIDetectionError
    from .retry.fallback import ModelFallbackMiddleware
    from .retry.retry import ModelRetryMiddleware, ToolRetryMiddleware
    from .retry.retryable import get_retryable, stamp_retryable
    from .shared import InMemorySharedState, RunContext, SharedState, run_context
    from .shell_tool import ShellToolMiddleware
    from .summarization import SummarizationMiddleware
    from .timeout import ToolTimeoutMiddleware
    from .tool_emulator import LLMToolEmulator

__all__ = [
    "NOT_DONE",
    "AgentMiddleware",
    "AgentState",
    "AutoModeMiddleware",
    "CallWindow",
    "ClearToolUsesEdit",
    "CodexSandboxExecutionPolicy",
    "ContextEditingMiddleware",
    "DockerExecutionPolicy",
    "DynamicTool",
    "ExtendedModelResponse",
    "FilesystemFileSearchMiddleware",
    "HostExecutionPolicy",
    "HumanInTheLoopMiddleware",
    "InMemorySharedState",
    "InterruptOnConfig",
    "LLMToolEmulator",
    "LLMToolSelectorMiddleware",
    "ModelCallLimitExceededError",
    "ModelCallLimitMiddleware",
    "ModelChoice",
    "ModelFallbackMiddleware",
    "ModelRefusalMiddleware",
    "ModelRequest",
    "ModelResponse",
    "ModelRetryMiddleware",
    "ModelRouterMiddleware",
    "PIIDetectionError",
    "PIIMatch",
    "PIIMiddleware",
    "ProviderToolSearchMiddleware",
    "RedactionRule",
    "RedisSharedState",
    "RunContext",
    "SharedState",
    "ShellToolMiddleware",
    "SummarizationMiddleware",
    "TodoListMiddleware",
    "ToolCallLimitExceededError",
    "ToolCallLimitMiddleware",
    "ToolCallRequest",
    "ToolErrorMiddleware",
    "ToolLedgerMiddleware",
    "ToolRetryMiddleware",
    "ToolTimeoutMiddleware",
    "UnknownCall",
    "after_agent",
    "after_model",
    "amend",
    "before_agent",
    "before_model",
    "current_idempotency_key",
    "detect_ip",
    "detect_secret",
    "dynamic_prompt",
    "get_retryable",
    "hook_config",
    "idempotent",
    "run_context",
    "side_effect",
    "stack",
    "stamp_retryable",
    "wrap_model_call",
    "wrap_tool_call",
]

_HOME = {
    "NOT_DONE": ".ledger.declared",
    "AgentMiddleware": ".custom",
    "AgentState": "langchain.agents.middleware",
    "AutoModeMiddleware": ".auto_mode",
    "CallWindow": ".limits.windows",
    "ClearToolUsesEdit": "langchain.agents.middleware",
    "CodexSandboxExecutionPolicy": "langchain.agents.middleware",
    "ContextEditingMiddleware": "langchain.agents.middleware",
    "DockerExecutionPolicy": "langchain.agents.middleware",
    "DynamicTool": ".named_tools",
    "ExtendedModelResponse": "langchain.agents.middleware",
    "FilesystemFileSearchMiddleware": ".file_search",
    "HostExecutionPolicy": "langchain.agents.middleware",
    "HumanInTheLoopMiddleware": ".gate.approval",
    "InMemorySharedState": ".shared",
    "InterruptOnConfig": ".gate.interrupt_on",
    "LLMToolEmulator": ".tool_emulator",
    "LLMToolSelectorMiddleware": "langchain.agents.middleware",
    "ModelCallLimitExceededError": ".limits.model_call_limit",
    "ModelCallLimitMiddleware": ".limits.model_call_limit",
    "ModelChoice": "langchain.agents.middleware",
    "ModelFallbackMiddleware": ".retry.fallback",
    "ModelRefusalMiddleware": "langchain.agents.middleware",
    "ModelRequest": "langchain.agents.middleware",
    "ModelResponse": "langchain.agents.middleware",
    "ModelRetryMiddleware": ".retry.retry",
    "ModelRouterMiddleware": ".model_router",
    "PIIDetectionError": ".pii.redaction",
    "PIIMatch": "langchain.agents.middleware",
    "PIIMiddleware": ".pii.pii",
    "ProviderToolSearchMiddleware": "langchain.agents.middleware",
    "RedactionRule": "langchain.agents.middleware",
    "RedisSharedState": "placet.state.shared_state",
    "RunContext": ".shared",
    "SharedState": ".shared",
    "ShellToolMiddleware": ".shell_tool",
    "SummarizationMiddleware": ".summarization",
    "TodoListMiddleware": "langchain.agents.middleware",
    "ToolCallLimitExceededError": ".limits.tool_call_limit",
    "ToolCallLimitMiddleware": ".limits.tool_call_limit",
    "ToolCallRequest": "langchain.agents.middleware",
    "ToolErrorMiddleware": "langchain.agents.middleware",
    "ToolLedgerMiddleware": ".ledger.ledger",
    "ToolRetryMiddleware": ".retry.retry",
    "ToolTimeoutMiddleware": ".timeout",
    "UnknownCall": ".ledger.declared",
    "after_agent": ".custom",
    "after_model": ".custom",
    "amend": ".gate.approved",
    "before_agent": ".custom",
    "before_model": ".custom",
    "current_idempotency_key": ".ledger.attempt",
    "detect_ip": ".pii.detectors",
    "detect_secret": ".pii.detectors",
    "dynamic_prompt": "langchain.agents.middleware",
    "get_retryable": ".retry.retryable",
    "hook_config": "langchain.agents.middleware",
    "idempotent": ".ledger.declared",
    "run_context": ".shared",
    "side_effect": ".ledger.declared",
    "stack": ".order",
    "stamp_retryable": ".retry.retryable",
    "wrap_model_call": ".custom",
    "wrap_tool_call": ".custom",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for."""
    from importlib import import_module  # noqa: PLC0415 - importing the package stays cheap

    if name not in _HOME:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(_HOME[name], __name__), name)


def __dir__() -> list[str]:
    """List the public names, those that are not loaded yet too."""
    return __all__
