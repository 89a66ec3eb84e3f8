"""The order of an agent's middleware: the recommended one, and what each order breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from langchain.agents.middleware import AgentMiddleware

from placet.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Middleware = AgentMiddleware[Any, Any, Any]

ORDER = (
    "HumanInTheLoopMiddleware",
    "PIIMiddleware",
    "SummarizationMiddleware",
    "ContextEditingMiddleware",
    "TodoListMiddleware",
    "FilesystemMiddleware",
    "SubAgentMiddleware",
    "ShellToolMiddleware",
    "FilesystemFileSearchMiddleware",
    "LLMToolSelectorMiddleware",
    "ProviderToolSearchMiddleware",
    "ModelRouterMiddleware",
    "ToolRetryMiddleware",
    "ModelRetryMiddleware",
    "ModelFallbackMiddleware",
    "ModelRefusalMiddleware",
    "ModelCallLimitMiddleware",
    "ToolCallLimitMiddleware",
    "AutoModeMiddleware",
    "ToolErrorMiddleware",
    "ToolTimeoutMiddleware",
    "LLMToolEmulator",
    "ToolLedgerMiddleware",
)
"""Kinds from the outermost to the innermost; before-hooks run in this order, after-hooks in the reverse."""


class Rule(NamedTuple):
    """One kind must come before another."""

    first: str
    then: str
    otherwise: str
    """What is broken if it does not."""


_UNMASKED = "{then} would read, and send to a model, what is to be masked"
_GATE = "HumanInTheLoopMiddleware"
RULES = (
    Rule(
        _GATE,
        "ToolRetryMiddleware",
        "a retry would be around the approval, and repeat it",
    ),
    Rule(_GATE, "ToolErrorMiddleware", "what the gate raises would be taken for the tool's error"),
    Rule(_GATE, "ToolCallLimitMiddleware", "people would be asked about calls that the limit blocks"),
    Rule(
        _GATE,
        "AutoModeMiddleware",
        "a classifier would block what people are to be asked about",
    ),
    Rule(_GATE, "LLMToolEmulator", "an emulated call would not be asked about"),
    Rule(_GATE, "PIIMiddleware", "reviewers would be shown what is to be masked"),
    Rule("PIIMiddleware", "SummarizationMiddleware", _UNMASKED),
    Rule("PIIMiddleware", "LLMToolSelectorMiddleware", _UNMASKED),
    Rule("PIIMiddleware", "ModelRouterMiddleware", _UNMASKED),
    Rule(
        "ProviderToolSearchMiddleware",
        "ModelFallbackMiddleware",
        "its error would hide that of the model before",
    ),
    Rule(
        "ModelRouterMiddleware",
        "ModelFallbackMiddleware",
        "the routed model would be called for a fallback's",
    ),
    Rule("ModelFallbackMiddleware", "ModelRefusalMiddleware", "a refusal would not fall back"),
)


def stack(*parts: Middleware, keep_order: bool = False) -> list[Middleware]:
    """Put an agent's middleware in the recommended order.

        create_agent(model, tools, middleware=stack(PIIMiddleware("email"), HumanInTheLoopMiddleware(…)))

    Parts of one kind stay in the order in which they are given. One of a kind that is not known, your own,
    stays behind the part that it is given after.

    Args:
        parts: In any order; with `keep_order` in yours, which is only checked.
        keep_order: Whether to leave the order as it is.

    Raises:
        InvalidInput: when the order breaks a guarantee, it says which; when two parts have one name.
    """
    if any(isinstance(part, list | tuple) for part in parts):
        raise InvalidInput("stack", "takes middleware one by one, not a list: stack(a, b) or stack(*parts)")
    names = [part.name for part in parts]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidInput("stack", f"two parts are named {twice[0]}: give each a name=… of its own")
    ordered = list(parts) if keep_order else _recommended(parts)
    if found := problems(ordered):
        raise InvalidInput("stack", "; ".join(found))
    return ordered


def problems(middleware: Sequence[Middleware]) -> list[str]:
    """Say what an order breaks, in one line each."""
    kinds = [kind_of(one) for one in middleware]
    found = []
    for first, then, otherwise in RULES:
        if first in kinds and then in kinds and _last(kinds, first) > kinds.index(then):
            found.append(f"{first} must come before {then}: {otherwise.format(then=then)}")
    if _GATE in kinds:
        found += [
            f"{one.name} must come after {_GATE}: what it does would be done again with each decision"
            for one in middleware[: _last(kinds, _GATE)]
            if kind_of(one) is None and _wraps_tools(one)
        ]
    if "ToolLedgerMiddleware" in kinds:
        found += [
            f"{one.name} must come before ToolLedgerMiddleware: its changes to a result would be kept"
            for one in middleware[kinds.index("ToolLedgerMiddleware") + 1 :]
            if _wraps_tools(one)
        ]
    return found


def kind_of(middleware: Middleware) -> str | None:
    """Name the kind that a middleware is of: a class of LangChain's, deepagents' or ours; None if of none."""
    names = (base.__name__ for base in type(middleware).__mro__)
    return next((name for name in names if name in ORDER), None)


def _recommended(parts: Iterable[Middleware]) -> list[Middleware]:
    place, placed = -1, []
    for part in parts:
        kind = kind_of(part)
        place = place if kind is None else ORDER.index(kind)
        placed.append((place, part))
    return [part for _, part in sorted(placed, key=lambda one: one[0])]


def _last(kinds: list[str | None], kind: str) -> int:
    return len(kinds) - 1 - kinds[::-1].index(kind)


def _wraps_tools(middleware: Middleware) -> bool:
    made = type(middleware)
    return (
        made.wrap_tool_call is not AgentMiddleware.wrap_tool_call
        or made.awrap_tool_call is not AgentMiddleware.awrap_tool_call
    )
