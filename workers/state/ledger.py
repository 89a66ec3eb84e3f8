"""The ledger of a run's tool calls, as middleware shares it over all workers."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from placet.middleware.shared import CallRecord

from ..settings import Settings
from .connection import Connection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from placet.middleware.shared import CallId, CallOutcome, CallState


class RedisSharedState:
    """Shared by all processes on one Redis; a worker's is fenced by the token of its lease.

    Made by `open` for use without Placet's workers: nothing is fenced there.
    """

    def __init__(self, connection: Connection, *, token: int | None = None) -> None:
        self._c = connection
        self._token = "" if token is None else str(token)
        self.loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, *, namespace: str = "placet-middleware") -> AsyncIterator[RedisSharedState]:
        """Connect, and close at the end; what is shared lies under `namespace`."""
        settings = Settings.from_env({}, redis_url=url, namespace=namespace)
        async with Connection.open(settings) as connection:
            yield cls(connection)

    async def start_call(self, run_id: str, call: CallId, *, attempt: int, again: int = 0) -> CallRecord:
        """See `SharedState`.

        Raises:
            LeaseLost: when the run's lease is another worker's.
            StoreUnavailable: when Redis does not answer.
        """
        facts = (call.tool, call.tool_call_id, secrets.token_hex(8))
        reply = await self._run("ledger_start", run_id, call, attempt, again, *facts)
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
        """See `SharedState`; raises as `start_call`."""
        await self._run("ledger_end", run_id, call, attempt, start, state, payload, note, outcome)

    async def withdraw_call(self, run_id: str, call: CallId, *, attempt: int, start: int) -> None:
        """See `SharedState`; raises as `start_call`."""
        await self._run("ledger_withdraw", run_id, call, attempt, start)

    async def forget_failures(self, run_id: str) -> None:
        """See `SharedState`; a worker's run is retried by `Placet.retry`."""
        await self._c.run("ledger_forget", run_id, again=True)

    async def _run(self, script: str, run_id: str, call: CallId, *args: Any) -> Any:
        return await self._c.run(script, run_id, self._token, call.key, *args, again=True)
