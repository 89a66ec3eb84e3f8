"""Counts of attempts, and models' breakers, in Redis and in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fleet import wait_until
from placet.middleware import InMemorySharedState, RedisSharedState
from placet.middleware.shared import Breaker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from core import Core

    from placet.middleware import SharedState
    from placet.middleware.shared import Ended

LONG = 60_000
SHORT = 30


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


async def start(shared: SharedState, *, deaths_count: bool = False, key: str = "k") -> int:
    record = await shared.start_try("r1", key, deaths_count=deaths_count)
    return 0 if record.wait_ms else record.number


async def fail(shared: SharedState, number: int, wait_ms: int = 0, passed: int = 0) -> Any:
    return await shared.fail_try("r1", "k", number=number, wait_ms=wait_ms, passed=passed)


async def test_attempts_are_counted_by_key(shared: SharedState) -> None:
    assert await start(shared) == 1
    await fail(shared, 1)
    assert [await start(shared), await start(shared, key="other")] == [2, 1]


async def test_one_that_came_to_no_end_is_the_same_or_counts(shared: SharedState) -> None:
    assert [await start(shared), await start(shared)] == [1, 1]
    assert [await start(shared, deaths_count=True), await start(shared, deaths_count=True)] == [2, 3]


async def test_nothing_is_counted_before_it_is_due(shared: SharedState) -> None:
    await start(shared)
    failed = await fail(shared, 1, LONG, passed=7)
    for deaths_count in (True, False):
        early = await shared.start_try("r1", "k", deaths_count=deaths_count)
        assert (early.number, early.due_ms, early.waited_ms, early.passed) == (1, failed.due_ms, LONG, 7)
        assert 0 < early.wait_ms <= LONG


async def test_it_starts_when_it_is_due_and_waits_add_up(shared: SharedState) -> None:
    await start(shared)
    for number in (1, 2):
        await fail(shared, number, SHORT)

        async def due() -> int:
            return await start(shared)

        assert await wait_until(due) == number + 1
    record = await shared.start_try("r1", "k", deaths_count=False)
    assert (record.number, record.waited_ms, record.due_ms) == (3, 2 * SHORT, 0)


async def test_only_the_attempt_under_way_fails_or_is_taken_back(shared: SharedState) -> None:
    await start(shared)
    await fail(shared, 2, LONG)
    await shared.withdraw_try("r1", "k", number=2)
    assert await start(shared) == 1
    await shared.withdraw_try("r1", "k", number=1)
    await shared.withdraw_try("r1", "k", number=1)
    assert await start(shared) == 1
    await fail(shared, 1)
    await shared.withdraw_try("r1", "k", number=1)
    assert await start(shared) == 2


async def test_a_run_stays_with_a_model(shared: SharedState) -> None:
    assert await shared.model_of("r1", "k") == 0
    await shared.stay_with_model("r1", "k", 2)
    assert [await shared.model_of("r1", "k"), await shared.model_of("r1", "other")] == [2, 0]


CLOSED = Breaker("m", 3, LONG)


async def call(shared: SharedState, ended: Ended, *, breaker: Breaker = CLOSED, name: str = "c") -> str:
    if not await shared.enter_model("r1", breaker, call=name):
        return "refused"
    return "opened" if await shared.leave_model(breaker, call=name, ended=ended) else "called"


async def test_failures_in_a_row_open_it(shared: SharedState) -> None:
    ends: list[Ended] = ["failed", "failed", "answered", "failed", "neither", "failed", "failed", "failed"]
    assert [await call(shared, ended) for ended in ends] == ["called"] * 6 + ["opened", "refused"]
    assert await call(shared, "answered", breaker=Breaker("other", 3, LONG)) == "called"


async def test_once_it_fails_no_more_are_tried_at_a_time_than_there_are_failures_left(
    shared: SharedState,
) -> None:
    assert all([await shared.enter_model("r1", CLOSED, call=f"before {n}") for n in range(20)])
    await shared.leave_model(CLOSED, call="before 0", ended="failed")
    assert [await shared.enter_model("r1", CLOSED, call=str(n)) for n in range(4)] == [
        True,
        True,
        False,
        False,
    ]
    await shared.leave_model(CLOSED, call="1", ended="neither")
    assert await shared.enter_model("r1", CLOSED, call="4")
    await shared.leave_model(CLOSED, call="before 1", ended="answered")
    assert all([await shared.enter_model("r1", CLOSED, call=f"after {n}") for n in range(20)])


async def test_half_open_one_call_finds_out(shared: SharedState) -> None:
    quick = Breaker("m", 1, SHORT)
    assert await call(shared, "failed", breaker=quick) == "opened"

    async def let_through() -> bool:
        return await shared.enter_model("r1", quick, call="probe")

    await wait_until(let_through)
    slow = Breaker("m", 1, LONG)
    assert await shared.leave_model(slow, call="probe", ended="failed")
    assert await call(shared, "answered", breaker=quick) == "refused"


async def test_a_trial_that_takes_long_is_the_only_one_while_its_worker_lives(core: Core) -> None:
    quick = Breaker("m", 1, SHORT)
    await core.enqueue()
    await core.enqueue("r2", "t2")
    first = core.leases.shared(await core.claim("r1"))
    second = core.leases.shared(await core.claim("r2"))
    await first.enter_model("r1", quick, call="broken")
    await first.leave_model(quick, call="broken", ended="failed")

    async def let_through() -> bool:
        return await first.enter_model("r1", quick, call="probe")

    await wait_until(let_through)
    key = core.connection.keys("breaker", "m")
    told = (await core.redis.hget(key, "trial:probe")).decode()
    await core.redis.hset(key, "trial:probe", "1 " + told.partition(" ")[2])  # its cool-down is long over
    assert not await second.enter_model("r2", quick, call="other")
    await core.expire_lease("t1")
    assert await second.enter_model("r2", quick, call="other")


async def test_what_began_before_it_opened_says_nothing(shared: SharedState) -> None:
    assert all([await shared.enter_model("r1", CLOSED, call=f"{n}") for n in range(6)])
    for n in range(3):
        await shared.leave_model(CLOSED, call=f"{n}", ended="failed")
    assert not await shared.leave_model(CLOSED, call="3", ended="failed")
    assert not await shared.leave_model(CLOSED, call="4", ended="answered")
    assert not await shared.enter_model("r1", CLOSED, call="6")


@pytest.mark.parametrize("deaths_count", [0, 1])
async def test_a_start_whose_reply_was_lost_is_sent_again(core: Core, deaths_count: int) -> None:
    await core.enqueue()
    claim = await core.claim()
    args = ("r1", claim.token, "k", deaths_count or "", "me")
    assert await core.connection.run("try_start", *args) == [b"1", b"0", b"0", b"0", b"0"]
    assert await core.connection.run("try_start", *args) == [b"1", b"0", b"0", b"0", b"0"]


@pytest.mark.parametrize(("status", "kept"), [("success", 0), ("cancelled", 0), ("error", 1), ("timeout", 1)])
async def test_counts_last_as_long_as_their_run_can_go_on(core: Core, status: str, kept: int) -> None:
    await core.enqueue()
    claim = await core.claim()
    await start(core.leases.shared(claim))
    tries = core.connection.keys("run_tries", "r1")
    assert await core.redis.exists(tries) == 1
    await core.finish(claim, status)
    assert await core.redis.exists(tries) == kept
    await core.placet.delete_thread("t1")
    assert await core.redis.exists(tries) == 0


async def test_a_retried_run_counts_from_the_beginning(core: Core) -> None:
    await core.enqueue()
    claim = await core.claim()
    await start(core.leases.shared(claim))
    await core.fail(claim)
    await core.placet.retry("r1")
    assert await start(core.leases.shared(await core.claim())) == 1


async def test_breakers_go_by_themselves(core: Core) -> None:
    await core.enqueue()
    shared = core.leases.shared(await core.claim())
    await call(shared, "failed", breaker=Breaker("failed", 2, LONG))
    await call(shared, "failed", breaker=Breaker("open", 1, LONG))
    names = [core.connection.keys("breaker", name) for name in ("failed", "open")]
    lives = [await core.redis.pttl(name) for name in names]
    assert 0 < lives[0] <= LONG < lives[1] <= 11 * LONG
    await call(shared, "answered", breaker=Breaker("failed", 2, LONG))
    assert not await core.redis.exists(names[0])
