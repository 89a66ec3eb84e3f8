"""A second run on a thread that has one: wait, be rejected, interrupt it, or roll it back."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from core import request

from placet.errors import Conflict, InvalidInput, NotFound, NotPending, ThreadBusy

if TYPE_CHECKING:
    from core import Core

ENDING = ("interrupt", "rollback")
SAID = {"interrupt": "interrupted by run r9", "rollback": "rolled back by run r9"}


async def announced(core: Core) -> list[tuple[str, str]]:
    entries = await core.redis.xrange(core.connection.keys("approvals_stream"))
    return [(fields[b"approval"].decode(), fields[b"event"].decode()) for _, fields in entries]


@pytest.mark.parametrize("state", ["pending", "running", "interrupted"])
async def test_a_run_is_rejected_by_name_and_leaves_nothing(core: Core, state: str) -> None:
    await core.enqueue("r1")
    claim = None if state == "pending" else await core.claim()
    if state == "interrupted":
        assert claim is not None
        await core.pause(claim, request())
    await core.enqueue("r2")
    before = sorted(await core.redis.keys("*"))

    with pytest.raises(ThreadBusy, match=f"its run r1 is {state}; nothing was enqueued") as caught:
        await core.placet.enqueue("agent", {}, run_id="r9", thread_id="t1", multitask_strategy="reject")
    assert isinstance(caught.value, Conflict)
    assert (caught.value.thread_id, caught.value.run_id, caught.value.status) == ("t1", "r1", state)
    with pytest.raises(NotFound):
        await core.placet.get("r9")
    assert sorted(await core.redis.keys("*")) == before


async def test_a_thread_that_is_free_rejects_nothing_and_the_same_run_is_no_other(core: Core) -> None:
    async def ask() -> str:
        again: dict[str, Any] = {"run_id": "r9", "thread_id": "t1", "multitask_strategy": "reject"}
        return (await core.placet.enqueue("agent", {}, **again)).status

    await core.enqueue("r1")
    await core.finish(await core.claim())
    assert await ask() == await ask() == "pending"
    await core.claim("r9")
    assert await ask() == "running"


@pytest.mark.parametrize("strategy", ENDING)
async def test_a_paused_run_ends_and_its_requests_are_superseded(core: Core, strategy: str) -> None:
    await core.paused(request("a1"), request("a2"))
    await core.decide("a1")
    await core.enqueue("r2")
    await core.enqueue("r9", multitask_strategy=strategy)

    run = await core.placet.get("r1")
    assert (run.status, run.reason) == ("cancelled", SAID[strategy])
    assert (await core.told())[-1] == ("run.ended", {"status": "cancelled", "reason": SAID[strategy]})
    decided, asked = await core.placet.approval("a1"), await core.placet.approval("a2")
    assert (decided.status, decided.outcome) == ("decided", "not_run")
    assert (asked.status, asked.outcome, asked.reason) == ("superseded", "not_run", SAID[strategy])
    assert [told for told in await announced(core) if told[1] != "outcome"][-1] == ("a2", "superseded")
    with pytest.raises(NotPending, match="superseded"):
        await core.decide("a2")
    # those behind it too, though they had not begun
    behind = await core.placet.get("r2")
    assert (behind.status, behind.reason) == ("cancelled", SAID[strategy])
    assert await core.outbox() == ["r9"]
    claim = await core.claim("r9")
    assert claim.repair == SAID[strategy]
    assert claim.rollback == (("r1",) if strategy == "rollback" else ())


@pytest.mark.parametrize("strategy", ENDING)
@pytest.mark.parametrize("comes_to", ["success", "pause", "give_back", "unmatched", "death"])
async def test_a_running_run_is_asked_first_and_whatever_it_comes_to_it_ends(
    core: Core, strategy: str, comes_to: str
) -> None:
    await core.paused(request("a1"), request("a2"))
    await core.decide("a1")
    claim = await core.claim()
    await core.enqueue("r9", multitask_strategy=strategy)

    assert (await core.placet.get("r1")).status == "running"
    assert (await core.placet.approval("a2")).status == "superseded"
    assert await core.refused("r9") == "queued"
    assert await core.leases.renew({"r1": claim.token}) == (set(), {"r1"})
    if comes_to == "success":
        assert (await core.finish(claim))[0] == "cancelled"
    elif comes_to == "pause":
        await core.pause(claim, request("a2"), request("a3"))
    elif comes_to == "give_back":
        await core.leases.give_back(claim, reason="stops", count_attempt=True)
    elif comes_to == "unmatched":
        await core.leases.unmatched(claim, why="no such node")
    else:
        await core.expire_lease()
        assert [one.run_id for one in await core.look()] == ["r9"]
    run = await core.placet.get("r1")
    assert (run.status, run.reason, run.result) == ("cancelled", SAID[strategy], None)
    assert await core.outbox() == ["r9"]
    assert (await core.claim("r9")).rollback == (("r1",) if strategy == "rollback" else ())


async def test_a_run_that_waits_for_its_time_is_in_nobodys_way(core: Core) -> None:
    await core.placet.enqueue("agent", {}, run_id="r1", thread_id="t1", start_at=timedelta(hours=1))
    for strategy in ("reject", "interrupt"):
        await core.enqueue(f"r-{strategy}", multitask_strategy=strategy)
    assert (await core.placet.get("r1")).status == "pending"
    assert (await core.placet.get("r-reject")).reason == "interrupted by run r-interrupt"
    with pytest.raises(InvalidInput, match="multitask_strategy: must be enqueue for a run with a start_at"):
        await core.placet.enqueue("agent", {}, start_at=timedelta(1), multitask_strategy="reject")
    with pytest.raises(InvalidInput, match="must be one of enqueue, reject, interrupt, rollback"):
        await core.placet.enqueue("agent", {}, multitask_strategy="kill")  # type: ignore[arg-type]


async def test_a_rollback_is_kept_until_a_run_has_done_it(core: Core) -> None:
    await core.enqueue("r1")
    claim = await core.claim("r1")
    await core.enqueue("r2", multitask_strategy="rollback")
    await core.finish(claim)
    claim = await core.claim("r2")
    await core.enqueue("r3", multitask_strategy="rollback")
    await core.enqueue("r4", multitask_strategy="interrupt")  # and r3, which never began
    await core.finish(claim)

    claim = await core.claim("r4")
    assert claim.rollback == ("r1", "r2")
    await core.leases.repaired(claim)
    await core.finish(claim)
    await core.enqueue("r5")
    assert (await core.claim("r5")).rollback == ()


@pytest.mark.parametrize(
    ("first", "then", "reason", "rolled_back"),
    [
        ("interrupt", "rollback", "rolled back by run r9", True),
        ("rollback", "interrupt", "rolled back by run r2", True),
        ("interrupt", "interrupt", "interrupted by run r2", False),
    ],
)
async def test_of_two_that_end_a_running_run_the_stronger_counts(
    core: Core, first: str, then: str, reason: str, rolled_back: bool
) -> None:
    await core.enqueue("r1")
    claim = await core.claim()
    await core.enqueue("r2", multitask_strategy=first)
    await core.enqueue("r9", multitask_strategy=then)
    await core.placet.cancel("r1", reason="late")
    await core.finish(claim)

    assert (await core.placet.get("r1")).reason == reason
    assert (await core.placet.get("r2")).status == "cancelled"
    assert (await core.claim("r9")).rollback == (("r1",) if rolled_back else ())
