"""The ledger in Redis: attempts, fencing, what requests are told, and how long it lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from core import call_id, request

from placet.errors import LeaseLost
from placet.middleware import InMemorySharedState, RedisSharedState
from placet.middleware.shared import CallRecord

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from core import Core

    from placet.middleware import SharedState

CALL = call_id()


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


async def end(shared: SharedState, *, attempt: int = 1, start: int = 1, **changes: Any) -> None:
    given: dict[str, Any] = {"state": "done", "payload": b"\0result", "outcome": "succeeded"}
    await shared.end_call("r1", CALL, attempt=attempt, start=start, **{**given, **changes})


async def test_a_call_is_started_once(shared: SharedState) -> None:
    assert await shared.start_call("r1", CALL, attempt=1) == CallRecord("new", 1)
    assert (await shared.start_call("r1", CALL, attempt=1))[:4] == CallRecord("unknown", 1)[:4]
    assert await shared.start_call("r1", call_id("a2"), attempt=1) == CallRecord("new", 1)


async def test_its_result_is_kept_with_its_bytes(shared: SharedState) -> None:
    payload = bytes(range(256)) * 100
    await shared.start_call("r1", CALL, attempt=1)
    await end(shared, payload=payload)
    assert await shared.start_call("r1", CALL, attempt=1) == CallRecord("done", 1, payload)
    assert await shared.start_call("r1", CALL, attempt=2) == CallRecord("new", 1)


async def test_a_start_is_done_again_by_one(shared: SharedState) -> None:
    await shared.start_call("r1", CALL, attempt=1)
    assert await shared.start_call("r1", CALL, attempt=1, again=1) == CallRecord("new", 2)
    assert (await shared.start_call("r1", CALL, attempt=1, again=1))[:4] == CallRecord("unknown", 2)[:4]
    await end(shared, start=1)
    assert (await shared.start_call("r1", CALL, attempt=1))[:4] == CallRecord("unknown", 2)[:4]
    await end(shared, start=2)
    assert (await shared.start_call("r1", CALL, attempt=1)).state == "done"
    # what is stored can no longer be read
    assert await shared.start_call("r1", CALL, attempt=1, again=2) == CallRecord("new", 3)
    assert (await shared.start_call("r1", CALL, attempt=1))[:4] == CallRecord("unknown", 3)[:4]


async def test_why_there_is_no_result(shared: SharedState) -> None:
    await shared.start_call("r1", CALL, attempt=1)
    await end(shared, state="unknown", payload=b"", note="too large")
    assert await shared.start_call("r1", CALL, attempt=1) == CallRecord("unknown", 1, note="too large")


async def test_a_pause_takes_the_start_back(shared: SharedState) -> None:
    await shared.start_call("r1", CALL, attempt=1)
    await end(shared, state="failed")
    await shared.start_call("r1", CALL, attempt=2)
    await shared.withdraw_call("r1", CALL, attempt=2, start=1)
    assert (await shared.start_call("r1", CALL, attempt=1)).state == "failed"
    assert await shared.start_call("r1", CALL, attempt=2) == CallRecord("new", 1)


async def test_failures_are_forgotten_and_the_rest_closes_up() -> None:
    await _forget(InMemorySharedState())


async def test_failures_are_forgotten_in_redis(redis_url: str) -> None:
    async with RedisSharedState.open(redis_url) as shared:
        await _forget(shared)


async def _forget(shared: SharedState) -> None:
    for attempt, state in enumerate(("failed", "done", "failed", "unknown"), 1):
        await shared.start_call("r1", CALL, attempt=attempt)
        if state != "unknown":
            await end(shared, attempt=attempt, state=state, payload=f"{attempt}".encode())
    await shared.forget_failures("r1")
    assert await shared.start_call("r1", CALL, attempt=1) == CallRecord("done", 1, b"2")
    assert (await shared.start_call("r1", CALL, attempt=2))[:4] == CallRecord("unknown", 1)[:4]
    assert await shared.start_call("r1", CALL, attempt=3) == CallRecord("new", 1)


async def test_a_start_whose_reply_was_lost_is_sent_again(core: Core) -> None:
    await core.enqueue()
    claim = await core.claim()
    args = ("r1", claim.token, CALL.key, 1, 0, "pay", "c1", "me")
    assert await core.connection.run("ledger_start", *args) == [b"new", b"1", b"", b"", b"0"]
    assert await core.connection.run("ledger_start", *args) == [b"new", b"1", b"", b"", b"0"]
    assert (await core.start_call(claim)).state == "unknown"


async def test_a_lost_lease_writes_nothing(core: Core) -> None:
    await core.enqueue()
    lost = core.leases.shared(await core.claim())
    await lost.start_call("r1", CALL, attempt=1)
    await core.expire_lease()
    claim = await core.claim()
    with pytest.raises(LeaseLost):
        await end(lost)
    with pytest.raises(LeaseLost):
        await lost.start_call("r1", CALL, attempt=2)
    with pytest.raises(LeaseLost):
        await lost.withdraw_call("r1", CALL, attempt=1, start=1)
    assert (await core.start_call(claim))[:4] == CallRecord("unknown", 1)[:4]


async def test_nobody_without_a_token_writes_into_a_run(core: Core, redis_url: str) -> None:
    await core.enqueue()
    async with RedisSharedState.open(redis_url, namespace="placet") as by_hand:
        with pytest.raises(LeaseLost):
            await by_hand.start_call("r1", CALL, attempt=1)
        with pytest.raises(LeaseLost):
            await by_hand.forget_failures("r1")


async def test_a_request_is_told_what_its_call_came_to(core: Core) -> None:
    await core.paused(request("a1"), request("a2"), request("a3"), request("a4"))
    await core.decide("a1", "a2", "a3", "a4")
    claim = await core.claim()
    shared = core.leases.shared(claim)
    for one in ("a1", "a2", "a3"):
        await core.start_call(claim, one)
    assert await _outcomes(core) == {"a1": "started", "a2": "started", "a3": "started", "a4": "none"}
    await end(shared)
    await shared.end_call("r1", call_id("a2"), attempt=1, start=1, state="failed", outcome="failed")
    assert await _outcomes(core) == {"a1": "succeeded", "a2": "failed", "a3": "started", "a4": "none"}
    await core.start_call(claim, "a2", attempt=2)
    assert (await _outcomes(core))["a2"] == "started"
    await core.expire_lease()
    await core.look()
    assert await _outcomes(core) == {"a1": "succeeded", "a2": "unknown", "a3": "unknown", "a4": "none"}
    told = dict(await core.told())["run.recovered"]
    assert sorted(told["may_run_again"]) == ["a2", "a3"]
    assert sorted(one["tool_call_id"] for one in told["unknown_calls"]) == ["call-a2", "call-a3"]


async def _outcomes(core: Core) -> dict[str, str]:
    return {one.id: one.outcome for one in await core.placet.approvals(status=None)}


async def test_a_request_is_told_in_later_pauses_too(core: Core) -> None:
    """The question whether the call ran has taken the place of the request that let it run."""
    await core.paused(request("a1"))
    await core.decide("a1")
    await core.start_call(await core.claim())
    await core.expire_lease()
    await core.look()
    claim = await core.claim()
    question = request("u1", kind="unknown_call", tool_call_id="call-a1")
    await core.pause(claim, question)
    assert await _outcomes(core) == {"a1": "unknown", "u1": "none"}
    await core.decide("u1")
    claim = await core.claim()
    shared = core.leases.shared(claim)
    await shared.start_call("r1", CALL, attempt=1, again=1)
    assert await _outcomes(core) == {"a1": "started", "u1": "started"}
    await end(shared, start=2)
    await core.finish(claim)
    assert await _outcomes(core) == {"a1": "succeeded", "u1": "succeeded"}


async def test_a_worker_that_stops_leaves_its_calls_unknown(core: Core) -> None:
    await core.paused(request("a1"))
    await core.decide("a1")
    claim = await core.claim()
    await core.start_call(claim)
    await core.leases.give_back(claim, reason="stops", count_attempt=False)
    assert await _outcomes(core) == {"a1": "unknown"}


@pytest.mark.parametrize(("status", "kept"), [("success", 0), ("cancelled", 1), ("error", 1), ("timeout", 1)])
async def test_it_lasts_as_long_as_somebody_may_need_it(core: Core, status: str, kept: int) -> None:
    await core.enqueue()
    claim = await core.claim()
    await core.start_call(claim)
    ledger = core.connection.keys("run_ledger", "r1")
    assert await core.redis.exists(ledger) == 1
    await core.finish(claim, status)
    assert await core.redis.exists(ledger) == kept
    await core.placet.delete_thread("t1")
    assert await core.redis.exists(ledger) == 0


async def test_a_retried_run_makes_its_failed_calls_anew(core: Core) -> None:
    await core.enqueue()
    claim = await core.claim()
    await core.start_call(claim)
    shared = core.leases.shared(claim)
    await end(shared, state="failed", payload=b"boom")
    await core.start_call(claim, "a2")
    await core.fail(claim)
    await core.placet.retry("r1")
    claim = await core.claim()
    assert await core.start_call(claim) == CallRecord("new", 1)
    assert (await core.start_call(claim, "a2"))[:4] == CallRecord("unknown", 1)[:4]
