"""The attempts at calls that are tried again, as middleware shares them over all workers."""

from __future__ import annotations

import secrets

from placet.middleware.shared import TryRecord

from .fenced import Fenced


class RedisTries(Fenced):
    """Attempts in Redis; all raise as `RedisToolCalls`' methods do."""

    async def start_try(self, run_id: str, key: str, *, deaths_count: bool) -> TryRecord:
        """See `Tries`."""
        counts = "1" if deaths_count else ""
        return TryRecord(
            *map(int, await self._fenced("try_start", run_id, key, counts, secrets.token_hex(8)))
        )

    async def fail_try(self, run_id: str, key: str, *, number: int, wait_ms: int, passed: int) -> TryRecord:
        """See `Tries`."""
        return TryRecord(*map(int, await self._fenced("try_fail", run_id, key, number, wait_ms, passed)))

    async def withdraw_try(self, run_id: str, key: str, *, number: int) -> None:
        """See `Tries`."""
        await self._fenced("try_withdraw", run_id, key, number)
