"""Verdicts that are given once a run, in its ledger."""

from __future__ import annotations

from .fenced import Fenced


class RedisVerdicts(Fenced):
    """Verdicts in Redis; they go with the run's ledger.

    Both methods raise `LeaseLost` and `StoreUnavailable`.
    """

    async def verdict(self, run_id: str, name: str) -> str | None:
        """See `Verdicts`."""
        (found,) = await self._fenced("verdict", run_id, name, "")
        return found.decode() or None

    async def keep_verdict(self, run_id: str, name: str, verdict: str) -> str:
        """See `Verdicts`."""
        (kept,) = await self._fenced("verdict", run_id, name, verdict)
        return str(kept.decode())
