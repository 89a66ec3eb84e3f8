"""Follows what happens to approval requests: the stream says where to look, the record says what is."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from .state.approval_stream import ApprovalStream
    from .state.approvals import Approval, Approvals, ApprovalStatus

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
                if status not in (None, then):
                    seen.pop(approval_id, None)
                    continue
                approval = await self._approvals.get(approval_id)
                if approval.status != then or seen.get(approval_id) == approval:
                    continue  # what it became meanwhile is told by an entry to come, or was told
                seen[approval_id] = approval
                yield approval
                if approval.status != "pending":
                    del seen[approval_id]

    async def shared(self, group: str, status: ApprovalStatus | None) -> AsyncGenerator[Approval]:
        """Yield changes that no other watcher of the group gets, unless this one dies over them."""
        member = uuid4().hex
        await self._stream.join(group)
        while True:
            entries, told = await self._stream.share(group, member, block_ms=BLOCK_MS)
            for approval_id, then in told.items():
                if status not in (None, then):
                    continue
                approval = await self._approvals.get(approval_id)
                if approval.status == then:
                    yield approval
            if entries:
                await self._stream.took(group, entries)
