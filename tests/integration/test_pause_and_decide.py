from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from core import open_core, request

from placet.errors import (
    AlreadyDecided,
    ChangedSinceSeen,
    InvalidDecision,
    InvalidInput,
    NotFound,
    NotPending,
)

if TYPE_CHECKING:
    from core import Core


async def test_a_waiting_run_is_in_no_set_that_is_scanned(core: Core) -> None:
    await core.paused(request())

    assert (await core.placet.get("r1")).status == "interrupted"
    assert await core.scanned() == set()
    assert await core.redis.exists(core.connection.keys("lease", "t1")) == 0
    assert await core.look() == []


async def test_a_pause_keeps_what_is_shown_as_it_is(core: Core) -> None:
    asked = request(
        args={
            "text": '日本 🚀 \u0000 "\\/',
            "empty": {},
            "list": [],
            "big": 2**63 + 1,
            "f": 1e300,
            "no": None,
        },
        description="line\nline",
        response_schema={},
    )
    question = request("a2", kind="question", value=[], allowed=("answer",))
    await core.paused(asked, question)

    first, second = await core.approvals.of_pause("r1")
    assert (first.args, first.description, first.response_schema) == (asked.args, "line\nline", {})
    assert (first.status, first.outcome, first.decision, first.reason) == ("pending", "none", None, "")
    assert (second.args, second.value, second.tool, second.tool_call_id) == (None, [], None, None)


async def test_one_decision_one_resume(core: Core) -> None:
    await core.paused(request())
    assert [(one.run_id, one.first) for one in await core.decide("a1")] == [("r1", False)]
    with pytest.raises(AlreadyDecided):
        await core.decide("a1", kind="reject", reviewer="bob")

    claim = await core.claim()
    assert [(a.approval_id, a.decision, a.delivered) for a in claim.answers] == [
        ("a1", {"type": "approve"}, False)
    ]
    assert await core.refused() == "busy"
    await core.pause(claim)
    assert await core.refused() == "waiting"
    assert (await core.placet.approval("a1")).decision == {"type": "approve"}


async def test_the_loser_is_told_who_decided(core: Core) -> None:
    await core.paused(request())
    await core.decide("a1", reviewer="alice")
    for decide in (
        core.decide("a1", kind="reject"),
        core.placet.decide("a1", {"type": "reject"}, reviewer="x"),
    ):
        with pytest.raises(AlreadyDecided) as caught:
            await decide
        assert (caught.value.approval_id, caught.value.decided_by, caught.value.decision) == (
            "a1", "alice", "approve"
        )  # fmt: skip


async def test_an_interrupt_is_answered_when_all_its_requests_are_decided(core: Core) -> None:
    await core.paused(request("a1", "i", count=2), request("a2", "i", index=1, count=2))

    assert await core.decide("a2", kind="reject") == []
    assert await core.refused() == "waiting"
    assert (await core.placet.get("r1")).status == "interrupted"
    assert len(await core.decide("a1")) == 1
    assert (await core.placet.get("r1")).status == "pending"
    assert [(a.index, a.decision["type"]) for a in (await core.claim()).answers] == [
        (0, "approve"),
        (1, "reject"),
    ]


async def test_one_of_two_interrupts_is_delivered_while_the_other_waits(core: Core) -> None:
    await core.paused(request("a1"), request("a2"))
    await core.decide("a1")
    assert (await core.placet.get("r1")).status == "interrupted"
    claim = await core.claim()
    assert [a.approval_id for a in claim.answers] == ["a1"]

    assert await core.pause(claim, request("a2")) == []
    assert await core.scanned() == set()
    assert len(await core.decide("a2")) == 1
    assert [a.approval_id for a in (await core.claim()).answers] == ["a2"]


async def test_an_answer_during_a_segment_is_delivered_when_it_ends(core: Core) -> None:
    await core.paused(request("a1"), request("a2"))
    await core.decide("a1")
    claim = await core.claim()

    assert await core.decide("a2") == []
    woken = await core.pause(claim, request("a2"))
    assert [one.run_id for one in woken] == ["r1"]
    assert (await core.placet.get("r1")).status == "pending"
    assert [(a.approval_id, a.delivered) for a in (await core.claim()).answers] == [("a2", False)]


async def test_an_answer_that_was_acknowledged_survives_a_killed_worker(core: Core) -> None:
    await core.paused(request("a1"), request("a2"))
    await core.decide("a1")
    await core.start_call(await core.claim())
    await core.decide("a2")
    await core.expire_lease()

    assert len(await core.look()) == 1
    answers = {a.approval_id: a.delivered for a in (await core.claim()).answers}
    assert answers == {"a1": True, "a2": False}
    told = dict(await core.told())
    assert told["run.recovered"] == {
        "lost_worker": "w1",
        "may_run_again": ["a1"],
        "unknown_calls": [{"tool": "pay", "tool_call_id": "call-a1"}],
    }
    assert (await core.placet.approval("a1")).outcome == "unknown"


async def test_a_decision_between_a_lease_that_ran_out_and_the_next_look_is_delivered(core: Core) -> None:
    await core.paused(request("a1"), request("a2"))
    await core.decide("a1")
    await core.claim()
    await core.expire_lease()

    assert [one.run_id for one in await core.decide("a2")] == ["r1"]
    assert {a.approval_id for a in (await core.claim()).answers} == {"a1", "a2"}


async def test_a_pending_request_stays_the_same_over_a_pause(core: Core) -> None:
    await core.paused(request("a1"), request("a2"))
    before = await core.placet.approval("a2")
    await core.decide("a1")
    await core.pause(await core.claim(), request("a2"))

    assert await core.placet.approval("a2") == before
    assert await core.redis.xlen(core.connection.keys("approvals_stream")) == 3


async def test_a_request_that_is_asked_no_more_is_superseded(core: Core) -> None:
    await core.paused(request("a1"), request("a2"))
    await core.decide("a1")
    await core.pause(await core.claim(), request("a3"))

    superseded = await core.placet.approval("a2")
    assert (superseded.status, superseded.outcome) == ("superseded", "not_run")
    with pytest.raises(NotPending, match="superseded: the run went on without it") as caught:
        await core.decide("a2")
    assert caught.value.status == "superseded"


async def test_a_decision_that_came_too_late_for_its_question_says_not_run(core: Core) -> None:
    await core.paused(request("a1"), request("a2"))
    await core.decide("a1")
    claim = await core.claim()
    await core.decide("a2")
    await core.pause(claim, request("a3"))

    late = await core.placet.approval("a2")
    assert (late.status, late.outcome) == ("decided", "not_run")
    assert await core.refused() == "waiting"


async def test_an_answer_that_the_graph_did_not_take_is_asked_again(core: Core) -> None:
    await core.paused(request("a1"), request("a2"))
    await core.decide("a1", "a2")
    await core.pause(await core.claim(), request("a1"), reopen_reason="the agent did not take the answer: no")

    again = await core.placet.approval("a1")
    assert (again.status, again.decision, again.decided_by, again.outcome) == ("pending", None, None, "none")
    assert again.reason == "the agent did not take the answer: no"
    assert await core.refused() == "waiting"
    assert ("approval.reopened", {"approval_id": "a1", "reason": again.reason}) in await core.told()
    await core.decide("a1", kind="reject")
    assert [a.decision for a in (await core.claim()).answers] == [{"type": "reject"}]


async def test_an_answer_that_was_handed_to_a_killed_worker_is_handed_over_again(core: Core) -> None:
    await core.paused(request("a1"))
    await core.decide("a1")
    await core.claim()
    await core.expire_lease()
    claim = await core.claim()

    assert [a.delivered for a in claim.answers] == [True]
    await core.pause(claim, request("a1"))
    assert (await core.placet.approval("a1")).status == "pending"


async def test_calls_of_one_model_message_wait_for_each_other(core: Core) -> None:
    first, second = request("a1", mode="per_call"), request("a2", mode="per_call")
    await core.paused(first, second)
    await core.decide("a1")
    claim = await core.claim()
    await core.start_call(claim)
    await core.pause(claim, second)

    assert (await core.placet.approval("a1")).outcome == "started"
    await core.placet.cancel("r1")
    assert (await core.placet.approval("a1")).outcome == "unknown"


async def test_outcomes_are_what_the_segment_saw(core: Core) -> None:
    await core.paused(*(request(f"a{n}") for n in range(5)), request("q", kind="question"))
    await core.decide("a0", "a1", "q")
    await core.decide("a2", kind="reject")
    await core.decide("a3", kind="respond")
    claim = await core.claim()
    assert (await core.placet.approval("a2")).outcome == "not_run"
    assert (await core.placet.approval("q")).outcome == "started"
    assert (await core.placet.approval("a0")).outcome == "none"
    await core.start_call(claim, "a1")
    await core.pause(claim, request("a4"), outcomes={"a0": "failed", "a2": "succeeded", "unknown": "failed"})

    found = {one.id: one.outcome for one in await core.placet.approvals(status=None)}
    assert found == {
        "a0": "failed",
        "a1": "started",
        "a2": "not_run",
        "a3": "not_run",
        "a4": "none",
        "q": "succeeded",
    }
    await core.decide("a4")
    await core.finish(await core.claim())
    found = {one.id: one.outcome for one in await core.placet.approvals(status=None)}
    assert (found["a1"], found["a4"]) == ("succeeded", "succeeded")


async def test_several_decisions_are_saved_together_or_not_at_all(core: Core) -> None:
    await core.paused(request("a1"), request("a2"))
    for bad in ("missing", "a2"):
        with pytest.raises((NotFound, ChangedSinceSeen)):
            await core.decide("a1", bad, digest="digest-a1")
    assert [one.status for one in await core.approvals.of_pause("r1")] == ["pending", "pending"]
    with pytest.raises(InvalidDecision) as caught:
        await core.placet.decide_many({"a1": {"type": "approve"}, "a2": {"type": "fly"}}, reviewer="alice")
    assert [issue["path"] for issue in caught.value.issues] == ["/a2/type"]
    assert [one.status for one in await core.approvals.of_pause("r1")] == ["pending", "pending"]

    assert len(await core.decide("a1", "a2")) == 1


async def test_a_digest_that_is_no_longer_the_requests_is_refused(core: Core) -> None:
    await core.paused(request())
    with pytest.raises(ChangedSinceSeen, match="has changed since you saw it"):
        await core.placet.decide("a1", {"type": "approve"}, reviewer="alice", seen="another")
    with pytest.raises(ChangedSinceSeen):
        await core.decide("a1", digest="another")

    assert (await core.placet.approval("a1")).status == "pending"
    decided = await core.placet.decide("a1", {"type": "approve"}, reviewer="alice", seen="digest-a1")
    assert (decided.status, decided.decided_by) == ("decided", "alice")


@pytest.mark.parametrize("reviewer", ["", " ", "\ud800"])
async def test_a_decision_names_its_reviewer(core: Core, reviewer: str) -> None:
    await core.paused(request())
    with pytest.raises(InvalidInput, match=r"^reviewer: "):
        await core.placet.decide("a1", {"type": "approve"}, reviewer=reviewer)


async def test_a_rejected_breakpoint_cancels_the_run(core: Core) -> None:
    await core.paused(request("b1", kind="breakpoint"), request("a1"))
    await core.enqueue("r2")
    woken = await core.decide("b1", kind="reject")

    run = await core.placet.get("r1")
    assert (run.status, [one.run_id for one in woken]) == ("cancelled", ["r2"])
    assert (await core.placet.approval("b1")).outcome == "not_run"
    assert (await core.placet.approval("a1")).status == "cancelled"
    assert (await core.told())[-1][1]["reason"] == "rejected at a breakpoint by alice"


async def test_a_breakpoint_rejected_during_a_segment_cancels_when_it_ends(core: Core) -> None:
    await core.paused(request("b1", kind="breakpoint"), request("a1"))
    await core.decide("a1")
    claim = await core.claim()
    assert await core.decide("b1", kind="reject") == []

    assert await core.leases.renew({"r1": claim.token}) == (set(), {"r1"})
    await core.pause(claim, request("b1", kind="breakpoint"))
    assert (await core.placet.get("r1")).status == "cancelled"


async def test_a_parked_run_sleeps_until_its_timer(core: Core) -> None:
    await core.enqueue()
    hour = 3_600_000 + int((await core.placet.get("r1")).created_at.timestamp() * 1000)
    await core.pause(await core.claim(), wake_at_ms=hour)

    run = await core.placet.get("r1")
    assert run.wake_at is not None
    assert run.status == "pending"
    assert ((await core.told())[-1][0], await core.refused(), await core.look()) == (
        "run.parked",
        "waiting",
        [],
    )
    await core.make_due()
    assert [one.run_id for one in await core.look()] == ["r1"]
    claim = await core.claim()
    assert (claim.run.attempt, claim.run.wake_at) == (1, None)


async def test_a_timer_beside_a_question_ends_with_the_answer(core: Core) -> None:
    await core.enqueue()
    later = 3_600_000 + int((await core.placet.get("r1")).created_at.timestamp() * 1000)
    await core.pause(await core.claim(), request(), wake_at_ms=later)
    assert (await core.placet.get("r1")).status == "interrupted"
    await core.decide("a1")
    await core.claim()

    assert await core.redis.zcard(core.connection.keys("timers")) == 0


async def test_a_timer_that_is_due_already_goes_straight_on(core: Core) -> None:
    await core.enqueue()
    assert len(await core.pause(await core.claim(), wake_at_ms=1)) == 1
    await core.claim()


async def test_a_pause_after_a_cancel_ends_the_run_and_asks_nobody(core: Core) -> None:
    await core.paused(request("a1"), request("a2"))
    await core.decide("a1")
    claim = await core.claim()
    await core.placet.cancel("r1", reason="enough")
    with pytest.raises(NotPending, match="cancelled: enough"):
        await core.decide("a2")

    assert await core.pause(claim, request("a2"), request("a3")) == []
    assert (await core.placet.get("r1")).status == "cancelled"
    assert {one.id for one in await core.placet.approvals(status=None)} == {"a1", "a2"}


async def test_events_of_a_pause_carry_the_attempt_that_made_it(core: Core) -> None:
    await core.enqueue()
    await core.claim()
    await core.expire_lease()
    await core.pause(await core.claim(), request(), data=json.dumps({"interrupts": [], "n": {}}))

    last = (await core.events.after("r1", 0, block_ms=1))[-1]
    assert (last.type, last.attempt, last.data) == ("run.interrupted", 2, {"interrupts": [], "n": {}})
    assert (await core.placet.get("r1")).attempt == 0


async def test_a_decision_past_the_limit_is_refused_whole(redis_url: str) -> None:
    async with open_core(redis_url, max_decision_bytes=100) as core:
        await core.paused(request("a1", kind="question"), request("a2", kind="question"))
        for value, message in (
            ("x" * 100, "is larger than 100 bytes"),
            (nested(100_000), "nested more than 100"),
        ):
            with pytest.raises(InvalidDecision, match=message):
                await core.placet.decide("a1", {"type": "answer", "value": value}, reviewer="ann")
            with pytest.raises(InvalidDecision, match=message):
                await core.placet.resume("r1", {"i-a1": value, "i-a2": 1}, reviewer="ann")
        assert {one.status for one in await core.placet.approvals()} == {"pending"}
        await core.placet.resume("r1", {"i-a1": 1, "i-a2": 2}, reviewer="ann")


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value
