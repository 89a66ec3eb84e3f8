"""Requests as platforms are to draw them, for golden payloads."""

from __future__ import annotations

from typing import Any

from records import an_approval

from placet.approvals.response_schema import decision_schema
from placet.bots.card import Card, card_of

HEX = "0123456789abcdef" * 2
ID = "a00000000001"
ALL = ("approve", "edit", "reject", "respond")
SCHEMA = decision_schema(
    ALL,
    tool="refund",
    args={
        "properties": {
            "order": {"type": "string"},
            "amount": {"type": "number"},
            "express": {"type": "boolean"},
            "reason": {"enum": ["broken", "late"]},
        },
        "required": ["order", "amount"],
    },
)


def card(**changes: Any) -> Card:
    return card_of(an_approval(**{"id": ID, "digest": HEX, **changes}))


def requests(hostile: str) -> dict[str, dict[str, Any]]:
    """What changes of a request, by what it shows; `hostile` is a text that would be more than text."""
    return {
        "a call": {"allowed": ALL, "response_schema": SCHEMA, "policy": {"reviewers": ["group:finance"]}},
        "long arguments": {"args": {"note": "&<>" * 2000}, "allowed": ALL},
        "a question": {
            "kind": "question",
            "value": "Which day?",
            "args": None,
            "tool": None,
            "allowed": ("answer",),
        },
        "an unknown call": {"kind": "unknown_call", "allowed": ("approve", "respond", "reject")},
        "a breakpoint": {
            "kind": "breakpoint",
            "tool": "pay",
            "args": None,
            "allowed": ("approve", "reject"),
        },
        "decided": {
            "status": "decided",
            "decided_by": "alice",
            "outcome": "succeeded",
            "decision": {"type": "edit", "edited_action": {"name": "refund", "args": {"amount": 1}}},
        },
        "superseded": {"status": "superseded", "reason": "the run went on without it"},
        "hostile": {
            "args": {"note": hostile},
            "description": hostile,
            "tool": hostile,
            "principal": hostile,
        },
    }
