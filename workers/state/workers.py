"""What workers say of themselves, and which of them still do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from redis.asyncio import Redis

    from ..sealing import Seal
    from .keys import Keys

_LEAST_SECONDS = 5.0
_LOOKS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSeen:
    """A worker process, `host:pid`, and when it was last heard of."""

    id: str
    seconds_ago: float
    agents: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()
    key_id: str = ""
    """Of the `PLACET_ENCRYPTION_KEY` it seals under, empty without one."""
    writes_lost: tuple[tuple[str, str], ...] = ()
    """Spans, as ISO 8601 times, whose writes it saw the store lose in a failover or a restart."""

    def alive(self, *, reconcile_seconds: float) -> bool:
        """Whether it can still be taken to live: each look of its reconciler is a sign of life."""
        return self.seconds_ago <= alive_seconds(reconcile_seconds)


def key_doubt(seen: Iterable[WorkerSeen], seal: Seal | None) -> str:
    """Say how this process's key differs from that of workers; empty if it is theirs."""
    own = "" if seal is None else seal.key_id
    theirs = {one.key_id for one in seen} - {own}
    if not theirs:
        return ""
    if not own:
        return "workers have a PLACET_ENCRYPTION_KEY, this process has none: what it sends is not sealed"
    if theirs == {""}:
        return "this process has a PLACET_ENCRYPTION_KEY, workers have none: they cannot read it"
    return "workers have another PLACET_ENCRYPTION_KEY: neither reads what the other seals"


def alive_seconds(reconcile_seconds: float) -> float:
    """How long after its last look a worker is still taken to live."""
    return max(_LEAST_SECONDS, _LOOKS * reconcile_seconds)


async def workers_seen(redis: Redis, keys: Keys) -> list[WorkerSeen]:
    """All workers of the last hour, the one heard of last first; `redis` replies with bytes.

    Raises:
        RedisError, OSError: when the server does not answer.
    """
    seconds, microseconds = await redis.time()
    now = seconds + microseconds / 1_000_000
    listed: Any = await redis.zrevrange(keys("workers"), 0, -1, withscores=True)
    pipeline = redis.pipeline(transaction=False)
    for name, _ in listed:
        pipeline.hget(keys("worker", name.decode()), "facts")
    found = []
    for (name, seen_ms), text in zip(listed, await pipeline.execute(), strict=True):
        facts = json.loads(text or "{}")
        found.append(
            WorkerSeen(
                id=name.decode(),
                seconds_ago=max(0.0, now - seen_ms / 1000),
                agents=frozenset(facts.get("agents", ())),
                queues=frozenset(facts.get("queues", ())),
                key_id=facts.get("key_id", ""),
                writes_lost=tuple((since, until) for since, until in facts.get("writes_lost", ())),
            )
        )
    return found
