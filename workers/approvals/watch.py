"""Follows what happens to approval requests: the stream says where to look, the record says what is."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from ..errors import NotFound

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ..state.approval_stream import ApprovalStream
    from ..state.approvals import Approval, Approvals, ApprovalStatus

BLOCK_MS = 2_000
"""How long one blocking read waits."""


class ApprovalWatch:
    """Yields requests as they change, without end; with a status those that have come to have it."""

    def __init__(self, *, approvals: Approvals, stream: ApprovalStream) -> None:
        self._approvals = approvals
        self._stream = stream

    async def alone(self, status: ApprovalStatus | None) -> AsyncGenerator[Approval]:
        """Yield those that are pending, oldest first, then each one that changes."""
        position = await self._stream.position()
        seen: dict[str, Approval] = {}
        for approval in reversed(await self._approvals.newest(status="pending", limit=1_000_000)):
            seen[approval.id] = approval
            if status in (None, "pending"):
                yield approval
        while True:
            position, told = await self._stream.after(position, block_ms=BLOCK_MS)
            for approval_id, then in told.items():
                now = await self._as_told(approval_id, then, status)
                if now is not None and seen.get(approval_id) != now:
                    yield now
                if now is not None and now.status == "pending":
                    seen[approval_id] = now
                else:
                    seen.pop(approval_id, None)

    async def shared(self, group: str, status: ApprovalStatus | None) -> AsyncGenerator[Approval]:
        """Yield changes that no other watcher of the group gets, unless this one dies over them."""
        member = uuid4().hex
        await self._stream.join(group)
        while True:
            entries, told = await self._stream.share(group, member, block_ms=BLOCK_MS)
            for approval_id, then in told.items():
                approval = await self._as_told(approval_id, then, status)
                if approval is not None:
                    yield approval
            if entries:
                await self._stream.took(group, entries)

    async def _as_told(
        self, approval_id: str, then: str | None, status: ApprovalStatus | None
    ) -> Approval | None:
        """Read a request; None where it is gone, not of `status`, or another entry tells what it became."""
        # an outcome, which tells no status, is none of a request that is pending
        if status not in (None, then) and (then is not None or status == "pending"):
            return None
        try:
            approval = await self._approvals.get(approval_id)
        except NotFound:
            return None
        fits = then in (None, approval.status) and status in (None, approval.status)
        return approval if fits else None
