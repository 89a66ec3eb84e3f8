"""Waiting until all is quiet: every run has ended, or nothing is left that could move those that have not."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from placet.errors import RetryableError

if TYPE_CHECKING:
    from placet import Placet

    from .world import World

_LOOKS = 4
"""How often in a row a run has to be found without anything that could move it."""
_BETWEEN_SECONDS = 0.5


async def settle(world: World, placet: Placet, *, patience: float) -> None:
    """Return when it is quiet, or after `patience` seconds."""
    until = time.monotonic() + patience
    stuck: dict[str, tuple[str, int]] = {}
    while time.monotonic() < until:
        try:
            found = await _open_runs(world, placet)
        except RetryableError:
            continue
        stuck = {
            run: (mark, stuck[run][1] + 1 if stuck.get(run, ("", 0))[0] == mark else 1)
            for run, (mark, moves) in found.items()
            if not moves
        }
        if all(run in stuck and stuck[run][1] >= _LOOKS for run in found):
            return
        await asyncio.sleep(_BETWEEN_SECONDS)


async def _open_runs(world: World, placet: Placet) -> dict[str, tuple[str, bool]]:
    """Runs that have not ended: a mark that changes when anything happens, and whether something will."""
    connection = placet._connection
    keys, redis = connection.keys, connection.reader
    seconds, _ = await redis.time()
    found: dict[str, tuple[str, bool]] = {}
    behind: dict[str, str] = {}
    # in one command: a run that moves from one to another is in one of them
    listed = redis.zunion([keys("runs_in", status) for status in ("pending", "running", "interrupted")])
    for name in await connection.read(listed):
        run = await placet.get(name.decode())
        pipeline = redis.pipeline(transaction=False)
        pipeline.zscore(keys("outbox", run.queue), run.id)
        pipeline.zscore(keys("timers"), run.id)
        pipeline.zscore(keys("leases"), run.thread_id)
        pipeline.lindex(keys("thread_queue", run.thread_id), 0)
        sent, timer, lease, first = await connection.read(pipeline.execute())
        asks = bool(await placet.approvals(run_id=run.id, limit=1))
        held = lease is not None and lease / 1000 > seconds - 1
        moves = sent is not None or timer is not None or held or asks
        found[run.id] = (f"{run.status} {run.last_event}", moves)
        if first is not None and first.decode() != run.id:
            behind[run.id] = first.decode()
    # who waits for another on its thread moves when that one does
    return {
        run: (mark, moves or found.get(behind.get(run, ""), ("", False))[1])
        for run, (mark, moves) in found.items()
    }
