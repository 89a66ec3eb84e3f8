from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from core import request

from placet.errors import Conflict, NotFound, NotPending, ThreadExpired

if TYPE_CHECKING:
    from core import Core


async def test_a_success_keeps_its_result_and_lets_the_next_run_go(core: Core) -> None:
    await core.enqueue("r1")
    await core.enqueue("r2")
    status, woken = await core.finish(await core.claim())

    run = await core.placet.get("r1")
    assert (status, run.status, run.result, run.error) == ("success", "success", {"done": True}, None)
    assert [(one.run_id, one.queue, one.first) for one in woken] == [("r2", "placet", True)]
    assert (await core.told())[-1] == ("run.ended", {"status": "success", "reason": ""})
    assert 0 < await core.redis.ttl(core.connection.keys("run_events", "r1")) <= 86_400


async def test_a_failure_is_data(core: Core) -> None:
    await core.enqueue()
    await core.fail(await core.claim())

    run = await core.placet.get("r1")
    assert (run.status, run.result) == ("error", None)
    assert run.error == {"type": "ValueError", "message": "no", "node": "n"}


async def test_a_run_that_ends_voids_what_it_still_asked(core: Core) -> None:
    await core.paused(request("a1"), request("a2"), request("a3"))
    await core.decide("a1")
    claim = await core.claim()
    await core.decide("a2")
    await core.finish(claim)

    found = [(one.status, one.outcome) for one in reversed(await core.placet.approvals(status=None))]
    assert sorted(found) == [("cancelled", "not_run"), ("decided", "not_run"), ("decided", "succeeded")]
    with pytest.raises(NotPending):
        await core.decide("a3")


async def test_a_cancelled_runs_call_never_runs(core: Core) -> None:
    await core.paused(request("a1"), request("a2"))
    await core.enqueue("r2")
    await core.decide("a1")
    run = await core.placet.cancel("r1", reason="changed my mind")

    assert run.status == "cancelled"
    approved, asked = await core.placet.approval("a1"), await core.placet.approval("a2")
    assert (approved.status, approved.outcome) == ("decided", "not_run")
    assert (asked.status, asked.outcome, asked.reason) == ("cancelled", "not_run", "changed my mind")
    assert await core.refused() == "ended"
    assert await core.outbox() == ["r2"]
    assert (await core.claim("r2")).repair == "changed my mind"
    with pytest.raises(Conflict, match="r1 has ended"):
        await core.placet.cancel("r1")


async def test_a_running_run_is_asked_to_stop_and_never_ends_as_success(core: Core) -> None:
    await core.enqueue()
    claim = await core.claim()

    assert (await core.placet.cancel("r1", reason="stop")).status == "running"
    assert await core.leases.renew({"r1": claim.token}) == (set(), {"r1"})
    assert (await core.finish(claim))[0] == "cancelled"
    run = await core.placet.get("r1")
    assert (run.status, run.result) == ("cancelled", None)
    assert (await core.told())[-1] == ("run.ended", {"status": "cancelled", "reason": "stop"})


@pytest.mark.parametrize("taken_by", ["claim", "look"])
async def test_a_cancelled_run_whose_worker_is_gone_ends(core: Core, taken_by: str) -> None:
    await core.enqueue("r1")
    await core.enqueue("r2")
    await core.claim()
    await core.placet.cancel("r1")
    await core.expire_lease()

    if taken_by == "claim":
        assert await core.refused() == "ended"
    else:
        assert [one.run_id for one in await core.look()] == ["r2"]
    assert (await core.placet.get("r1")).status == "cancelled"
    await core.claim("r2")


async def test_a_run_whose_lease_ran_out_is_cancelled_at_once(core: Core) -> None:
    await core.enqueue()
    claim = await core.claim()
    await core.expire_lease()

    assert (await core.placet.cancel("r1")).status == "cancelled"
    await core.stale(claim)


async def test_a_queued_run_is_cancelled_while_another_holds_its_thread(core: Core) -> None:
    for run_id in ("r1", "r2", "r3"):
        await core.enqueue(run_id)
    claim = await core.claim("r1")

    assert (await core.placet.cancel("r2")).status == "cancelled"
    assert await core.outbox() == []
    _, woken = await core.finish(claim)
    assert [one.run_id for one in woken] == ["r3"]
    assert (await core.claim("r3")).repair == ""


async def test_an_unknown_run_is_not_found(core: Core) -> None:
    for call in (core.placet.get, core.placet.cancel, core.placet.retry, core.placet.wait):
        with pytest.raises(NotFound, match="no run 'r9'"):
            await call("r9")
    with pytest.raises(NotFound):
        await anext(core.placet.stream("r9"))
    with pytest.raises(NotFound, match="no approval 'a9'"):
        await core.placet.decide("a9", {"type": "approve"}, reviewer="alice")
    with pytest.raises(NotFound, match="no thread 't9'"):
        await core.placet.delete_thread("t9")


async def test_a_retry_goes_on_before_what_was_queued_since(core: Core) -> None:
    await core.enqueue("r1")
    await core.enqueue("r2")
    await core.fail(await core.claim())
    assert await core.outbox() == ["r2"]
    run = await core.placet.retry("r1")

    assert (run.status, run.attempt, run.error, run.ended_at) == ("pending", 0, None, None)
    assert await core.redis.ttl(core.connection.keys("run_events", "r1")) == -1
    assert await core.refused("r2") == "queued"
    claim = await core.claim("r1")
    assert claim.run.segment == 2
    _, woken = await core.finish(claim)
    assert [one.run_id for one in woken] == ["r2"]


async def test_only_a_failed_run_can_be_retried(core: Core) -> None:
    await core.enqueue()
    with pytest.raises(Conflict, match="it is pending"):
        await core.placet.retry("r1")
    await core.finish(await core.claim())
    with pytest.raises(Conflict, match="it ended as success; only a failed run can be retried"):
        await core.placet.retry("r1")


async def test_a_run_that_its_thread_left_behind_cannot_be_retried(core: Core) -> None:
    await core.enqueue("r1")
    await core.enqueue("r2")
    await core.fail(await core.claim("r1"))
    await core.claim("r2")

    with pytest.raises(Conflict, match="its thread has gone on with run r2"):
        await core.placet.retry("r1")


async def test_a_run_of_a_deleted_thread_cannot_be_retried_even_on_a_new_one(core: Core) -> None:
    await core.enqueue("r1")
    await core.fail(await core.claim("r1"))
    await core.placet.delete_thread("t1")
    with pytest.raises(Conflict, match="its thread was deleted"):
        await core.placet.retry("r1")
    await core.redis.delete(core.connection.keys("thread", "t1"))  # as the end of its tombstone does
    await core.enqueue("r2")

    with pytest.raises(Conflict, match="its thread was deleted"):
        await core.placet.retry("r1")


async def test_a_retry_asks_again_and_takes_no_old_answer(core: Core) -> None:
    await core.paused(request("a1"), request("a2"), request("a3"))
    await core.decide("a1")
    claim = await core.claim()
    await core.decide("a2")
    await core.fail(claim)
    assert (await core.placet.approval("a1")).outcome == "unknown"
    await core.placet.retry("r1")
    claim = await core.claim()

    assert claim.answers == ()
    assert await core.pause(claim, request("a1"), request("a2"), request("a3")) == []
    again = await core.approvals.of_pause("r1")
    assert [(one.status, one.decision, one.outcome) for one in again] == [("pending", None, "none")] * 3
    await core.decide("a1", "a2", "a3", kind="reject", reviewer="bob")
    assert {a.decision["type"] for a in (await core.claim()).answers} == {"reject"}


async def test_a_retry_keeps_what_its_thread_needs_repaired(core: Core) -> None:
    await core.enqueue("r1")
    await core.finish(await core.claim("r1"), "error", reason="cut off")
    await core.enqueue("r2")
    await core.fail(await core.claim("r2"))  # before it came to repair the thread
    await core.placet.retry("r2")

    assert (await core.claim("r2")).repair != ""


async def test_deleting_a_thread_ends_all_of_it_and_wakes_nothing(core: Core) -> None:
    await core.paused(request())
    await core.enqueue("r2")
    await core.placet.enqueue("agent", {}, run_id="r3", thread_id="t1", start_at=timedelta(hours=1))
    assert await core.threads.gone("t1") == ""

    assert await core.threads.delete("t1") == []
    assert await core.threads.gone("t1") == "deleted"
    assert {run.status for run in await core.placet.runs(thread_id="t1")} == {"cancelled"}
    assert await core.scanned() == set()
    with pytest.raises(NotPending, match="cancelled: the thread was deleted"):
        await core.decide("a1")


async def test_deleting_a_thread_fences_its_worker_out(core: Core) -> None:
    await core.enqueue()
    claim = await core.claim()
    await core.placet.delete_thread("t1")

    await core.stale(claim)
    assert await core.leases.renew({"r1": claim.token}) == ({"r1"}, set())
    with pytest.raises(ThreadExpired, match="thread 't1' was deleted: use another"):
        await core.enqueue("r2")
    assert [run.id for run in await core.placet.runs()] == ["r1"]
    await core.redis.delete(core.connection.keys("thread", "t1"))  # as the end of its tombstone does
    await core.enqueue("r2")
    new = await core.claim("r2")
    assert (new.repair, new.token > claim.token) == ("", True)
    await core.stale(claim)
