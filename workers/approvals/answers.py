"""Between the decisions on one interrupt's requests and the one answer LangGraph takes for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import InvalidDecision
from .decisions import MAX_BYTES, check_decision

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..errors import Issue
    from ..state.approvals import ApprovalRequest
    from ..state.leases import Answer


def answer_of(mode: str, decisions: Sequence[dict[str, Any]]) -> Any:
    """Join the checked decisions on one interrupt's requests, in order, into the answer LangGraph gets.

    Batched gives `{"decisions": […]}`, per call the decision, a question the answer's value as it is. A
    static breakpoint gives None: approved, the graph is run on without input.
    """
    if mode == "batched":
        return {"decisions": list(decisions)}
    if mode == "per_call":
        return decisions[0]
    return decisions[0]["value"] if mode == "raw" else None


def resume_map(answers: Iterable[Answer]) -> dict[str, Any]:
    """Join delivered decisions into what LangGraph is resumed with: interrupt id to answer.

    `answers` hold all decisions of each of their interrupts. Those on static breakpoints answer nothing;
    those on pauses of our own never go through LangGraph, which would hand them to whoever asks next.
    """
    by_interrupt: dict[str, list[Answer]] = {}
    for answer in sorted(answers, key=lambda one: one.index):
        if answer.mode not in ("static", "own"):
            by_interrupt.setdefault(answer.interrupt_id, []).append(answer)
    return {
        interrupt_id: answer_of(parts[0].mode, [part.decision for part in parts])
        for interrupt_id, parts in by_interrupt.items()
    }


def own_answers(answers: Iterable[Answer]) -> dict[str, dict[str, Any]]:
    """Decisions on pauses of our own, by interrupt id; the run's context carries them."""
    return {answer.interrupt_id: answer.decision for answer in answers if answer.mode == "own"}


def decisions_of_resume(
    asked: Sequence[ApprovalRequest], resume: Any, *, most_bytes: int = MAX_BYTES
) -> dict[str, dict[str, Any]]:
    """Take apart what `Command(resume=…)` holds into a checked decision for each request's id.

    `resume` maps ids of interrupts that are asked to their answers, or is the answer of the only one.

    Raises:
        InvalidDecision: naming all that is wrong, or that several interrupts are asked.
    """
    by_interrupt: dict[str, list[ApprovalRequest]] = {}
    for request in asked:
        by_interrupt.setdefault(request.interrupt_id, []).append(request)
    if isinstance(resume, dict) and resume and set(resume) <= set(by_interrupt):
        answers = resume
    elif len(by_interrupt) == 1:
        answers = dict.fromkeys(by_interrupt, resume)
    else:
        message = f"{len(by_interrupt)} interrupts are asked: send a map of their ids to answers"
        raise InvalidDecision([{"path": "", "message": message}])
    found: dict[str, dict[str, Any]] = {}
    for interrupt_id, answer in answers.items():
        requests = by_interrupt[interrupt_id]
        if len(requests) != requests[0].count:
            message = "some of its requests are decided already: decide on the others one by one"
            raise InvalidDecision([{"path": f"/{interrupt_id}", "message": message}])
        decisions = split_answer(requests, answer, most_bytes=most_bytes)
        for request, decision in zip(requests, decisions, strict=True):
            found[request.id] = decision
    return found


def split_answer(
    requests: Sequence[ApprovalRequest], answer: Any, *, most_bytes: int = MAX_BYTES
) -> list[dict[str, Any]]:
    """Take apart what a caller would resume LangGraph with, into one checked decision a request.

    `requests` are all of one interrupt, in order. Batched wants `{"decisions": […]}` with exactly as
    many, per call and a static breakpoint one decision, a question any value.

    Raises:
        InvalidDecision: naming all that is wrong in any of them, by paths into `answer`.
        ValueError: when requests are missing or out of order.
    """
    mode = _mode_of_whole(requests)
    if mode == "raw":
        answer = {"type": "answer", "value": answer}
    if mode != "batched":
        return [check_decision(requests[0], answer, most_bytes=most_bytes)]
    checked: list[dict[str, Any]] = []
    issues: list[Issue] = []
    for index, (request, decision) in enumerate(zip(requests, _listed(answer, len(requests)), strict=True)):
        try:
            checked.append(check_decision(request, decision, most_bytes=most_bytes))
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
