"""The message that makes tool calls: found again, its calls told apart."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage


def message_of(call_id: str | None, state: Any, messages_key: str) -> AIMessage | None:
    """Find the message that made the call in a graph's state, whatever that is."""
    if isinstance(state, dict):
        state = state.get(messages_key)
    elif not isinstance(state, list):
        state = getattr(state, messages_key, None)
    for message in reversed(state if isinstance(state, list) else []):
        if isinstance(message, AIMessage) and any(call["id"] == call_id for call in message.tool_calls):
            return message
    return None


def with_distinct_ids(message: AIMessage) -> AIMessage:
    """The message with an id of its own for each of its tool calls; itself if no two have the same.

    Some models and proxies give several calls one id. Results, verdicts and seals go by it: with one for two
    calls, a decision about the one would be taken for the other.
    """
    ids = [call["id"] for call in message.tool_calls]
    if len(set(ids)) == len(ids):
        return message
    renamed: dict[str, list[str]] = {}
    calls = []
    for call in message.tool_calls:
        made = call["id"]
        if made is not None:  # one without is refused where its result would need it
            made = f"call_{uuid4().hex[:24]}" if made in renamed else made
            renamed.setdefault(call["id"] or "", []).append(made)
        calls.append({**call, "id": made})
    update: dict[str, Any] = {"tool_calls": calls}
    if isinstance(message.content, list):
        # in content the calls stand a second time, in the same order, as their provider writes them
        update["content"] = [_renamed(block, renamed) for block in message.content]
    return message.model_copy(update=update)


def _renamed(block: Any, ids: dict[str, list[str]]) -> Any:
    if not isinstance(block, dict) or block.get("type") not in ("tool_use", "tool_call", "function_call"):
        return block
    key = "call_id" if "call_id" in block else "id"
    left = ids.get(block.get(key) or "")
    return {**block, key: left.pop(0)} if left else block
