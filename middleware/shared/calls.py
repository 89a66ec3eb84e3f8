"""The ledger's records of tool calls: what middleware of all processes shares of them, and in memory."""

from __future__ import annotations

import time
from typing import Literal, NamedTuple, Protocol

BOUND = "placet_bound"
"""In an AI message's `additional_kwargs`: by the id of each call that is masked there, what binds it to its
raw arguments."""
UNKNOWN_CALL = "placet.unknown"
"""`type` of the pause that asks what became of a tool call."""

CallState = Literal["new", "done", "failed", "unknown"]
CallOutcome = Literal["succeeded", "failed", "unknown"]


class CallId(NamedTuple):
    """A tool call of a run, the same one in every process."""

    key: str
    """Unique in the run: made of the agent's namespace, the model's message and its id for the call."""
    tool: str
    tool_call_id: str


class CallRecord(NamedTuple):
    """What is known of one attempt at a tool call."""

    state: CallState
    """`new`: it has just been marked as started, by the caller. `unknown`: it was, and has no result."""
    start: int
    """How often this attempt has been started."""
    payload: bytes = b""
    """The result, or the error of a failed one."""
    note: str = ""
    """Of an unknown one: why there is no result, if it came to its end."""
    started_ms: int = 0
    """Of an unknown one that did not: when it was started, milliseconds since 1970."""


class ToolCalls(Protocol):
    """A ledger of tool calls."""

    async def start_call(self, run_id: str, call: CallId, *, attempt: int, again: int = 0) -> CallRecord:
        """Mark an attempt as started unless it was before; `again` names the start that is done again."""

    async def end_call(
        self,
        run_id: str,
        call: CallId,
        *,
        attempt: int,
        start: int,
        state: CallState,
        payload: bytes = b"",
        note: str = "",
        outcome: CallOutcome,
    ) -> None:
        """Store what a start came to; nothing happens if the attempt was started again since."""

    async def withdraw_call(self, run_id: str, call: CallId, *, attempt: int, start: int) -> None:
        """Take a start back: the tool paused, and is entered again from its beginning."""

    async def forget_failures(self, run_id: str) -> None:
        """Drop the attempts that failed, because somebody has the run retried; results stay."""


class InMemoryToolCalls:
    """A ledger of tool calls in this process."""

    def __init__(self) -> None:
        self._calls: dict[str, dict[str, list[CallRecord]]] = {}

    def _call(self, run_id: str, call: CallId) -> list[CallRecord]:
        return self._calls.setdefault(run_id, {}).setdefault(call.key, [])

    async def start_call(self, run_id: str, call: CallId, *, attempt: int, again: int = 0) -> CallRecord:
        """See `ToolCalls`."""
        records = self._call(run_id, call)
        known = records[attempt - 1] if attempt <= len(records) else None
        if known is not None and known.start != again:
            return known
        started_ms = int(time.time() * 1000)
        records[attempt - 1 : attempt] = [CallRecord("unknown", again + 1, started_ms=started_ms)]
        return CallRecord("new", again + 1)

    async def end_call(
        self,
        run_id: str,
        call: CallId,
        *,
        attempt: int,
        start: int,
        state: CallState,
        payload: bytes = b"",
        note: str = "",
        outcome: CallOutcome,  # noqa: ARG002 - for those who keep approval requests
    ) -> None:
        """See `ToolCalls`."""
        records = self._call(run_id, call)
        if records[attempt - 1].start == start:
            records[attempt - 1] = CallRecord(state, start, payload, note)

    async def withdraw_call(self, run_id: str, call: CallId, *, attempt: int, start: int) -> None:
        """See `ToolCalls`."""
        records = self._call(run_id, call)
        if records[attempt - 1].start == start:
            del records[attempt - 1]

    async def forget_failures(self, run_id: str) -> None:
        """See `ToolCalls`."""
        for records in self._calls.get(run_id, {}).values():
            records[:] = [record for record in records if record.state != "failed"]
