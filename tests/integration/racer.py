"""One of several processes that race for the same records; started by the tests of races."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from core import new_run, open_core

from placet.errors import AlreadyDecided, ThreadBusy

STRATEGIES = ("enqueue", "reject", "interrupt", "rollback")


async def race(redis_url: str) -> None:
    """Round by round: wait for the start, decide or claim or enqueue, say what came of it."""
    me = str(os.getpid())
    async with open_core(redis_url) as core:
        print("ready", flush=True)  # noqa: T201 - the test reads it
        for line in sys.stdin:
            kind, n = line.split()
            told: list[Any]
            if kind == "decide":
                decision = {"type": ("approve", "reject")[(int(n) + os.getpid()) % 2]}
                try:
                    won = await core.placet.decide(f"a{n}", decision, reviewer=me)
                    told = ["won", won.decided_by, won.decision]
                except AlreadyDecided as error:
                    told = ["lost", error.decided_by, {"type": error.decision}]
            elif kind == "multitask":
                strategy = STRATEGIES[(int(n) // 2 + os.getpid()) % len(STRATEGIES)]
                try:
                    await core.enqueue(f"r{n}-{me}", f"t{n}", multitask_strategy=strategy)
                    told = ["won", strategy, None]
                except ThreadBusy as error:
                    told = ["lost", strategy, error.run_id]
            elif kind == "enqueue":
                created, _ = await core.runs.enqueue(new_run(f"r{n}", f"t{n}"))
                told = ["won" if created else "lost", None, None]
            else:
                claim, why, _ = await core.leases.claim(f"r{n}")
                told = ["won" if claim else "lost", why, None]
            print(json.dumps(told), flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(race(sys.argv[1]))
