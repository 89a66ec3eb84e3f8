"""Records as a test wants them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from placet import Approval

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def an_approval(**changes: Any) -> Approval:
    fields: dict[str, Any] = {
        "id": "ap-1",
        "interrupt_id": "i-1",
        "index": 0,
        "count": 1,
        "kind": "tool_call",
        "mode": "batched",
        "tool": "refund",
        "args": {"order": "A-17", "amount": 42.0},
        "tool_call_id": "c-1",
        "description": "",
        "value": None,
        "allowed": ("approve", "edit", "reject"),
        "response_schema": None,
        "digest": "abc",
        "run_id": "r-1",
        "thread_id": "t-1",
        "agent": "support",
        "principal": None,
        "status": "pending",
        "reason": "",
        "outcome": "none",
        "decision": None,
        "decided_by": None,
        "created_at": NOW,
        "decided_at": None,
    }
    return Approval(**fields | changes)
