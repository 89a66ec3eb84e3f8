"""Changes that a run makes of what middleware shares, under the token of its lease."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .connection import Connection


class Fenced:
    """Runs scripts for middleware; what it is without a token is in use without Placet's workers."""

    def __init__(self, connection: Connection, *, token: int | None = None) -> None:
        self._c = connection
        self._token = "" if token is None else str(token)

    async def _fenced(self, script: str, run_id: str, *args: Any) -> Any:
        """Run a script that takes the run and its token first, and can be sent again.

        Raises:
            LeaseLost: when the run's lease is another worker's.
            StoreUnavailable: when Redis does not answer.
        """
        return await self._c.run(script, run_id, self._token, *args, again=True)
