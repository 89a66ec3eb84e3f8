from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from core import open_core, request

if TYPE_CHECKING:
    from core import Core


async def test_a_claim_starts_a_run(core: Core) -> None:
    await core.enqueue()
    claim = await core.claim()

    run = await core.placet.get("r1")
    assert (run.status, run.attempt, run.segment, run.worker) == ("running", 1, 1, "w1")
    assert run.started_at is not None
    assert (claim.answers, claim.repair, claim.progress) == ((), "", "")
    assert (await core.told())[-1] == ("run.started", {"segment": 1, "worker": "w1"})
    assert await core.outbox() == []


async def test_one_lease_for_fifty_claims(core: Core) -> None:
    await core.enqueue()
    claims = await asyncio.gather(*(core.leases.claim("r1") for _ in range(50)))

    assert [claim is not None for claim, _, _ in claims].count(True) == 1
    assert {why for claim, why, _ in claims if claim is None} == {"busy"}
    assert (await core.placet.get("r1")).attempt == 1


async def test_a_claim_is_refused_with_the_reason(core: Core) -> None:
    assert await core.refused("unknown") == "missing"
    await core.paused(request())
    assert await core.refused() == "waiting"
    await core.enqueue("r2")
    assert await core.refused("r2") == "queued"
    await core.decide("a1")
    claim = await core.claim()
    assert await core.refused() == "busy"
    await core.finish(claim)
    assert await core.refused() == "ended"


async def test_tokens_only_grow_over_threads_and_a_lost_counter(core: Core) -> None:
    await core.enqueue("r1", "t1")
    await core.enqueue("r2", "t2")
    first, second = await core.claim("r1"), await core.claim("r2")
    assert second.token > first.token
    await core.redis.set(core.connection.keys("fence"), 5)  # as after a restore of an old dump
    await core.finish(second)
    await core.enqueue("r3", "t3")
    third = await core.claim("r3")
    assert third.token >= third.run.created_at.timestamp() * 1000


async def test_a_killed_workers_run_is_taken_over_and_the_old_worker_fenced(core: Core) -> None:
    await core.enqueue()
    lost = await core.claim()
    await core.expire_lease()

    assert [one.run_id for one in await core.look()] == ["r1"]
    assert (await core.placet.get("r1")).status == "pending"
    await core.stale(lost)
    claim = await core.claim()
    await core.stale(lost)

    assert (claim.run.attempt, claim.run.segment) == (2, 2)
    assert ("run.recovered", {"lost_worker": "w1"}) in await core.told()
    assert await core.leases.renew({"r1": lost.token}) == ({"r1"}, set())
    assert await core.leases.renew({"r1": claim.token}) == (set(), set())


async def test_a_claim_takes_over_before_the_reconciler_looks(core: Core) -> None:
    await core.enqueue()
    lost = await core.claim()
    await core.expire_lease()

    assert (await core.claim()).run.attempt == 2
    await core.stale(lost)
    assert [kind for kind, _ in await core.told()][-2:] == ["run.recovered", "run.resumed"]


async def test_an_expired_lease_that_nobody_took_can_be_renewed(core: Core) -> None:
    await core.enqueue()
    claim = await core.claim()
    await core.expire_lease()

    assert await core.leases.renew({"r1": claim.token, "unknown": 1}) == ({"unknown"}, set())
    assert await core.look() == []
    assert (await core.finish(claim))[0] == "success"


async def test_too_many_attempts_end_the_run_and_wake_the_next(redis_url: str) -> None:
    async with open_core(redis_url, max_attempts=2) as core:
        await core.enqueue("r1")
        await core.enqueue("r2")
        for _ in range(2):
            await core.claim()
            await core.expire_lease()
        claim, why, woken = await core.leases.claim("r1")

        run = await core.placet.get("r1")
        assert (claim, why, [one.run_id for one in woken]) == (None, "ended", ["r2"])
        assert (run.status, run.attempt) == ("error", 2)
        assert run.error is not None
        assert (run.error["type"], run.error["node"]) == ("TooManyAttempts", None)
        assert (await core.claim("r2")).repair == "too many attempts"


async def test_progress_counts_attempts_anew(core: Core) -> None:
    await core.enqueue()
    for progressed, attempt in ((False, 1), (False, 2), (True, 3), (False, 1), (True, 2), (True, 1)):
        claim = await core.claim()
        assert claim.run.attempt == attempt
        await core.leases.append(claim, [], batch=1, progressed=progressed)
        await core.expire_lease()
    await core.look()


async def test_a_call_that_starts_for_the_first_time_is_progress(core: Core) -> None:
    await core.enqueue()
    for approval_id, attempt in (("a1", 1), ("a1", 1), ("a1", 2), ("a2", 3), ("a1", 1)):
        claim = await core.claim()
        assert claim.run.attempt == attempt
        await core.start_call(claim, approval_id)
        await core.expire_lease()
    await core.look()


async def test_given_back_at_once_with_or_without_counting(core: Core) -> None:
    await core.enqueue()
    woken = await core.leases.give_back(await core.claim(), reason="worker stops", count_attempt=False)

    assert [(one.run_id, one.first) for one in woken] == [("r1", False)]
    assert (await core.placet.get("r1")).attempt == 0
    await core.leases.give_back(await core.claim(), reason="broken", count_attempt=True)
    assert (await core.placet.get("r1")).attempt == 1
    events = await core.events.after("r1", 0, block_ms=1)
    assert [e.attempt for e in events if e.type == "run.given_back"] == [1, 1]


async def test_given_back_with_a_request_open_is_interrupted_and_claimable(core: Core) -> None:
    await core.paused(request("a1"), request("a2"))
    await core.decide("a1")
    await core.leases.give_back(await core.claim(), reason="worker stops", count_attempt=False)

    assert (await core.placet.get("r1")).status == "interrupted"
    assert [answer.delivered for answer in (await core.claim()).answers] == [True]


async def test_given_back_after_a_cancel_ends(core: Core) -> None:
    await core.enqueue()
    claim = await core.claim()
    await core.placet.cancel("r1", reason="enough")

    assert await core.leases.give_back(claim, reason="worker stops", count_attempt=False) == []
    assert (await core.placet.get("r1")).status == "cancelled"


async def test_a_success_leaves_nothing_to_repair(core: Core) -> None:
    await core.enqueue("r1")
    await core.finish(await core.claim(), "error", reason="broken")
    await core.enqueue("r2")
    assert (await core.claim("r2")).repair == "broken"
    await core.expire_lease()
    claim = await core.claim("r2")
    assert claim.repair == "broken"  # the worker died before it had repaired the thread
    await core.finish(claim)
    await core.enqueue("r3")
    assert (await core.claim("r3")).repair == ""


async def test_a_repair_is_done_once(core: Core) -> None:
    await core.enqueue("r1")
    await core.finish(await core.claim(), "timeout")
    await core.enqueue("r2")
    claim = await core.claim("r2")
    assert claim.repair == "timeout"
    await core.leases.repaired(claim)
    await core.leases.give_back(claim, reason="worker stops", count_attempt=False)
    assert (await core.claim("r2")).repair == ""
