"""The ledger of a run's tool calls, as middleware shares it over all workers."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING

from placet.middleware.shared import CallRecord

from .fenced import Fenced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from placet.middleware.shared import CallId, CallOutcome, CallState

    from .connection import Connection


class RedisToolCalls(Fenced):
    """A ledger of tool calls in Redis."""

    async def start_call(self, run_id: str, call: CallId, *, attempt: int, again: int = 0) -> CallRecord:
        """See `ToolCalls`.

        Raises:
            LeaseLost: when the run's lease is another worker's.
            StoreUnavailable: when Redis does not answer.
        """
        facts = (call.tool, call.tool_call_id, secrets.token_hex(8))
        reply = await self._fenced("ledger_start", run_id, call.key, attempt, again, *facts)
        state, start, payload, note, started_ms = reply
        return CallRecord(state.decode(), int(start), payload, note.decode(), int(started_ms))

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
        """See `ToolCalls`; raises as `start_call`."""
        await self._fenced("ledger_end", run_id, call.key, attempt, start, state, payload, note, outcome)

    async def withdraw_call(self, run_id: str, call: CallId, *, attempt: int, start: int) -> None:
        """See `ToolCalls`; raises as `start_call`."""
        await self._fenced("ledger_withdraw", run_id, call.key, attempt, start)

    async def forget_failures(self, run_id: str) -> None:
        """See `ToolCalls`; a worker's run is retried by `Placet.retry`."""
        await self._c.run("ledger_forget", run_id, again=True)


async def last_attempts(connection: Connection, run_id: str, keys: Sequence[str]) -> dict[str, CallRecord]:
    """Read what is known of calls of a run that nobody executes: of each that was started its last attempt.

    Raises:
        StoreUnavailable: when Redis does not answer.
    """
    ledger = connection.keys("run_ledger", run_id)
    found = await connection.read(connection.reader.hmget(ledger, list(keys))) if keys else []
    made = {}
    for key, text in zip(keys, found, strict=True):
        if text is None:
            continue
        if not (attempts := json.loads(text)["attempts"]):  # the start was taken back, as of one that paused
            made[key] = CallRecord("new", 0)
            continue
        number = max(attempts, key=int)
        last = attempts[number]
        payload = await connection.read(connection.reader.hget(ledger, f"{key}:{number}"))
        made[key] = CallRecord(last["state"], last["start"], payload or b"", last.get("note", ""))
    return made
