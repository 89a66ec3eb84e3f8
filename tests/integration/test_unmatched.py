"""Runs that do not fit a worker's graph, and who is asked for them then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from core import graph, open_core, request

from placet.errors import LeaseLost
from placet.state.leases import Leases
from placet.state.timers import Timers

if TYPE_CHECKING:
    from core import Core

    from placet import Run

WHY = "node 'ask', where it waits, is gone"


def leases(core: Core, fleet: str) -> Leases:
    return Leases(core.connection, owner=f"worker of {fleet}", fleet=fleet)


async def asked(core: Core, fleet: str, *, slots: int = 10, connection: Any = None) -> list[str]:
    """The runs that a worker of the fleet is asked to execute."""
    timers = Timers(connection or core.connection, owner=f"worker of {fleet}", fleet=fleet)
    _, runs = await timers.look(facts="{}", limit=0, queues=("placet",), slots=slots)
    return runs


async def refuse(core: Core, fleet: str = "new", run_id: str = "r1", *, why: str = WHY) -> None:
    claim, reply, _ = await leases(core, fleet).claim(run_id)
    assert claim is not None, reply
    await leases(core, fleet).unmatched(claim, why=why)


async def decided(core: Core) -> Run:
    await core.paused(request("a1", "i1"), request("a2", "i2"))
    await core.decide("a1", kind="reject")
    return await core.placet.get("r1")


async def test_it_is_left_as_it_was_and_says_why(core: Core) -> None:
    before = await decided(core)
    await refuse(core)

    run = await core.placet.get("r1")
    kept = ("status", "attempt", "segment", "wake_at", "error", "ended_at")
    assert [getattr(run, name) for name in kept] == [getattr(before, name) for name in kept]
    assert run.incompatible == WHY
    assert [one.incompatible for one in await core.placet.runs()] == [WHY]
    rejected, open_one = [await core.placet.approval(one) for one in ("a1", "a2")]
    assert (rejected.status, rejected.outcome, rejected.decided_by) == ("decided", "none", "alice")
    assert (open_one.status, open_one.outcome) == ("pending", "none")
    assert {rejected.incompatible, open_one.incompatible} == {WHY}
    assert (await core.told())[-1] == ("run.incompatible", {"reason": WHY})
    assert await core.scanned() == set()


async def test_only_another_fleet_is_asked_and_gets_the_answers_as_new(core: Core) -> None:
    await decided(core)
    await refuse(core)

    assert await asked(core, "new") == []
    claim, why, _ = await leases(core, "new").claim("r1")
    assert (claim, why) == (None, "unmatched")
    assert await asked(core, "old", slots=0) == []
    assert await asked(core, "old") == ["r1"]
    claim, _, _ = await leases(core, "old").claim("r1")
    assert claim is not None
    assert [(a.approval_id, a.delivered) for a in claim.answers] == [("a1", False)]
    assert await asked(core, "third") == []


async def test_it_goes_on_where_it_fits_and_nothing_of_it_is_left(core: Core) -> None:
    await decided(core)
    await refuse(core)
    await refuse(core, "newer")
    told = len(await core.told())
    claim, _, _ = await leases(core, "old").claim("r1")
    assert claim is not None
    assert len(await core.told()) == told
    await core.leases.matched(claim, graph("d2"))

    run = await core.placet.get("r1")
    assert (run.status, run.incompatible) == ("running", "")
    assert {(await core.placet.approval(one)).incompatible for one in ("a1", "a2")} == {""}
    assert (await core.told())[told:] == [("run.resumed", {"segment": 2, "worker": "worker of old"})]
    assert not await core.redis.exists(core.connection.keys("run_refusals", "r1"))
    await core.pause(claim, request("a2", "i2"), graph=graph("d2"))
    await core.decide("a2")
    claim, why, _ = await leases(core, "new").claim("r1")
    assert claim is not None, why


async def test_an_answer_that_comes_in_meanwhile_waits_with_it(core: Core) -> None:
    await decided(core)
    await refuse(core)
    assert [one.run_id for one in await core.decide("a2")] == ["r1"]
    claim, why, _ = await leases(core, "new").claim("r1")
    assert (claim, why) == (None, "unmatched")
    assert await core.outbox() == []
    claim, _, _ = await leases(core, "old").claim("r1")
    assert claim is not None
    assert {a.approval_id for a in claim.answers} == {"a1", "a2"}


async def test_a_fleet_is_asked_again_after_a_while_and_tells_the_same_reason_once(core: Core) -> None:
    await decided(core)
    await refuse(core)
    told = await core.told()
    await core.redis.hset(core.connection.keys("run_refusals", "r1"), "new", 1)
    assert await asked(core, "new") == ["r1"]
    await refuse(core)
    assert await core.told() == told
    await core.redis.hset(core.connection.keys("run_refusals", "r1"), "new", 1)
    await refuse(core, why="state key 'notes' has a value")
    assert (await core.told())[-1][1] == {"reason": "state key 'notes' has a value"}


async def test_a_first_start_is_undone_whole(core: Core) -> None:
    await core.enqueue()
    await refuse(core, why="no agent 'agent'; there are: other")
    run = await core.placet.get("r1")
    assert (run.status, run.attempt, run.segment, run.started_at) == ("pending", 0, 0, None)
    claim, _, _ = await leases(core, "old").claim("r1")
    assert claim is not None
    await core.leases.matched(claim, graph())
    assert (await core.told())[-1][0] == "run.started"


async def test_a_crashed_run_keeps_what_it_was_handed(core: Core) -> None:
    await decided(core)
    await core.claim()
    await core.expire_lease()
    await core.look()
    await refuse(core)
    claim, _, _ = await leases(core, "old").claim("r1")
    assert claim is not None
    assert [(a.approval_id, a.delivered) for a in claim.answers] == [("a1", True)]
    assert claim.run.attempt == 2


async def test_it_can_be_cancelled(core: Core) -> None:
    await decided(core)
    await refuse(core)
    run = await core.placet.cancel("r1")
    assert (run.status, run.incompatible) == ("cancelled", "")
    assert await asked(core, "old") == []
    await core.enqueue("r2", "t2")
    claim, _, _ = await leases(core, "new").claim("r2")
    assert claim is not None
    await core.placet.cancel("r2")
    await leases(core, "new").unmatched(claim, why=WHY)
    assert (await core.placet.get("r2")).status == "cancelled"
    with pytest.raises(LeaseLost):
        await leases(core, "new").unmatched(claim, why=WHY)
    with pytest.raises(LeaseLost):
        await core.leases.matched(claim, graph())


async def test_its_clock_stands_still(core: Core) -> None:
    await core.enqueue(timeout_ms=60_000)
    await core.pause(await core.claim(), request("a1"))
    await core.decide("a1")
    await refuse(core)
    assert await core.redis.zcard(core.connection.keys("deadlines")) == 0
    claim, _, _ = await leases(core, "old").claim("r1")
    assert claim is not None
    assert await core.redis.zcard(core.connection.keys("deadlines")) == 1
    await core.leases.matched(claim, graph())


async def test_of_many_each_is_asked_for_in_time(core: Core) -> None:
    """Hundreds that nobody wants do not hide one that can go on."""
    for number in range(210):
        await core.enqueue(f"r{number}", f"t{number}")
        await refuse(core, "new", f"r{number}")
        if number != 205:
            await core.redis.hset(core.connection.keys("run_refusals", f"r{number}"), "old", 2**50)
    found: set[str] = set()
    while not found:
        found |= set(await asked(core, "old"))
    assert found == {"r205"}


async def test_a_fingerprint_is_kept_while_a_run_refers_to_it(core: Core) -> None:
    key = core.connection.keys("graph", "d1")
    for run in ("r1", "r2"):
        await core.paused(request(f"a-{run}"), run_id=run, thread_id=run)
    assert await core.leases.fingerprint("d1") == graph().content
    assert await core.redis.hget(key, "versions") == b'{"langgraph":"1"}'
    await core.decide("a-r2")
    await core.leases.matched(await core.claim("r2"), graph("d2"))
    await core.placet.cancel("r1")
    assert await core.leases.fingerprint("d1") is not None  # for a retry, while there is a record of it
    await core.redis.zadd(core.connection.keys("ended"), {"r1": 1})
    await core.timers.sweep()
    assert await core.leases.fingerprint("d1") is None
    assert await core.leases.fingerprint("d2") == graph().content


async def test_a_build_keeps_its_paused_runs_while_it_has_workers(core: Core, redis_url: str) -> None:
    async with open_core(redis_url, build_id="1") as one, open_core(redis_url, build_id="2") as two:
        await one.paused(request("a1"))
        assert (await core.placet.get("r1")).build == "1"
        await core.decide("a1")
        assert await asked(one, "1") == []  # its sign of life

        assert await two.refused() == "unmatched"
        assert (await core.placet.get("r1")).incompatible == ""
        assert await asked(two, "2") == []
        assert await asked(one, "1") == ["r1"]
        assert await asked(core, "without a build") == []

        await core.redis.zadd(core.connection.keys("builds", "placet"), {"1": 1})  # gone
        assert await asked(two, "2") == ["r1"]
        claim = await two.claim()
        await two.pause(claim, request("a2"))
        assert (await core.placet.get("r1")).build == "2"


async def test_a_build_that_cannot_take_its_own_run_on_does_not_keep_it(core: Core, redis_url: str) -> None:
    """Where builds are named alike and are not."""
    async with open_core(redis_url, build_id="1") as one:
        await one.paused(request("a1"))
        await core.decide("a1")
        await asked(one, "1")
        claim, _, _ = await Leases(one.connection, owner="w", fleet="1").claim("r1")
        assert claim is not None
        await Leases(one.connection, owner="w", fleet="1").unmatched(claim, why=WHY)
    assert await asked(core, "2") == ["r1"]
