"""Between the decisions on one interrupt's requests and the one answer LangGraph takes for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .decisions import check_decision
from .errors import InvalidDecision

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .errors import Issue
    from .state.approvals import ApprovalRequest


def answer_of(requests: Sequence[ApprovalRequest], decisions: Sequence[dict[str, Any]]) -> Any:
    """Join checked decisions into what LangGraph gets for the interrupt's id.

    `requests` are all of one interrupt, in order, a decision for each. Batched gives
    `{"decisions": […]}`, per call the decision, a question the answer's value as it is. A static
    breakpoint gives None: approved, the graph is run on without input.

    Raises:
        ValueError: when requests or decisions are missing, too many or out of order.
    """
    mode = _mode_of_whole(requests)
    if len(decisions) != len(requests):
        raise ValueError(f"{len(requests)} requests, {len(decisions)} decisions")
    if mode == "batched":
        return {"decisions": list(decisions)}
    if mode == "per_call":
        return decisions[0]
    return decisions[0]["value"] if mode == "raw" else None


def split_answer(requests: Sequence[ApprovalRequest], answer: Any) -> list[dict[str, Any]]:
    """Take apart what a caller would resume LangGraph with, into one checked decision a request.

    `requests` are all of one interrupt, in order. Batched wants `{"decisions": […]}` with exactly as
    many, per call and a static breakpoint one decision, a question any value.

    Raises:
        InvalidDecision: naming all that is wrong in any of them, by paths into `answer`.
        ValueError: when requests are missing or out of order.
    """
    mode = _mode_of_whole(requests)
    if mode == "raw":
        return [check_decision(requests[0], {"type": "answer", "value": answer})]
    if mode != "batched":
        return [check_decision(requests[0], answer)]
    checked: list[dict[str, Any]] = []
    issues: list[Issue] = []
    for index, (request, decision) in enumerate(zip(requests, _listed(answer, len(requests)), strict=True)):
        try:
            checked.append(check_decision(request, decision))
        except InvalidDecision as error:
            issues += [{**issue, "path": f"/decisions/{index}{issue['path']}"} for issue in error.issues]
    if issues:
        raise InvalidDecision(issues)
    return checked


def _listed(answer: Any, count: int) -> list[Any]:
    if not isinstance(answer, dict) or not isinstance(decisions := answer.get("decisions"), list):
        raise InvalidDecision([{"path": "/decisions", "message": f"a list of {count} decisions is required"}])
    if len(decisions) != count:
        message = f"expected {count} decision{'s' * (count != 1)}, got {len(decisions)}"
        raise InvalidDecision([{"path": "/decisions", "message": message}])
    if extra := [name for name in answer if name != "decisions"]:
        raise InvalidDecision([{"path": f"/{name}", "message": "is not known here"} for name in extra])
    return decisions


def _mode_of_whole(requests: Sequence[ApprovalRequest]) -> str:
    """Make sure these are all requests of one interrupt, in order, and give their mode."""
    if not requests or [request.index for request in requests] != list(range(requests[0].count)):
        raise ValueError("not all requests of one interrupt, in order")
    if len({request.interrupt_id for request in requests}) != 1:
        raise ValueError("requests of several interrupts")
    return requests[0].mode
