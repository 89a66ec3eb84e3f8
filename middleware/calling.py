"""The message that made a tool call."""

from __future__ import annotations

from typing import Any

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
