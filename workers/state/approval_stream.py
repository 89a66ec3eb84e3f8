"""What happens to approval requests, as one stream: a hint to look at them, the records are the truth."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from redis.exceptions import ResponseError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .connection import Connection

COUNT = 500
ABANDONED_MS = 60_000
"""How long a member of a group may hold an entry before another gets it."""

Told = dict[str, str | None]
"""Approval id to the status that it had then, as the newest of the entries read says; None if none does."""


class ApprovalStream:
    """Reads the stream, alone from a position, or as a member of a group that shares the entries."""

    def __init__(self, connection: Connection) -> None:
        self._c = connection
        self._key = connection.keys("approvals_stream")

    async def position(self) -> str:
        """Where the stream ends now; read it before the index of requests, and nothing is missed."""
        last = await self._c.read(self._c.reader.xrevrange(self._key, count=1))
        return last[0][0].decode() if last else "0-0"

    async def after(self, position: str, *, block_ms: int) -> tuple[str, Told]:
        """What happened after `position`, waiting for the first of it, and where to go on from."""
        reply = await self._c.read(self._c.blocking.xread({self._key: position}, count=COUNT, block=block_ms))
        entries = reply[0][1] if reply else []
        return (entries[-1][0].decode() if entries else position), _told(entries)

    async def join(self, group: str) -> None:
        """Make the group if it is new; it begins with the oldest entry that is kept."""
        with suppress(ResponseError):  # BUSYGROUP: it is there
            await self._c.read(self._c.redis.xgroup_create(self._key, group, id="0", mkstream=True))

    async def share(self, group: str, member: str, *, block_ms: int) -> tuple[list[bytes], Told]:
        """This member's next entries, first those that a member who died has left; take them with `took`."""
        left = await self._c.read(
            self._c.redis.xautoclaim(self._key, group, member, ABANDONED_MS, start_id="0-0", count=COUNT)
        )
        entries = [entry for entry in left[1] if entry[1]]
        if not entries:
            reply = await self._c.read(
                self._c.blocking.xreadgroup(group, member, {self._key: ">"}, count=COUNT, block=block_ms)
            )
            entries = reply[0][1] if reply else []
        return [entry[0] for entry in entries], _told(entries)

    async def took(self, group: str, entries: Iterable[bytes]) -> None:
        """Say that these entries need not be given to another member."""
        await self._c.read(self._c.redis.xack(self._key, group, *entries))


def _told(entries: Iterable[tuple[bytes, dict[bytes, bytes]]]) -> Told:
    told: Told = {}
    for _, fields in entries:
        event, approval_id = fields[b"event"].decode(), fields[b"approval"].decode()
        if event == "outcome":
            told.setdefault(approval_id, None)
        else:
            told[approval_id] = "pending" if event in ("requested", "reopened") else event
    return told
