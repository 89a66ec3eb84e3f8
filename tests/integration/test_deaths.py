"""Workers that die while they execute a run: how that is counted, and who shares a worker with whom then."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from consistency import check_consistency
from core import Core, open_core

from placet.errors import LeaseLost
from placet.state.connection import SUSPECT_MS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def dying(redis_url: str, *run_ids: str, times: int, **settings: int) -> AsyncIterator[Core]:
    """A core with runs, each on a thread of its name, whose workers have died that often."""
    async with open_core(redis_url, **settings) as core:
        for run_id in run_ids:
            await core.enqueue(run_id, run_id)
            for _ in range(times):
                await core.claim(run_id)
                await core.expire_lease(run_id)
        await core.look()
        yield core


async def test_deaths_are_counted_over_all_progress_and_end_the_run(redis_url: str) -> None:
    async with open_core(redis_url, max_attempts=5, max_deaths=3) as core:
        await core.enqueue()
        for _ in range(3):
            claim = await core.claim()
            assert claim.run.attempt == 1
            await core.leases.append(claim, [], batch=1, progressed=True)
            await core.expire_lease()
        assert await core.refused() == "ended"

        (run,) = await core.placet.runs(status="error")
        assert run.error is not None
        assert run.error["message"] == "3 workers died while executing it, the last first: w1, w1, w1"
        assert (run.deaths, run.attempt) == (3, 1)
        await core.placet.retry("r1")
        claim = await core.claim()
        assert (claim.run.deaths, claim.run.attempt) == (0, 1)


async def test_attempts_that_end_a_run_name_the_workers_it_took_along(redis_url: str) -> None:
    async with dying(redis_url, "r1", times=2, max_attempts=2) as core:
        assert await core.refused() == "ended"
        run = await core.placet.get("r1")
        assert run.error is not None
        assert run.error["message"].startswith("no progress in 2 attempts: 2 workers died while executing it")


async def test_a_run_in_its_last_attempt_is_alone_among_those_that_outlived_a_worker(redis_url: str) -> None:
    async with dying(redis_url, "a", "b", times=2, max_attempts=3) as core:
        await core.enqueue("new", "new")
        assert (await core.claim("new")).run.attempt == 1
        claim = await core.claim("a")
        assert await core.refused("b") == "crowded"
        assert (await core.placet.get("b")).status == "pending"
        await core.make_due("b")
        assert [one.run_id for one in await core.look()] == ["b"]  # it is sent again, to any worker
        assert await core.refused("b") == "crowded"
        await core.finish(claim)
        assert (await core.claim("b")).run.attempt == 3


async def test_the_more_chances_are_left_the_more_may_be_together(redis_url: str) -> None:
    names = [f"r{n}" for n in range(10)]
    async with dying(redis_url, *names, times=1, max_attempts=3) as core:
        for name in names[:8]:
            await core.claim(name)
        assert await core.refused("r8") == "crowded"
        # one that has run for long without harm is no obstacle any more
        seconds, _ = await core.redis.time()
        await core.redis.hset(core.connection.keys("run", "r0"), "updated_at", seconds * 1000 - SUSPECT_MS)
        await core.claim("r8")
        assert await core.refused("r9") == "crowded"


async def test_a_run_near_its_last_death_is_alone_however_far_it_got(redis_url: str) -> None:
    async with dying(redis_url, "a", "b", times=1, max_attempts=100, max_deaths=2) as core:
        await core.claim("a")
        assert await core.refused("b") == "crowded"
        await core.expire_lease("a")
        await core.look()
        assert (await core.claim("b")).run.deaths == 1
        assert await core.refused("a") == "ended"


async def test_crowded_after_a_crash_that_no_reconciler_saw(redis_url: str) -> None:
    async with dying(redis_url, "a", times=1, max_attempts=2) as core:
        await core.enqueue("b", "b")
        await core.claim("b")
        await core.claim("a")
        await core.expire_lease("b")

        assert await core.refused("b") == "crowded"
        assert await core.outbox() == ["b"]
        await check_consistency(core.redis)


async def test_a_worker_that_lived_through_an_outage_of_the_store_did_not_die(redis_url: str) -> None:
    async with open_core(redis_url) as core:
        await core.enqueue()
        claim = await core.claim()
        await core.expire_lease()
        await core.look()
        assert (await core.placet.get("r1")).deaths == 1
        for _ in range(2):
            with pytest.raises(LeaseLost):
                await core.leases.give_back(claim, reason="the store was away", count_attempt=False)
            run = await core.placet.get("r1")
            assert (run.deaths, run.attempt) == (0, 0)
        again = await core.claim()
        with pytest.raises(LeaseLost):
            await core.leases.give_back(claim, reason="the store was away", count_attempt=False)
        assert (await core.placet.get("r1")).attempt == again.run.attempt == 1
