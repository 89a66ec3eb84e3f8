"""Lifetimes: of ended runs' records, of idle threads; what is still to be decided never goes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from consistency import check_consistency
from core import Core, open_core, request

from placet.errors import Conflict, NotFound, ThreadExpired
from placet.middleware.shared import CallCount
from placet.state.cards import Cards, PostedCard

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

KEEP = {"runs_keep_seconds": 3600, "thread_ttl_seconds": 3600}
COUNTS = [CallCount("run", "models", 1), CallCount("thread", "models", 1)]


@pytest.fixture
async def kept(redis_url: str) -> AsyncIterator[Core]:
    async with open_core(redis_url, **KEEP) as core:
        yield core
        await check_consistency(core.redis)


async def names(core: Core) -> set[str]:
    """All keys but those of the whole system; a graph that no run refers to has a lifetime of its own."""
    prefix = core.connection.keys.prefix
    every = {key.decode().removeprefix(prefix) for key in await core.redis.keys(prefix + "*")}
    others = ("fence", "swept", "approvals:stream", "graph:", "counted:")
    return {name for name in every if not name.startswith(others)}


async def age(core: Core, index: str, *ids: str) -> None:
    """Let what is in the index have ended long ago."""
    assert await core.redis.zadd(core.connection.keys(index), dict.fromkeys(ids, 1), xx=True, ch=True) == len(
        ids
    )


async def checkpoint(core: Core, thread_id: str = "t1") -> None:
    """What a checkpointer leaves of a thread."""
    await core.redis.hset(core.connection.keys("checkpoint", thread_id), "i", "1")


async def test_an_ended_runs_records_go_whole(kept: Core) -> None:
    await kept.paused(request("a1"), request("a2"))
    await kept.decide("a1", "a2")
    claim = await kept.claim()
    await kept.redis.hset(kept.connection.keys("run_ledger", "r1"), "call", "done")
    await kept.redis.hset(kept.connection.keys("run_tries", "r1"), "call", "{}")
    await kept.leases.shared(claim).count_call("r1", COUNTS, thread_id="t1", waiter="")
    await Cards(kept.connection).save("a1", PostedCard(channel="wall", destination="north"))
    await kept.finish(claim, "error")
    before = await names(kept)
    assert await kept.timers.sweep() == (False, [])
    assert await names(kept) == before
    await age(kept, "ended", "r1")
    assert await kept.timers.sweep() == (False, [])

    assert await names(kept) == set()
    assert await kept.placet.runs() == []
    assert await kept.placet.approvals(status=None) == []
    with pytest.raises(NotFound):
        await kept.placet.get("r1")
    with pytest.raises(NotFound):
        await kept.placet.decide("a1", {"type": "approve"}, reviewer="ann")


async def test_what_waits_stays(kept: Core) -> None:
    """Paused, asleep on a timer, waiting its turn, waiting for its time, running: never swept."""
    await kept.paused(request())
    await kept.enqueue("r2")
    await kept.enqueue("r3", "t3")
    await kept.pause(await kept.claim("r3"), wake_at_ms=9_000_000_000_000)
    await kept.placet.enqueue("agent", {}, run_id="r4", thread_id="t4", start_at=timedelta(hours=1))
    await kept.enqueue("r5", "t5")
    await kept.claim("r5")
    for thread_id in ("t1", "t3", "t5"):
        await checkpoint(kept, thread_id)
    before = await names(kept)

    assert await kept.redis.exists(kept.connection.keys("idle"), kept.connection.keys("ended")) == 0
    assert await kept.timers.sweep() == (False, [])
    assert await names(kept) == before


async def test_a_thread_whose_earlier_run_is_swept_goes_on(kept: Core) -> None:
    await kept.enqueue("r1")
    await kept.finish(await kept.claim("r1"))
    await kept.paused(request(), run_id="r2")
    await checkpoint(kept)
    await age(kept, "ended", "r1")
    await kept.timers.sweep()

    assert [run.id for run in await kept.placet.runs(thread_id="t1")] == ["r2"]
    await kept.decide("a1")
    await kept.finish(await kept.claim("r2"))


async def test_an_idle_thread_expires_and_says_so(kept: Core) -> None:
    await kept.enqueue()
    claim = await kept.claim()
    await kept.leases.shared(claim).count_call("r1", COUNTS, thread_id="t1", waiter="")
    await checkpoint(kept)
    await kept.fail(claim)
    await kept.timers.sweep()
    assert await kept.redis.exists(kept.connection.keys("checkpoint", "t1"))
    await age(kept, "idle", "t1")
    await kept.timers.sweep()

    gone = [kept.connection.keys(name, "t1") for name in ("checkpoint", "thread_counts")]
    assert await kept.redis.exists(*gone) == 0
    with pytest.raises(ThreadExpired, match="thread 't1' has expired: use another thread_id") as caught:
        await kept.enqueue("r2")
    assert caught.value.why == "expired"
    with pytest.raises(ThreadExpired, match="has expired"):
        await kept.placet.state("t1")
    with pytest.raises(Conflict, match="its thread has expired"):
        await kept.placet.retry("r1")
    assert 0 < await kept.redis.ttl(kept.connection.keys("thread", "t1")) <= 30 * 86_400
    assert [run.id for run in await kept.placet.runs()] == ["r1"]  # its records live on
    await age(kept, "ended", "r1")
    await kept.timers.sweep()
    assert await names(kept) == {"thread:t1"}


async def test_a_retried_run_is_neither_ended_nor_idle(kept: Core) -> None:
    await kept.enqueue()
    await kept.fail(await kept.claim())
    await age(kept, "ended", "r1")
    await age(kept, "idle", "t1")
    await kept.placet.retry("r1")
    await kept.timers.sweep()

    assert (await kept.claim()).run.id == "r1"


async def test_lifetimes_of_nought_keep_everything(redis_url: str) -> None:
    async with open_core(redis_url, runs_keep_seconds=0, thread_ttl_seconds=0) as core:
        await core.enqueue()
        await core.finish(await core.claim())
        await checkpoint(core)
        await age(core, "ended", "r1")
        await age(core, "idle", "t1")
        before = await names(core)
        assert await core.timers.sweep() == (False, [])
        assert await names(core) == before


async def test_a_sweep_removes_a_few_at_a_time(kept: Core) -> None:
    await kept.paused(*(request(f"a{n}") for n in range(25)))
    await kept.placet.cancel("r1")
    for n in range(2, 10):
        await kept.enqueue(f"r{n}", f"t{n}")
        await kept.placet.cancel(f"r{n}")
    await age(kept, "ended", *(f"r{n}" for n in range(1, 10)))

    more, sweeps = True, 0
    while more:
        before = len(await names(kept))
        more, _ = await kept.timers.sweep(most=10)
        assert before - len(await names(kept)) <= 4 * 10
        sweeps += 1
    assert sweeps == 4  # 25 requests and 9 runs
    assert await names(kept) == set()


async def test_names_of_records_that_were_lost_leave_the_indexes(kept: Core) -> None:
    for n in range(25):
        await kept.enqueue(f"r{n}", f"t{n}")
        await kept.pause(await kept.claim(f"r{n}"), request(f"a{n}"))
    lost = {*range(0, 25, 2)}
    for n in lost:
        await kept.redis.delete(
            kept.connection.keys("run", f"r{n}"), kept.connection.keys("run_pause", f"r{n}")
        )
        await kept.redis.delete(
            kept.connection.keys("thread", f"t{n}"), kept.connection.keys("thread_queue", f"t{n}")
        )
        if n % 3:
            await kept.redis.delete(kept.connection.keys("approval", f"a{n}"))
    (graph,) = {run.decode() for run in await kept.redis.keys(kept.connection.keys("graph", "*"))}
    await kept.redis.hincrby(graph, "runs", -len(lost))  # nobody knows that they referred to it
    for _ in range(20):
        await kept.timers.sweep(most=5)

    assert {run.id for run in await kept.placet.runs()} == {f"r{n}" for n in {*range(25)} - lost}
    await check_consistency(kept.redis)


async def test_another_checkpointers_threads_are_asked_for_until_they_are_deleted(redis_url: str) -> None:
    async with open_core(redis_url, checkpointer="some.module:saver", **KEEP) as core:
        await core.enqueue()
        await core.finish(await core.claim())
        await age(core, "idle", "t1")
        await core.enqueue("r9", "t9")
        await core.finish(await core.claim("r9"))
        await age(core, "ended", "r9")  # its records go first
        assert await core.timers.sweep() == (False, ["t1"])
        assert await core.redis.zscore(core.connection.keys("idle"), "t9")
        assert await core.timers.sweep() == (False, [])  # somebody is at it
        await age(core, "idle", "t1")
        assert await core.timers.sweep() == (False, ["t1"])
        assert await core.timers.sweep(deleted=["t1"]) == (False, [])
        await age(core, "ended", "r1")
        await core.timers.sweep()
        with pytest.raises(ThreadExpired, match="has expired"):
            await core.enqueue("r2")
        assert await core.redis.zrange(core.connection.keys("idle"), 0, -1) == [b"t9"]


async def test_checkpoints_that_were_lost_end_the_run_that_is_decided_on(kept: Core) -> None:
    await kept.enqueue()
    claim = await kept.claim()
    await checkpoint(kept)
    await kept.pause(claim, request("a1"), request("a2"))
    await kept.enqueue("r2")
    await kept.redis.delete(kept.connection.keys("checkpoint", "t1"))

    with pytest.raises(ThreadExpired, match="the checkpoints of thread 't1' are gone"):
        await kept.decide("a1")
    run = await kept.placet.get("r1")
    assert run.error is not None
    assert (run.status, run.error["type"], run.error["node"]) == ("error", "ThreadExpired", None)
    assert {one.status for one in await kept.placet.approvals(status=None)} == {"cancelled"}
    with pytest.raises(ThreadExpired, match="gone"):
        await kept.enqueue("r3")
    with pytest.raises(ThreadExpired, match="gone"):
        await kept.placet.state("t1")
    with pytest.raises(Conflict, match="the checkpoints of its thread are gone"):
        await kept.placet.retry("r1")
    # the run that waited its turn does not start the conversation anew either
    assert await kept.refused("r2") == "ended"
    assert (await kept.placet.get("r2")).status == "error"


async def test_checkpoints_that_were_lost_in_a_crash_do_not_start_the_run_anew(kept: Core) -> None:
    await kept.enqueue()
    claim = await kept.claim()
    await checkpoint(kept)
    await kept.leases.append(claim, [], batch=1, progressed=True)
    await kept.redis.delete(kept.connection.keys("checkpoint", "t1"))
    await kept.expire_lease()

    assert await kept.refused() == "ended"
    assert (await kept.placet.get("r1")).status == "error"


async def test_a_decision_during_a_segment_does_not_mind_checkpoints_that_are_lost(kept: Core) -> None:
    """The segment has the thread in its memory, and writes it again."""
    await kept.enqueue()
    claim = await kept.claim()
    await checkpoint(kept)
    await kept.pause(claim, request("a1"), request("a2"))
    await kept.decide("a1")
    claim = await kept.claim()
    await kept.redis.delete(kept.connection.keys("checkpoint", "t1"))
    assert await kept.decide("a2") == []
    await checkpoint(kept)
    assert [one.run_id for one in await kept.pause(claim, request("a2"))] == ["r1"]


async def test_checkpoints_that_a_rollback_takes_away_are_not_lost(kept: Core) -> None:
    await kept.enqueue("r1")
    first = await kept.claim("r1")
    await checkpoint(kept)
    await kept.leases.append(first, [], batch=1, progressed=True)
    await kept.enqueue("r2", multitask_strategy="rollback")
    await kept.finish(first)
    await age(kept, "ended", "r1")
    await kept.timers.sweep()
    claim = await kept.claim("r2")
    assert claim.rollback == ("r1",)
    await kept.redis.delete(kept.connection.keys("checkpoint", "t1"))  # all that there was, and then it dies
    await kept.expire_lease()
    claim = await kept.claim("r2")
    await kept.leases.repaired(claim)
    await checkpoint(kept)
    await kept.pause(claim, request())
    await kept.redis.delete(kept.connection.keys("checkpoint", "t1"))
    with pytest.raises(ThreadExpired, match="gone"):
        await kept.decide("a1")


async def test_what_a_rollback_is_to_take_away_outlives_the_runs_records(kept: Core) -> None:
    await kept.enqueue("r1")
    claim = await kept.claim("r1")
    await checkpoint(kept)
    await kept.enqueue("r2", multitask_strategy="rollback")
    await kept.placet.cancel("r2")
    await kept.finish(claim)
    await age(kept, "ended", "r1", "r2")
    await kept.timers.sweep()
    assert await kept.placet.runs() == []
    await kept.enqueue("r3")
    assert (await kept.claim("r3")).rollback == ("r1",)
