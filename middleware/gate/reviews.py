"""How each call of a model's answer is to be reviewed: decided once, and kept beside its message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NotRequired

# LangGraph reads the types of the state at run time
from langchain.agents.middleware.human_in_the_loop import (  # noqa: TC002
    Action,
    DecisionType,
    InterruptMode,
)
from langchain_core.messages import AIMessage, ToolMessage
from typing_extensions import TypedDict

from placet.digest import digest_of

from .approved import call_digest
from .tool_arguments import ToolArguments  # noqa: TC001 - as above

if TYPE_CHECKING:
    from langchain_core.messages import ToolCall


class Review(TypedDict):
    """How one call is to be reviewed, and what a person has let run in its place."""

    gate: str
    """The middleware's name."""
    tool_call_id: str | None
    mode: InterruptMode
    ask: bool
    """False: `when` let it through."""
    description: str
    allowed: list[DecisionType]
    tools: list[str]
    """What an edit may name, the call's own tool first."""
    policy: NotRequired[dict[str, Any]]
    runs: NotRequired[Action]
    """Tool and arguments as they were approved in a batch."""
    edited: NotRequired[bool]


class Reviews(TypedDict, total=False):
    """The reviews of one message's calls; a state key of its own, which no caller can set."""

    message_id: str
    calls: dict[str, Review]
    """By `seal`."""
    tools: dict[str, ToolArguments]
    """Of the tools that an edit may name."""


def seal(gate: str, call: ToolCall) -> str:
    """Name a call as it stands: one that was changed has another name, and finds no review."""
    return digest_of([gate, call["id"], call_digest(call["name"], call["args"])])


def merged(old: Reviews, new: Reviews) -> Reviews:
    """Join what several gates say of one message; the next message starts afresh."""
    if not old or old["message_id"] != new["message_id"]:
        return new
    return Reviews(
        message_id=new["message_id"],
        calls=old["calls"] | new["calls"],
        tools=old["tools"] | new["tools"],
    )


def last_message(state: Any) -> AIMessage | None:
    """The model's last answer."""
    messages = state.get("messages") if isinstance(state, dict) else None
    return next((one for one in reversed(messages or []) if isinstance(one, AIMessage)), None)


def reviews_in(state: Any) -> Reviews:
    """The reviews of the last message's calls, empty if none are kept."""
    message = last_message(state)
    kept: Reviews | None = state.get("hitl_reviews") if message is not None else None
    if message is None or not kept or kept["message_id"] != message.id:
        return Reviews(message_id=(message.id if message else None) or "", calls={}, tools={})
    return kept


def open_calls(state: Any) -> list[ToolCall]:
    """The last answer's calls that have no result yet, as those that a limit has blocked have."""
    results = set()  # of this answer alone: providers use their ids again
    for one in reversed(state["messages"]):
        if isinstance(one, AIMessage):
            return [call for call in one.tool_calls if call["id"] not in results]
        if isinstance(one, ToolMessage):
            results.add(one.tool_call_id)
    return []


def policy_of(state: Any, tool_call_id: str | None) -> Any:
    """The policy of the gate that has asked about a call of the last answer; None if there is none."""
    kept = reviews_in(state)["calls"].values()
    found = [one["policy"] for one in kept if one["tool_call_id"] == tool_call_id and "policy" in one]
    return found[0] if found else None
