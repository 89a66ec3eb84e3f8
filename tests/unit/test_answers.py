from __future__ import annotations

from typing import Any

import pytest
from langgraph.types import Interrupt

from placet.approvals.answers import answer_of, own_answers, resume_map, split_answer
from placet.approvals.interrupts import StaticBreakpoint, pause_of
from placet.approvals.response_schema import decision_schema
from placet.errors import InvalidDecision
from placet.state.leases import Answer

APPROVE = {"type": "approve"}
VALUES: tuple[Any, ...] = (False, 0, "", [], None, {"a": 1})
REJECT = {"type": "reject", "message": "no"}


def batch(count: int = 2, allowed: tuple[str, ...] = ("approve", "reject")) -> Any:
    value = {
        "action_requests": [{"name": "pay", "args": {}, "description": ""}] * count,
        "review_configs": [{"action_name": "pay", "allowed_decisions": list(allowed)}] * count,
    }
    return pause_of(run_id="r", agent="a", interrupts=[Interrupt(value, id="i")]).requests


def single() -> Any:
    value = {"type": "tool_approval", "tool_call_id": "c", "name": "pay", "args": {}, "description": ""}
    raised = Interrupt(value, id="i", response_schema=decision_schema(["approve", "reject"]))
    return pause_of(run_id="r", agent="a", interrupts=[raised]).requests


def question(schema: Any = None) -> Any:
    raised = Interrupt("?", id="i", response_schema=schema)
    return pause_of(run_id="r", agent="a", interrupts=[raised]).requests


def stop() -> Any:
    at = StaticBreakpoint(checkpoint_id="c", when="before", nodes=("n",))
    return pause_of(run_id="r", agent="a", breakpoint_at=at).requests


def refused(requests: Any, answer: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidDecision) as error:
        split_answer(requests, answer)
    return [(issue["path"], issue["message"]) for issue in error.value.issues]


@pytest.mark.parametrize(
    ("requests", "decisions", "answer"),
    [
        (batch(), [REJECT, APPROVE], {"decisions": [REJECT, APPROVE]}),
        (single(), [REJECT], REJECT),
        *[(question(), [{"type": "answer", "value": value}], value) for value in VALUES],
    ],
)
def test_there_and_back(requests: Any, decisions: Any, answer: Any) -> None:
    assert answer_of(requests[0].mode, decisions) == answer
    assert split_answer(requests, answer) == decisions


def test_a_breakpoint_is_answered_with_nothing() -> None:
    assert answer_of(stop()[0].mode, [APPROVE]) is None
    assert split_answer(stop(), APPROVE) == [APPROVE]
    assert refused(stop(), None) == [("", "a decision is an object, not a NoneType")]


def test_the_count_must_match() -> None:
    assert refused(batch(), {"decisions": [APPROVE] * 3}) == [("/decisions", "expected 2 decisions, got 3")]
    assert refused(batch(1), {"decisions": []}) == [("/decisions", "expected 1 decision, got 0")]


def test_a_batch_takes_a_list_of_decisions_and_nothing_else() -> None:
    for answer in (APPROVE, [APPROVE, APPROVE], None, {"decisions": APPROVE}):
        assert refused(batch(), answer) == [("/decisions", "a list of 2 decisions is required")]
    assert refused(batch(1), {"decisions": [APPROVE], "force": 1}) == [("/force", "is not known here")]


def test_all_are_checked_and_all_that_is_wrong_is_named() -> None:
    answer = {"decisions": [{"type": "edit", "args": {}}, APPROVE, {"type": "reject", "mesage": "no"}]}
    assert refused(batch(3), answer) == [
        ("/decisions/0/type", "'edit' is not allowed here: approve, reject"),
        ("/decisions/2/mesage", "is not known here, did you mean 'message'?"),
    ]


def test_one_decision_per_call() -> None:
    assert refused(single(), {"decisions": [APPROVE]}) == [("/type", "is required: approve, reject")]


def test_a_question_is_checked_against_its_schema() -> None:
    assert refused(question({"type": "integer"}), "1") == [("/value", "'1' is not of type 'integer'")]


def test_half_an_interrupt_is_a_mistake_of_the_caller() -> None:
    first, second = batch()
    for requests in ([], [first], [second, first]):
        with pytest.raises(ValueError, match="requests"):
            split_answer(requests, APPROVE)


def test_answers_of_our_own_pauses_do_not_go_through_langgraph() -> None:
    def answer(mode: str) -> Answer:
        return Answer(
            approval_id=mode,
            interrupt_id=f"i-{mode}",
            mode=mode,
            index=0,
            decision=APPROVE,
            tool_call_id="",
            delivered=False,
        )

    answers = [answer("per_call"), answer("static"), answer("own")]
    assert resume_map(answers) == {"i-per_call": APPROVE}
    assert own_answers(answers) == {"i-own": APPROVE}
