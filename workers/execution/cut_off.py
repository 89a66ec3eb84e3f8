"""What the model is told of tool calls whose run ended before it had their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import ToolMessage
from langgraph.types import Command

from placet.middleware.ledger.attempt import call_key
from placet.middleware.shared import current_run

from ..checkpoint.codec import Codec
from ..checkpoint.serde import CheckpointSerde
from ..errors import UnreadableCheckpoint

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from langchain_core.messages import AIMessage, ToolCall

    from placet.middleware.shared import CallRecord


async def cut_off_results(
    message: AIMessage,
    calls: Sequence[ToolCall],
    *,
    reason: str,
    read: Callable[[Sequence[str]], Awaitable[dict[str, CallRecord]]],
    guarded: Collection[str] = (),
) -> list[ToolMessage]:
    """Make a result for each call: its own if the ledger has it, else what is known, and `reason`.

    Args:
        message: Whose calls they are.
        calls: Those without a result.
        reason: Why the run ended.
        read: Reads the last attempts at calls by their keys; calls that were never started have none.
        guarded: The tools whose calls are started by way of the ledger alone.
    """
    keys = [call_key(call, message, task="") for call in calls]
    records = await read(keys)
    return [
        _kept(call, records.get(key))
        # the keys of a message without an id hold the task, which nobody knows now
        or _told(call, records.get(key), reason, guarded=bool(message.id) and call["name"] in guarded)
        for call, key in zip(calls, keys, strict=True)
    ]


def _kept(call: ToolCall, record: CallRecord | None) -> ToolMessage | None:
    """The call's own result, where it is a message."""
    if record is None or record.state != "done":
        return None
    run = current_run()
    codec = Codec((run and run.serde) or CheckpointSerde(), b"")
    try:
        result, _ = codec.load(record.payload, iter(()))
    except UnreadableCheckpoint:
        return None
    if isinstance(result, Command):
        # what else it would have changed belongs to the run that ended
        result = next(filter(lambda one: _answers(one, call), _messages(result.update)), None)
    return result if _answers(result, call) else None


def _answers(message: Any, call: ToolCall) -> bool:
    return isinstance(message, ToolMessage) and message.tool_call_id == call["id"]


def _messages(update: Any) -> list[Any]:
    messages = update.get("messages") if isinstance(update, dict) else None
    return messages if isinstance(messages, list) else [messages]


def _told(call: ToolCall, record: CallRecord | None, reason: str, *, guarded: bool) -> ToolMessage:
    if record is None and guarded:
        known = "was never started"
    elif record is None or record.state == "new":  # it had paused by itself
        known = "did not finish"
    elif record.state == "failed":
        known = "failed, and was not tried again"
    elif record.state == "done":
        known = "was carried out, but its result is not known"
    elif record.note:
        known = record.note
    else:
        known = "was cut off and may have taken effect"
    return ToolMessage(
        content=f"The call of `{call['name']}` {known}: {reason}.",
        name=call["name"],
        tool_call_id=call["id"],
        status="error",
    )
