from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from core import request

from placet.errors import AlreadyDecided

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from core import Core

ROUNDS = 200
PROCESSES = 4
TESTS = Path(__file__).parent.parent


class Racers:
    """Processes that are let go at once, round after round."""

    def __init__(self, processes: list[asyncio.subprocess.Process]) -> None:
        self._processes = processes
        self.pids = {str(process.pid) for process in processes}

    async def go(self, kind: str, n: int) -> list[list[Any]]:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{kind} {n}\n".encode())
        return [json.loads(await self.line(process)) for process in self._processes]

    @staticmethod
    async def line(process: asyncio.subprocess.Process) -> bytes:
        assert process.stdout is not None
        async with asyncio.timeout(30):
            return await process.stdout.readline()


@pytest.fixture
async def racers(redis_url: str) -> AsyncIterator[Racers]:
    env = {**os.environ, "PYTHONPATH": str(TESTS)}
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, str(TESTS / "integration" / "racer.py"), redis_url)
    processes = [
        await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, env=env)
        for _ in range(PROCESSES)
    ]
    for process in processes:
        assert await Racers.line(process) == b"ready\n"
    yield Racers(processes)
    for process in processes:
        process.stdin.close()  # type: ignore[union-attr]
        assert await process.wait() == 0


async def test_one_winner_of_every_decision_in_four_processes(core: Core, racers: Racers) -> None:
    for n in range(ROUNDS):
        await core.paused(request(f"a{n}"), run_id=f"r{n}", thread_id=f"t{n}")
        told = await racers.go("decide", n)

        approval = await core.placet.approval(f"a{n}")
        assert sorted(result for result, _, _ in told) == ["lost"] * (PROCESSES - 1) + ["won"]
        assert approval.decided_by in racers.pids
        assert all(by == approval.decided_by and decision == approval.decision for _, by, decision in told)
    events = core.connection.keys("approvals_stream")
    assert await core.redis.xlen(events) == 2 * ROUNDS


async def test_one_run_and_one_lease_of_four_processes(core: Core, racers: Racers) -> None:
    for n in range(ROUNDS // 4):
        for kind in ("enqueue", "claim"):
            told = await racers.go(kind, n)
            assert sorted(result for result, _, _ in told) == ["lost"] * (PROCESSES - 1) + ["won"]
        assert (await core.placet.get(f"r{n}")).attempt == 1


async def test_strategies_of_four_processes_at_once_leave_one_order_and_lose_no_run(
    core: Core, racers: Racers
) -> None:
    for n in range(ROUNDS // 2):
        thread = f"t{n}"
        await core.paused(request(f"a{n}"), run_id=f"r{n}", thread_id=thread)
        if n % 2:
            await core.decide(f"a{n}")
            claim = await core.claim(f"r{n}")
        told = await racers.go("multitask", n)

        runs = {run.id: run for run in await core.placet.runs(thread_id=thread)}
        assert len(runs) == 1 + sum(result == "won" for result, _, _ in told)
        left = [
            one.decode()
            for one in await core.redis.lrange(core.connection.keys("thread_queue", thread), 0, -1)
        ]
        assert set(left) == {key for key, run in runs.items() if not run.ended}
        assert all(run.status == "cancelled" and run.reason for run in runs.values() if run.ended)
        if n % 2:  # it was under way and ends first
            assert left[0] == f"r{n}"
            await core.finish(claim)
            left = left[1:]
        assert await core.outbox() == left[:1]
        for key in left:
            assert (await core.finish(await core.claim(key)))[0] == "success"


async def test_many_deciders_in_one_process(core: Core) -> None:
    for n in range(20):
        await core.paused(request(f"a{n}"), run_id=f"r{n}", thread_id=f"t{n}")

        async def decide(who: int, n: int = n) -> str:
            kind = "approve" if who % 2 else "reject"
            try:
                await core.decide(f"a{n}", kind=kind, reviewer=f"p{who}")
            except AlreadyDecided as error:
                return f"lost to {error.decided_by}"
            return f"won by p{who}"

        told = set(await asyncio.gather(*(decide(who) for who in range(50))))
        winner = (await core.placet.approval(f"a{n}")).decided_by
        assert told == {f"won by {winner}", f"lost to {winner}"}


async def test_a_decision_and_a_pause_that_meet_lose_no_wake_up(core: Core) -> None:
    for n in range(50):
        run, first, second = f"r{n}", request(f"a{n}"), request(f"b{n}")
        await core.paused(first, second, run_id=run, thread_id=f"t{n}")
        await core.decide(first.id)
        claim = await core.claim(run)
        await asyncio.gather(core.pause(claim, second), core.decide(second.id))
        assert [answer.approval_id for answer in (await core.claim(run)).answers] == [second.id]


async def test_a_cancel_and_a_decision_that_meet_leave_one_story(core: Core) -> None:
    for n in range(50):
        run, asked = f"r{n}", request(f"a{n}")
        await core.paused(asked, run_id=run, thread_id=f"t{n}")
        calls = [core.decide(asked.id), core.placet.cancel(run)]
        await asyncio.gather(*(calls if n % 2 else reversed(calls)), return_exceptions=True)
        assert (await core.placet.get(run)).status == "cancelled"
        assert (await core.placet.approval(asked.id)).outcome == "not_run"
        assert await core.refused(run) == "ended"
