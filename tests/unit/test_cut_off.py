"""What the model is told of calls that were cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langgraph.types import Command

from placet.checkpoint.codec import Codec
from placet.checkpoint.serde import CheckpointSerde
from placet.execution.cut_off import cut_off_results
from placet.middleware.ledger.attempt import call_key
from placet.middleware.shared import CallRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

CALLS = [ToolCall(name="pay", args={"cents": n}, id=f"call_{n}") for n in range(2)]
MESSAGE = AIMessage("", id="m1", tool_calls=CALLS)
PAID = ToolMessage("paid", tool_call_id="call_0", artifact={"receipt": 7})


async def results(record: CallRecord | None, *, guarded: bool = True) -> list[ToolMessage]:
    """What is said of two calls, of the first of which something is known."""
    known = {} if record is None else {call_key(CALLS[0], MESSAGE, task="tools:7"): record}

    async def read(keys: Sequence[str]) -> dict[str, CallRecord]:
        return {key: known[key] for key in keys if key in known}

    tools: set[str] = {"pay"} if guarded else {"mail"}
    first, second = await cut_off_results(MESSAGE, CALLS, reason="it was cancelled", read=read, guarded=tools)
    assert (first.tool_call_id, second.tool_call_id) == ("call_0", "call_1")
    of_second = "was never started" if guarded else "did not finish"
    assert second.content == f"The call of `pay` {of_second}: it was cancelled."
    return [first, second]


def done(result: Any) -> CallRecord:
    return CallRecord("done", 1, Codec(CheckpointSerde(), b"").whole([result, [0, 0]]))


@pytest.mark.parametrize(
    ("record", "known"),
    [
        (None, "was never started"),
        (CallRecord("new", 0), "did not finish"),
        (CallRecord("unknown", 1), "was cut off and may have taken effect"),
        (CallRecord("unknown", 1, note="ran to its end, but"), "ran to its end, but"),
        (CallRecord("failed", 1, b""), "failed, and was not tried again"),
        (CallRecord("done", 1, b"Vdamaged"), "was carried out, but its result is not known"),
        (done(Command(update={"count": 3})), "was carried out, but its result is not known"),
    ],
)
async def test_what_is_known_is_said(record: CallRecord | None, known: str) -> None:
    first, _ = await results(record)
    assert (first.status, first.content) == ("error", f"The call of `pay` {known}: it was cancelled.")


async def test_of_what_the_ledger_does_not_guard_nobody_knows_that_it_never_started() -> None:
    first, _ = await results(None, guarded=False)
    assert first.content == "The call of `pay` did not finish: it was cancelled."


async def test_a_message_without_an_id_may_have_calls_under_other_keys() -> None:
    async def read(_: Sequence[str]) -> dict[str, CallRecord]:
        return {}

    message = AIMessage("", tool_calls=CALLS)
    first, _ = await cut_off_results(message, CALLS, reason="it was cancelled", read=read, guarded={"pay"})
    assert first.content == "The call of `pay` did not finish: it was cancelled."


@pytest.mark.parametrize("result", [PAID, Command(update={"count": 3, "messages": [PAID]})])
async def test_a_result_that_was_kept_is_the_calls(result: Any) -> None:
    first, _ = await results(done(result))
    assert (first.status, first.content, first.artifact) == ("success", "paid", {"receipt": 7})
