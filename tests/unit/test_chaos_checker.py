"""The fault harness's checker finds each kind of fault in evidence made by hand, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from chaos.calls import was_lost
from chaos.checker import INVARIANTS, check
from chaos.evidence import Evidence, Thread
from chaos.mutations import MUTATIONS, made
from chaos.plan import Plan, PlannedRun, make_plan
from chaos.timeline import explain
from chaos.witness import Effect, FaultSeen, Reply
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from placet import Approval
from placet.state.events import Event
from placet.state.runs import Run

if TYPE_CHECKING:
    from collections.abc import Callable

BEGAN = 1_800_000_000.0
KEY = "r1.0.0"


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(BEGAN + seconds, UTC)


def event(number: int, kind: Any, at: float, **data: Any) -> Event:
    return Event(id=number, run_id="r1", type=kind, data=data, at=moment(at), attempt=1, pid=7)


def effect(what: str, at: float, **changes: Any) -> Effect:
    given: dict[str, Any] = {
        "run": "r1",
        "call": "call_0",
        "tool": "pay",
        "key": KEY,
        "args": {"key": KEY, "amount": 5},
        "pid": 7,
        "token": int((BEGAN + 3) * 1000),
        "result": "pay r1.0.0 0123abcd" if what == "end" else "",
    }
    return Effect(at=BEGAN + at, what=what, **{**given, **changes})


def reply(said: str = "done", **changes: Any) -> Reply:
    given: dict[str, Any] = {
        "began": BEGAN + 2,
        "ended": BEGAN + 2.1,
        "client": "decider-0",
        "call": "decide",
        "run": "r1",
        "approval": "a1",
        "given": {"type": "approve"},
        "sound": True,
        "detail": "",
    }
    return Reply(said=said, **{**given, **changes})


RUN = Run(
    id="r1",
    thread_id="t1",
    agent="batched",
    status="success",
    queue="chaos",
    created_at=moment(0),
    updated_at=moment(5),
    started_at=moment(1),
    ended_at=moment(5),
)
APPROVAL = Approval(
    id="a1",
    interrupt_id="i1",
    index=0,
    count=1,
    kind="tool_call",
    mode="batched",
    tool="pay",
    args={"key": KEY, "amount": 5},
    tool_call_id="call_0",
    description="Pay",
    value=None,
    allowed=("approve",),
    response_schema=None,
    digest="d",
    run_id="r1",
    thread_id="t1",
    agent="batched",
    principal=None,
    status="decided",
    reason="",
    outcome="succeeded",
    decision={"type": "approve"},
    decided_by="decider-0",
    created_at=moment(1.5),
    decided_at=moment(2),
)
CALL = {"tool": "pay", "args": {"key": KEY, "amount": 5, "seconds": 0}, "id": None}
PLANNED = PlannedRun(
    id="r1",
    thread="t1",
    agent="batched",
    at=0,
    steps=[[CALL]],
    strategy="enqueue",
    cancel_after=None,
    start_after=None,
)
ASKS = AIMessage("", tool_calls=[{"name": "pay", "args": {}, "id": "call_0", "type": "tool_call"}])
GOOD = Evidence(
    plan=Plan(seed=1, seconds=5, lease_seconds=3, runs=(PLANNED,), faults=()),
    runs={"r1": RUN},
    approvals={"a1": APPROVAL},
    events={
        "r1": [
            event(1, "run.enqueued", 0),
            event(2, "run.started", 1),
            event(3, "run.interrupted", 1.5),
            event(4, "approval.decided", 2),
            event(5, "run.resumed", 3),
            event(6, "run.ended", 5),
        ]
    },
    threads={
        "t1": Thread(
            parents={"c1": None, "c2": "c1"},
            newest="c2",
            messages=[
                HumanMessage("go", id="r1:0"),
                ASKS,
                ToolMessage("pay r1.0.0 0123abcd", tool_call_id="call_0"),
                AIMessage("done"),
            ],
        )
    },
    effects=[effect("start", 3.1), effect("end", 4)],
    replies=[reply(call="enqueue", approval="", given={}), reply()],
    faults=[FaultSeen(began=BEGAN, ended=BEGAN + 1, kind="kill_decider", pid=1, detail="")],
    raised=[],
    active=0,
    disagreement="",
)


def approval(**changes: Any) -> Evidence:
    return replace(GOOD, approvals={"a1": replace(APPROVAL, **changes)})


def run(**changes: Any) -> Evidence:
    return replace(GOOD, runs={"r1": replace(RUN, **changes)})


def thread(**changes: Any) -> Evidence:
    return replace(GOOD, threads={"t1": replace(GOOD.threads["t1"], **changes)})


def with_effects(*effects: Effect) -> Evidence:
    return replace(GOOD, effects=[*GOOD.effects, *effects])


def with_replies(*replies: Reply) -> Evidence:
    return replace(GOOD, replies=[*GOOD.replies, *replies])


MESSAGES = list(GOOD.threads["t1"].messages)
LATER = int((BEGAN + 3.5) * 1000)
BROKEN: dict[str, list[Callable[[], Evidence]]] = {
    "every_run_ends": [
        lambda: replace(GOOD, runs={}),
        lambda: run(status="pending", ended_at=None),
        lambda: run(status="error"),
        lambda: replace(GOOD, events={"r1": [*GOOD.events["r1"], event(7, "run.ended", 6)]}),
    ],
    "a_cancelled_run_never_succeeds": [
        lambda: with_replies(reply(call="cancel", approval="")),
        lambda: run(status="cancelled"),
        lambda: run(status="cancelled", reason="interrupted by run r2"),
    ],
    "one_decision_one_resume": [
        lambda: with_replies(reply(client="decider-1", given={"type": "reject"})),
        lambda: with_replies(reply("AlreadyDecided", client="decider-1", detail="decider-2 reject")),
        lambda: with_effects(effect("start", 4.5)),
        lambda: with_effects(effect("start", 4.5, token=LATER)),
    ],
    "a_rejected_call_never_runs": [
        lambda: replace(GOOD, approvals={}),
        lambda: approval(decision={"type": "reject"}),
        lambda: approval(status="cancelled", decision=None, decided_by=None, decided_at=None),
        lambda: approval(decided_at=moment(3.5)),
        lambda: approval(outcome="not_run"),
    ],
    "nothing_starts_after_the_end": [lambda: replace(GOOD, effects=[effect("start", 5.1)])],
    "what_a_reviewer_saw_is_what_runs": [
        lambda: with_replies(reply(sound=False)),
        lambda: approval(decision={"type": "edit", "edited_action": {"name": "pay", "args": {"amount": 6}}}),
        lambda: replace(GOOD, effects=[effect("start", 3.1, args={"key": KEY, "amount": 6})]),
    ],
    "an_acknowledged_answer_is_never_lost": [
        lambda: approval(status="pending", decision=None, decided_by=None, decided_at=None),
        lambda: approval(decision={"type": "reject"}),
        lambda: replace(GOOD, approvals={}),
        lambda: replace(GOOD, effects=[]),
    ],
    "a_refused_answer_changes_nothing": [
        lambda: replace(GOOD, replies=[reply("ChangedSinceSeen", sound=False)]),
        lambda: replace(GOOD, replies=[reply("InvalidDecision", given={"type": "approve"})]),
    ],
    "outcomes_are_told_as_they_were": [lambda: replace(GOOD, effects=[effect("start", 3.1)])],
    "a_waiting_run_holds_nothing": [lambda: replace(GOOD, active=1)],
    "errors_stay_inside": [lambda: replace(GOOD, raised=["Task raised unexpected: ValueError"])],
    "records_agree": [lambda: replace(GOOD, disagreement="a lost wake-up")],
    "one_run_of_a_thread_at_a_time": [
        lambda: replace(GOOD, runs={"r1": RUN, "r2": replace(RUN, id="r2", started_at=moment(4))})
    ],
    "history_is_linear": [lambda: thread(parents={"c1": None, "c2": "c1", "c3": "c1"})],
    "every_message_is_there_once": [
        lambda: thread(messages=MESSAGES[1:]),
        lambda: thread(messages=[MESSAGES[0], *MESSAGES]),
    ],
    "every_call_has_one_result": [
        lambda: thread(messages=[*MESSAGES[:2], MESSAGES[3]]),
        lambda: thread(messages=[*MESSAGES[:3], MESSAGES[2], MESSAGES[3]]),
        lambda: thread(messages=[MESSAGES[0], MESSAGES[2], MESSAGES[3]]),
    ],
    "results_are_those_of_the_tools": [
        lambda: thread(
            messages=[*MESSAGES[:2], ToolMessage("pay r1.0.0 ffffffff", tool_call_id="call_0"), MESSAGES[3]]
        )
    ],
}


def found(evidence: Evidence) -> set[str]:
    return {one.invariant for one in check(evidence).violations}


def test_nothing_is_found_where_nothing_is() -> None:
    assert check(GOOD).violations == []


@pytest.mark.parametrize(
    ("name", "evidence"), [(name, one) for name, every in BROKEN.items() for one in every]
)
def test_each_kind_of_fault_is_found(name: str, evidence: Callable[[], Evidence]) -> None:
    assert name in found(evidence())


def test_each_invariant_is_tried() -> None:
    ungated = {"an_unknown_outcome_is_not_silently_run_again"}
    assert {one.__name__ for one in INVARIANTS} == set(BROKEN) | ungated


def test_a_call_nobody_is_asked_about_is_started_once_too() -> None:
    call = {**CALL, "tool": "look_up"}
    planned = replace(PLANNED, steps=[[call]])
    twice = [effect("start", 3.1, tool="look_up"), effect("start", 3.2, tool="look_up"), effect("end", 4)]
    evidence = replace(GOOD, plan=replace(GOOD.plan, runs=(planned,)), approvals={}, effects=twice)
    assert found(evidence) >= {"an_unknown_outcome_is_not_silently_run_again"}


def test_a_failed_attempt_explains_the_next_start() -> None:
    rows = [effect("start", 3.1), effect("error", 3.2), effect("start", 3.3), effect("end", 4)]
    assert found(replace(GOOD, effects=rows)) == set()


LOST = [
    event(1, "run.started", 1),
    event(2, "run.recovered", 3.3),
    event(3, "run.resumed", 3.5),
    event(4, "run.ended", 5),
]
AGAIN = [
    effect("start", 1.1, token=int((BEGAN + 1) * 1000)),
    effect("start", 3.6, token=LATER),
    effect("end", 4),
]


def tried_again(tool: str, *doubts: Approval) -> set[str]:
    """A call whose first worker died, in a run that nobody is asked about beforehand."""
    planned = replace(PLANNED, steps=[[{**CALL, "tool": tool}]])
    evidence = replace(
        GOOD,
        plan=replace(GOOD.plan, runs=(planned,)),
        approvals={one.id: one for one in doubts},
        replies=[reply(approval=one.id) for one in doubts],
        effects=[replace(one, tool=tool) for one in AGAIN],
        events={"r1": LOST},
    )
    return found(evidence)


def test_who_said_run_again_or_idempotent_explains_the_next_start() -> None:
    missed = {"an_unknown_outcome_is_not_silently_run_again"}
    doubt = replace(APPROVAL, id="d1", kind="unknown_call", decided_at=moment(3.4))
    assert tried_again("look_up") == missed
    assert tried_again("look_up", doubt) == set()
    assert tried_again("look_up", replace(doubt, decided_at=moment(1))) == missed
    assert tried_again("count") == set()
    assert tried_again("count", doubt) == missed  # declared, and asked all the same


@pytest.mark.parametrize(("ended_by", "lost"), [("run.recovered", True), ("run.interrupted", False)])
def test_whether_a_segment_was_lost_is_read_from_the_events(ended_by: str, *, lost: bool) -> None:
    events = [
        event(1, "run.started", 1),
        event(2, ended_by, 2),
        event(3, "run.resumed", 3),
        event(4, "run.ended", 5),
    ]
    assert was_lost(int((BEGAN + 1) * 1000), events) is lost
    assert not was_lost(int((BEGAN + 3) * 1000), events)


def test_takeovers_are_timed_where_nothing_else_was_broken() -> None:
    events = [
        event(1, "run.started", 1),
        event(2, "run.recovered", 4),
        event(3, "run.resumed", 4.5),
        event(4, "run.ended", 5),
    ]
    kill = FaultSeen(began=BEGAN + 2, ended=BEGAN + 2.1, kind="kill_worker", pid=7, detail="")
    cut = replace(kill, began=BEGAN + 3, kind="cut_worker")
    alone = check(replace(GOOD, events={"r1": events}, faults=[kill]))
    assert (alone.longest_takeover_ms, alone.takeovers, alone.two_leases_ms) == (2500, 1, 6000)
    both = check(replace(GOOD, events={"r1": events}, faults=[kill, cut]))
    assert (both.longest_takeover_ms, both.longest_disturbed_takeover_ms) == (0, 2500)


def test_a_violation_is_told_with_its_seed_and_what_happened_around_it() -> None:
    evidence = replace(GOOD, effects=[*GOOD.effects, effect("start", 4.5)], active=2)
    text = explain(check(evidence), evidence)
    assert text.startswith("seed 1: 2 violations")
    for part in (
        "one_decision_one_resume: r1",
        "tool start pay r1.0.0",
        "decider-0 decide a1",
        "FAULT kill_d",
    ):
        assert part in text


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_guards_are_where_the_mutations_look_for_them(name: str) -> None:
    with made(name):
        pass


def test_a_seed_is_a_schedule() -> None:
    def drawn(seed: int) -> Plan:
        return make_plan(seed=seed, runs=50, faults=20, seconds=60)

    assert drawn(7) == drawn(7) != drawn(8)
