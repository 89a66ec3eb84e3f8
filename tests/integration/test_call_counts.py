"""Counts of calls: all or nothing, places kept for those that wait, and how long they last."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from placet.errors import LeaseLost
from placet.middleware import InMemorySharedState, RedisSharedState
from placet.middleware.shared import CallCount, Counted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from core import Core

    from placet.middleware import SharedState

HOUR = 3_600_000


def run_limit(limit: int | None, key: str = "m") -> CallCount:
    return CallCount("run", key, limit)


def thread_limit(limit: int | None, key: str = "m") -> CallCount:
    return CallCount("thread", key, limit)


def window(limit: int, key: str = "w", *, waits: bool = False, per_ms: int = HOUR) -> CallCount:
    return CallCount("window", key, limit, per_ms, waits)


async def count(shared: SharedState, *counts: CallCount, waiter: str = "me", run: str = "r1") -> Counted:
    return await shared.count_call(run, counts, thread_id="t1", waiter=waiter)


async def look(shared: SharedState, *counts: CallCount, run: str = "r1") -> tuple[int, ...]:
    return await shared.call_counts(run, counts, thread_id="t1")


@pytest.fixture(params=["redis", "redis by hand", "memory"])
async def shared(request: pytest.FixtureRequest, core: Core, redis_url: str) -> AsyncIterator[SharedState]:
    if request.param == "redis":
        await core.enqueue()
        yield core.leases.shared(await core.claim())
    elif request.param == "memory":
        yield InMemorySharedState()
    else:
        async with RedisSharedState.open(redis_url) as by_hand:
            yield by_hand


async def pass_time(shared: SharedState, milliseconds: int, key: str = "w") -> None:
    """Let that much time go by in a window."""
    if isinstance(shared, InMemorySharedState):
        its = shared._windows[key]
        its.calls = [at - milliseconds for at in its.calls]
        its.line = {waiter: due - milliseconds for waiter, due in its.line.items()}
        return
    assert isinstance(shared, RedisSharedState)
    redis: Any = shared._c.redis
    keys = shared._c.keys
    calls, line = keys("window_calls", key), keys("window_line", key)
    for place, at in enumerate(await redis.lrange(calls, 0, -1)):
        await redis.lset(calls, place, str(int(at) - milliseconds))
    for waiter, due in await redis.zrange(line, 0, -1, withscores=True):
        await redis.zadd(line, {waiter: due - milliseconds})


async def test_a_call_is_counted_until_there_is_no_room(shared: SharedState) -> None:
    states = [(await count(shared, run_limit(2), thread_limit(None))).state for _ in range(4)]
    assert states == ["counted", "counted", "refused", "refused"]
    assert await look(shared, run_limit(2), thread_limit(None), run_limit(9, "other")) == (2, 2, 0)


async def test_everywhere_or_nowhere(shared: SharedState) -> None:
    for _ in range(2):
        await count(shared, run_limit(9), window(2))
    refused = await count(shared, run_limit(9), window(2), thread_limit(9))
    assert refused == Counted("refused", (2, 2, 0), (False, True, False))
    waiting = await count(shared, run_limit(9), window(2, waits=True), thread_limit(0))
    assert (waiting.state, waiting.full) == ("refused", (False, True, True))
    assert await look(shared, run_limit(9), window(2), thread_limit(9)) == (2, 2, 0)


async def test_many_at_once_get_what_there_is(shared: SharedState) -> None:
    calls = [count(shared, window(10), run_limit(25), waiter=str(n)) for n in range(50)]
    states = [one.state for one in await asyncio.gather(*calls)]
    assert (states.count("counted"), states.count("refused")) == (10, 40)
    assert await look(shared, window(10), run_limit(25)) == (10, 10)


async def test_no_stretch_of_a_windows_length_has_more_than_its_limit(shared: SharedState) -> None:
    for _ in range(2):
        await count(shared, window(3))
    await pass_time(shared, HOUR - 60_000)
    states = [(await count(shared, window(3))).state for _ in range(2)]
    assert states == ["counted", "refused"]
    await pass_time(shared, 60_000)
    states = [(await count(shared, window(3))).state for _ in range(3)]
    assert states == ["counted", "counted", "refused"]


async def test_who_waits_is_told_when_and_keeps_that_time(shared: SharedState) -> None:
    await count(shared, window(1))
    waits = await count(shared, window(1, waits=True), waiter="a")
    assert waits.state == "waits"
    assert abs(waits.due_ms - time.time_ns() // 1_000_000 - HOUR) < 60_000
    assert await count(shared, window(1, waits=True), waiter="a") == waits
    await pass_time(shared, HOUR)
    assert (await count(shared, window(1, waits=True), waiter="a")).state == "counted"


async def test_those_that_wait_come_one_after_another(shared: SharedState) -> None:
    """Each is told of a place of its own, further ones of those that come free after them."""
    for _ in range(2):
        await count(shared, window(2))
        await pass_time(shared, 600_000)
    dues = [(await count(shared, window(2, waits=True), waiter=name)).due_ms for name in "abcde"]
    first = dues[0]
    gaps = [round((due - first) / 600_000) for due in dues]
    assert gaps == [0, 1, 6, 7, 12]


async def test_a_place_that_came_free_is_kept_for_whose_turn_it_is(shared: SharedState) -> None:
    await count(shared, window(1))
    await count(shared, window(1, waits=True), waiter="a")
    await pass_time(shared, HOUR)
    assert (await count(shared, window(1), waiter="new")).state == "refused"
    assert (await count(shared, window(1, waits=True), waiter="newer")).state == "waits"
    assert (await count(shared, window(1, waits=True), waiter="a")).state == "counted"


async def test_who_does_not_come_back_loses_the_place(shared: SharedState) -> None:
    await count(shared, window(1))
    await count(shared, window(1, waits=True), waiter="a")
    await pass_time(shared, HOUR + 61_000)
    assert (await count(shared, window(1), waiter="new")).state == "counted"
    again = await count(shared, window(1, waits=True), waiter="a")
    assert again.state == "waits"


async def test_several_windows_open_when_the_last_does(shared: SharedState) -> None:
    counts = (window(1, "w", waits=True), window(1, "v", waits=True, per_ms=2 * HOUR))
    await count(shared, *counts)
    waits = await count(shared, *counts, waiter="a")
    assert abs(waits.due_ms - time.time_ns() // 1_000_000 - 2 * HOUR) < 60_000
    await pass_time(shared, HOUR, "w")
    assert await count(shared, *counts, waiter="a") == waits._replace(values=(0, 1), full=(False, True))


async def test_a_limit_that_was_lowered(shared: SharedState) -> None:
    for _ in range(4):
        await count(shared, window(4))
        await pass_time(shared, 600_000)
    waits = await count(shared, window(2, waits=True), waiter="a")
    # of four calls, 40 to 10 minutes ago, the third has to pass
    assert abs(waits.due_ms - time.time_ns() // 1_000_000 - (HOUR - 1_200_000)) < 60_000


async def test_a_window_expires(core: Core, redis_url: str) -> None:
    async with RedisSharedState.open(redis_url) as shared:
        await count(shared, window(1))
        await count(shared, window(1, waits=True), waiter="a")
        keys = shared._c.keys
        assert 0 < await core.redis.pttl(keys("window_calls", "w")) <= HOUR
        assert HOUR < await core.redis.pttl(keys("window_line", "w")) <= 2 * HOUR
        for name in await core.redis.keys("*"):
            assert await core.redis.pttl(name) > 0, name


async def test_a_call_whose_reply_was_lost_is_counted_once(core: Core) -> None:
    await core.enqueue()
    claim = await core.claim()
    args: tuple[Any, ...] = ("r1", claim.token, "t1", "id", "me", "run", "m", "1", 0, "")
    assert (await core.connection.run("counts_add", *args))[0] == b"counted"
    assert (await core.connection.run("counts_add", *args))[0] == b"counted"
    assert await look(core.leases.shared(claim), run_limit(1)) == (1,)


async def test_a_lost_lease_counts_nothing(core: Core) -> None:
    await core.enqueue()
    lost = core.leases.shared(await core.claim())
    await core.expire_lease()
    claim = await core.claim()
    with pytest.raises(LeaseLost):
        await count(lost, run_limit(9))
    assert await look(core.leases.shared(claim), run_limit(9)) == (0,)


async def test_a_worker_cannot_be_told_of_another_thread(core: Core) -> None:
    await core.enqueue()
    shared = core.leases.shared(await core.claim())
    await shared.count_call("r1", [thread_limit(9)], thread_id="of a caller's config", waiter="me")
    assert await look(shared, thread_limit(9)) == (1,)


BOTH = (run_limit(9), thread_limit(9), window(9))


async def test_a_retried_run_goes_on_counting(core: Core) -> None:
    await core.enqueue()
    claim = await core.claim()
    await count(core.leases.shared(claim), *BOTH)
    await core.fail(claim)
    await core.runs.retry("r1")
    assert await look(core.leases.shared(await core.claim()), *BOTH) == (1, 1, 1)


async def test_the_threads_next_run_has_a_count_of_its_own(core: Core) -> None:
    await core.enqueue()
    claim = await core.claim()
    await count(core.leases.shared(claim), *BOTH)
    await core.finish(claim)
    assert await core.redis.exists(core.connection.keys("run_counts", "r1")) == 0
    await core.enqueue("r2")
    assert await look(core.leases.shared(await core.claim("r2")), *BOTH, run="r2") == (0, 1, 1)


@pytest.mark.parametrize(("strategy", "left"), [("rollback", 1), ("interrupt", 3)])
async def test_what_is_rolled_back_leaves_its_threads_count(core: Core, strategy: Any, left: int) -> None:
    """The calls of the run that is taken back are its own alone; a window keeps them, for they were paid."""
    await core.enqueue()
    claim = await core.claim()
    await count(core.leases.shared(claim), *BOTH)
    await core.finish(claim)
    await core.enqueue("r2")
    claim = await core.claim("r2")
    for _ in range(2):
        await count(core.leases.shared(claim), *BOTH, run="r2")
    await core.pause(claim)
    await core.enqueue("r3", multitask_strategy=strategy)
    assert await look(core.leases.shared(await core.claim("r3")), *BOTH, run="r3") == (0, left, 3)


async def test_a_deleted_thread_takes_its_counts_along(core: Core) -> None:
    await core.enqueue()
    claim = await core.claim()
    await count(core.leases.shared(claim), *BOTH)
    await core.threads.delete("t1")
    left = {name.decode().split("}:")[1].partition(":")[0] for name in await core.redis.keys("*counts*")}
    assert left == set()
