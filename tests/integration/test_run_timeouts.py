"""A run's timeout: a clock that stands still while it waits for people, and whoever lives ends it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from core import request

from placet.errors import InvalidInput, NotPending

if TYPE_CHECKING:
    from core import Core

REASON = "timed out: it did not end within 5 s of its own time"
ERROR = {"type": "RunTimeout", "message": REASON, "node": None}


async def seconds_left(core: Core, run_id: str = "r1") -> float | None:
    due = await core.redis.zscore(core.connection.keys("deadlines"), run_id)
    seconds, micro = await core.redis.time()
    return None if due is None else due / 1000 - seconds - micro / 1_000_000


async def timed_out(core: Core) -> None:
    run = await core.placet.get("r1")
    assert (run.status, run.reason, run.error, run.timeout_seconds) == ("timeout", REASON, ERROR, 5)
    assert (await core.told())[-1] == ("run.ended", {"status": "timeout", "reason": REASON})
    assert await core.scanned() == set()


async def test_the_clock_starts_with_the_run_and_stands_still_while_people_are_asked(core: Core) -> None:
    await core.enqueue(timeout_ms=5_000)
    assert await seconds_left(core) is None
    claim = await core.claim()
    left = await seconds_left(core)
    assert left is not None
    assert 0 < left <= 5
    await core.pause(claim, request("a1"), request("a2"))
    assert await core.scanned() == set()
    await core.make_late()
    await core.look()
    assert (await core.placet.get("r1")).status == "interrupted"
    await core.decide("a1")
    await core.pause(await core.claim(), request("a2"))
    await core.decide("a2")
    assert await seconds_left(core) is not None
    claim = await core.claim()
    assert await seconds_left(core) is not None
    assert (await core.finish(claim))[0] == "success"
    assert await core.scanned() == set()


async def test_the_clock_of_a_run_that_fitted_no_graph_has_not_started(core: Core) -> None:
    await core.enqueue(timeout_ms=5_000)
    await core.leases.unmatched(await core.claim(), why="no such node")
    assert await seconds_left(core) is None


async def test_a_timer_is_the_runs_own_time(core: Core) -> None:
    await core.enqueue(timeout_ms=5_000)
    await core.pause(await core.claim(), wake_at_ms=2**50)
    await core.make_late()
    assert await core.look() == []
    await timed_out(core)


@pytest.mark.parametrize("comes_to", ["success", "error", "pause", "give_back", "unmatched", "death"])
async def test_a_running_run_is_asked_to_stop_and_ends_as_timeout(core: Core, comes_to: str) -> None:
    await core.enqueue(timeout_ms=5_000)
    claim = await core.claim()
    await core.make_late()
    await core.look()
    assert (await core.placet.get("r1")).status == "running"
    assert await core.leases.renew({"r1": claim.token}) == (set(), {"r1"})

    if comes_to in ("success", "error"):
        assert (await core.finish(claim, comes_to))[0] == "timeout"
    elif comes_to == "pause":
        await core.pause(claim, request())
    elif comes_to == "give_back":
        await core.leases.give_back(claim, reason="stops", count_attempt=True)
    elif comes_to == "unmatched":
        await core.leases.unmatched(claim, why="no such node")
    else:
        await core.expire_lease()
        await core.look()
    await timed_out(core)
    await core.stale(claim)


@pytest.mark.parametrize("seen_by", ["look", "claim", "pause"])
async def test_a_late_run_is_ended_by_whoever_sees_it_first(core: Core, seen_by: str) -> None:
    await core.enqueue(timeout_ms=5_000)
    claim = await core.claim()
    await core.make_late()
    if seen_by != "pause":
        await core.expire_lease()  # its worker is gone

    if seen_by == "look":
        assert await core.look() == []
    elif seen_by == "claim":
        assert await core.refused() == "ended"
    else:
        assert await core.pause(claim, request()) == []
    await timed_out(core)


async def test_its_requests_are_cancelled_and_the_next_run_goes(core: Core) -> None:
    await core.enqueue(timeout_ms=5_000)
    await core.pause(await core.claim(), request("a1"), request("a2"))
    await core.decide("a1")
    claim = await core.claim()
    await core.enqueue("r2")
    await core.make_late()
    await core.look()

    with pytest.raises(NotPending, match="cancelled: timed out"):
        await core.decide("a2")
    await core.finish(claim)
    assert (await core.placet.approval("a1")).outcome == "unknown"
    assert (await core.claim("r2")).repair == REASON


async def test_a_cancellation_counts_for_more(core: Core) -> None:
    await core.enqueue(timeout_ms=5_000)
    claim = await core.claim()
    await core.make_late()
    await core.look()
    await core.placet.cancel("r1", reason="enough")
    assert (await core.finish(claim))[0] == "cancelled"

    await core.enqueue("r2", timeout_ms=5_000)
    claim = await core.claim("r2")
    await core.placet.cancel("r2", reason="enough")
    await core.make_late("r2")
    await core.look()
    await core.finish(claim)
    assert (await core.placet.get("r2")).reason == "enough"


async def test_a_retry_has_the_whole_time_again(core: Core) -> None:
    await core.enqueue(timeout_ms=5_000)
    await core.claim()
    await core.make_late()
    await core.expire_lease()
    await core.look()
    run = await core.placet.retry("r1")

    assert (run.status, run.error, run.reason) == ("pending", None, "")
    claim = await core.claim()
    left = await seconds_left(core)
    assert left is not None
    assert left > 0
    assert (await core.finish(claim))[0] == "success"


@pytest.mark.parametrize("bad", [0, -1, True, "5", float("nan"), timedelta(0)])
async def test_a_timeout_is_a_time(core: Core, bad: Any) -> None:
    with pytest.raises(InvalidInput, match="timeout_seconds"):
        await core.placet.enqueue("agent", {}, timeout_seconds=bad)
    run = await core.placet.enqueue("agent", {}, timeout_seconds=0.0001)
    assert run.timeout_seconds == 0.001
