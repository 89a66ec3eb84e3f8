from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from core import request
from structlog.testing import capture_logs

if TYPE_CHECKING:
    from core import Core


async def test_a_lost_wake_up_is_sent_again_with_backoff(core: Core) -> None:
    await core.enqueue()
    outbox = core.connection.keys("outbox", "placet")
    assert await core.look() == []

    waits = []
    for _ in range(8):
        await core.make_due()
        assert [(one.run_id, one.first) for one in await core.look()] == [("r1", True)]
        assert await core.look() == []
        now, micro = await core.redis.time()
        waits.append(round((await core.redis.zscore(outbox, "r1") - now * 1000 - micro / 1000) / 1000))
    assert waits == [6, 12, 24, 48, 96, 120, 120, 120]
    await core.claim()
    assert await core.outbox() == []


async def test_no_more_are_sent_again_than_there_is_room_for_oldest_first(core: Core) -> None:
    outbox = core.connection.keys("outbox", "placet")
    for n in range(10):
        await core.enqueue(f"r{n}", f"t{n}")
        await core.redis.zadd(outbox, {f"r{n}": 10 - n})

    assert await core.look(limit=0) == []
    assert [one.run_id for one in await core.look(limit=3)] == ["r9", "r8", "r7"]
    assert len(await core.look(limit=100)) == 7


async def test_only_queues_that_the_worker_consumes_are_sent_again(core: Core) -> None:
    await core.enqueue("r1", "t1", queue="slow")
    await core.redis.zadd(core.connection.keys("outbox", "slow"), {"r1": 1})

    assert await core.look() == []
    assert [(one.run_id, one.queue) for one in await core.look(queues=("placet", "slow"))] == [("r1", "slow")]


async def test_a_deep_backlog_is_gone_through_a_hundred_at_a_time(core: Core) -> None:
    for n in range(150):
        await core.enqueue(f"r{n}", f"t{n}")
        await core.claim(f"r{n}")
        await core.enqueue(f"s{n}", f"u{n}")
    leases, timers = core.connection.keys("leases"), core.connection.keys("timers")
    await core.redis.zadd(leases, {f"t{n}": 1 for n in range(150)})
    for n in range(150):
        await core.pause(await core.claim(f"s{n}"), wake_at_ms=9_000_000_000_000)
    await core.redis.zadd(timers, {f"s{n}": 1 for n in range(150)})

    woken = [{one.run_id for one in await core.look(limit=0)} for _ in range(3)]
    assert [len(one) for one in woken] == [200, 100, 0]
    assert len(woken[0] | woken[1]) == 300
    for n in range(150):
        await core.redis.hset(core.connection.keys("run", f"s{n}"), "wake_at", 1)
        await core.claim(f"s{n}")
        await core.claim(f"r{n}")


async def test_a_run_that_ended_is_not_woken(core: Core) -> None:
    await core.paused(request())
    await core.decide("a1")
    await core.placet.cancel("r1")
    await core.placet.enqueue("agent", {}, run_id="r2", thread_id="t2", start_at=timedelta(hours=1))
    await core.placet.cancel("r2")

    assert await core.scanned() == set()


async def test_a_look_is_a_sign_of_life(core: Core) -> None:
    await core.timers.look(facts='{"pid": 7}', limit=1, queues=("placet",))

    worker = await core.redis.hgetall(core.connection.keys("worker", "w1"))
    assert worker[b"facts"] == b'{"pid": 7}'
    assert await core.redis.zrange(core.connection.keys("workers"), 0, -1) == [b"w1"]
    assert 0 < await core.redis.ttl(core.connection.keys("worker", "w1")) <= 3600
    await core.redis.zadd(core.connection.keys("workers"), {"gone": 1})
    await core.look()
    assert await core.redis.zrange(core.connection.keys("workers"), 0, -1) == [b"w1"]


async def test_a_broken_record_does_not_keep_others_from_going_on(core: Core) -> None:
    """A timer or a wake-up of a run that is not there, or whose key holds something else."""
    await core.enqueue(start_at=datetime.now(UTC) + timedelta(hours=1))
    await core.make_due()
    timers, outbox = core.connection.keys("timers"), core.connection.keys("outbox", "placet")
    await core.redis.set(core.connection.keys("run", "wrong"), "text")
    for name in ("gone", "wrong"):
        await core.redis.zadd(timers, {name: 1})
        await core.redis.zadd(outbox, {name: 1})
    await core.redis.zadd(core.connection.keys("leases"), {"gone": 1})
    with capture_logs() as logs:
        woken = await core.look()
    assert [one.run_id for one in woken] == ["r1"]
    assert {entry["id"] for entry in logs if entry["event"] == "record.unreadable"} == {"gone", "wrong"}
    with capture_logs() as logs:
        await core.look()
    assert logs == []
    await core.redis.delete(core.connection.keys("run", "wrong"))
