"""Counts of calls that have limits, as middleware shares them over all workers."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from placet.middleware.shared import Counted

from .fenced import Fenced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from placet.middleware.shared import CallCount


class RedisCallCounts(Fenced):
    """Counts of calls in Redis, by the server's clock."""

    async def count_call(
        self, run_id: str, counts: Sequence[CallCount], *, thread_id: str, waiter: str
    ) -> Counted:
        """See `CallCounts`; the thread of a worker's run is the run's.

        Raises:
            LeaseLost: when the run's lease is another worker's.
            StoreUnavailable: when Redis does not answer.
        """
        who = (thread_id, secrets.token_hex(8), waiter)
        state, due, values, full = await self._fenced("counts_add", run_id, *who, *_flat(counts))
        return Counted(state.decode(), tuple(map(int, values)), tuple(one == b"1" for one in full), int(due))

    async def call_counts(
        self, run_id: str, counts: Sequence[CallCount], *, thread_id: str
    ) -> tuple[int, ...]:
        """See `CallCounts`; raises as `count_call`."""
        _, _, values, _ = await self._fenced("counts_add", run_id, thread_id, "", "", *_flat(counts))
        return tuple(map(int, values))


def _flat(counts: Sequence[CallCount]) -> list[str | int]:
    flat: list[str | int] = []
    for one in counts:
        limit = "" if one.limit is None else one.limit
        flat += [one.scope, one.key, limit, one.per_ms, "1" if one.waits else ""]
    return flat
