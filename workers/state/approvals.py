"""An approval request: one tool call, one question or one static breakpoint that waits for a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from datetime import datetime

ApprovalKind = Literal["tool_call", "question", "breakpoint"]
ApprovalStatus = Literal["pending", "decided", "expired", "superseded", "cancelled"]
ApprovalMode = Literal["batched", "per_call", "raw", "static"]
Outcome = Literal["none", "started", "succeeded", "failed", "unknown", "not_run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """What a pause asks of a reviewer; `index` of `count` answers make up the interrupt's answer."""

    id: str
    interrupt_id: str
    index: int
    count: int
    kind: ApprovalKind
    mode: ApprovalMode
    tool: str | None
    """The tool's name; None for a question; the node's name for a breakpoint."""
    args: Any
    """The tool's arguments as JSON values, None for others."""
    tool_call_id: str | None
    description: str
    value: Any
    """What `interrupt(value)` was given, as JSON values, for a question; None for others."""
    allowed: tuple[str, ...]
    """Decision types that are taken: of approve, edit, reject, respond, answer."""
    response_schema: dict[str, Any] | None
    """JSON Schema of the decision (a question: of the answer's value), None if anything goes."""
    digest: str
    """Of all a reviewer is shown; a decision given for another digest is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval(ApprovalRequest):
    """A request and what has become of it; times are UTC."""

    run_id: str
    thread_id: str
    agent: str
    principal: str | None
    status: ApprovalStatus
    reason: str
    """Why it is expired, superseded, cancelled or was reopened; empty otherwise."""
    outcome: Outcome
    decision: dict[str, Any] | None
    decided_by: str | None
    created_at: datetime
    decided_at: datetime | None
