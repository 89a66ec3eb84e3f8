"""Circuit breakers of models, and what runs have fallen back to, as shared over all workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from placet.middleware.shared.models import RECALL

from .fenced import Fenced

if TYPE_CHECKING:
    from placet.middleware.shared import Breaker, Ended


class RedisModels(Fenced):
    """Breakers and choices in Redis; all raise as `RedisToolCalls`' methods do."""

    async def enter_model(self, run_id: str, breaker: Breaker, *, call: str) -> bool:
        """See `Models`."""
        return bool((await self._fenced("model_enter", run_id, *breaker, call))[0])

    async def leave_model(self, breaker: Breaker, *, call: str, ended: Ended) -> bool:
        """See `Models`; not refused when the lease is lost."""
        # sent once: a failure that is told twice would count twice
        reply = await self._c.run("model_leave", *breaker, call, ended, RECALL)
        return bool(reply[0])

    async def model_of(self, run_id: str, key: str) -> int:
        """See `Models`."""
        return int((await self._fenced("model_stay", run_id, key, ""))[0])

    async def stay_with_model(self, run_id: str, key: str, place: int) -> None:
        """See `Models`."""
        await self._fenced("model_stay", run_id, key, place)
