"""What an author says of each tool that a person is asked about, checked when the gate is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NotRequired, get_args

from langchain.agents.middleware.human_in_the_loop import DecisionType
from typing_extensions import TypedDict

from placet.approvals.policy import policy_error
from placet.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langgraph.prebuilt.tool_node import ToolCallRequest

DECISIONS: tuple[DecisionType, ...] = get_args(DecisionType)


class InterruptOnConfig(TypedDict):
    """How one tool is asked about: LangChain's keys, with async functions too, and three of ours."""

    allowed_decisions: list[DecisionType]
    """What a reviewer may decide, of approve, edit, reject, respond."""
    description: NotRequired[str | Callable[..., str | Awaitable[str]]]
    """Shown to the reviewer; a function of call, state and runtime is called once, when the model answers."""
    args_schema: NotRequired[dict[str, Any]]
    """Not used, as in LangChain's: the tool's own schema is shown."""
    when: NotRequired[Callable[[ToolCallRequest], bool | Awaitable[bool]]]
    """Whether to ask about a call; called once, when the model has answered. If it fails, it asks."""
    policy: NotRequired[dict[str, Any]]
    """Who may decide: `{"reviewers": ["alice", "group:finance"]}` (docs/reviewers.md)."""
    allow_tool_change: NotRequired[bool]
    """Whether an edit may name another tool of the agent's; that tool's own gate then asks about it."""
    dynamic: NotRequired[bool]
    """Whether the tool is registered while the agent runs, so that a start cannot know it."""


def check_interrupt_on(interrupt_on: Mapping[str, Any]) -> None:
    """Refuse what would not gate a tool as it reads.

    Raises:
        InvalidInput: naming the tool and the key.
    """
    if not isinstance(interrupt_on, Mapping):
        raise InvalidInput("interrupt_on", f"a dict of tool names, not a {type(interrupt_on).__name__}")
    for tool, config in interrupt_on.items():
        if not isinstance(config, bool):
            _check_config(f"interrupt_on[{tool!r}]", config)


def _check_config(field: str, config: Any) -> None:
    if not isinstance(config, Mapping):
        raise InvalidInput(field, f"True, False or a dict, not a {type(config).__name__}")
    known = InterruptOnConfig.__annotations__
    for key in config:
        if key not in known:
            raise InvalidInput(f"{field}[{key!r}]", f"is not known; known are {', '.join(known)}")
    allowed = config.get("allowed_decisions")
    wanted = f"a list of {', '.join(DECISIONS)}, at least one of them"
    if not isinstance(allowed, list | tuple) or not allowed:
        raise InvalidInput(f"{field}['allowed_decisions']", f"{wanted}, not {allowed!r}")
    for name in allowed:
        if name not in DECISIONS:
            raise InvalidInput(f"{field}['allowed_decisions']", f"{wanted}; {name!r} is none")
    for key, kind in _KINDS.items():
        if key in config and not (isinstance(config[key], kind[0]) or (kind[1] and callable(config[key]))):
            raise InvalidInput(f"{field}[{key!r}]", f"{kind[2]}, not a {type(config[key]).__name__}")
    if "policy" in config and (wrong := policy_error(config["policy"])):
        raise InvalidInput(f"{field}['policy']", wrong)


_KINDS: dict[str, tuple[tuple[type, ...], bool, str]] = {
    "description": ((str,), True, "a text or a function"),
    "when": ((), True, "a function"),
    "policy": ((dict,), False, "a dict of JSON values"),
    "allow_tool_change": ((bool,), False, "True or False"),
    "dynamic": ((bool,), False, "True or False"),
}
"""Of a key: its types, whether a function will do, and both in words."""
