"""The ledger of a run's tool calls, as middleware shares it over all workers."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from placet.middleware.shared import CallRecord

from .fenced import Fenced

if TYPE_CHECKING:
    from placet.middleware.shared import CallId, CallOutcome, CallState


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
        state, start, payload, note = reply
        return CallRecord(state.decode(), int(start), payload, note.decode())

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
