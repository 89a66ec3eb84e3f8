"""What a reviewer is shown of an agent with PII rules, and what the digest stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langgraph.types import Interrupt

from placet.agents.masks import Masks
from placet.approvals.interrupts import pause_of
from placet.approvals.response_schema import decision_schema
from placet.approvals.tool_calls import PendingCall
from placet.middleware import PIIMiddleware

if TYPE_CHECKING:
    from placet.state.approvals import ApprovalRequest

MAIL, OTHER = "jane.doe@example.com", "joe@example.org"
MASK = "[REDACTED_EMAIL]"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACET_ENCRYPTION_KEY", "k" * 32)


def asked(value: Any, *, pending: tuple[PendingCall, ...] = (), schema: Any = None, **rules: Any) -> Any:
    masks = Masks([PIIMiddleware("email", **(rules or {"apply_to_tool_args": True}))])
    raised = Interrupt(value, id="i", response_schema=schema)
    return pause_of(run_id="r", agent="a", interrupts=[raised], pending=pending, masks=masks)


def batch(to: str, description: str = "") -> dict[str, Any]:
    return {
        "action_requests": [{"name": "send", "args": {"to": to}, "description": description or f"to {to}"}],
        "review_configs": [{"action_name": "send", "allowed_decisions": ["approve", "edit"]}],
    }


def only(pause: Any) -> ApprovalRequest:
    (request,) = pause.requests
    assert MAIL not in repr(pause)
    found: ApprovalRequest = request
    return found


def test_a_question_is_masked_and_its_digest_is_of_the_raw_one() -> None:
    first, second = (only(asked({"may I use": mail})) for mail in (MAIL, OTHER))
    assert first.value == second.value == {"may I use": MASK}
    assert first.digest != second.digest
    assert first.digest == only(asked({"may I use": MAIL})).digest


def test_the_digest_of_a_masked_call_is_bound_to_its_raw_arguments() -> None:
    bound = [PendingCall("c1", "send", {"to": MASK}, bound=one) for one in ("d1", "d2", "")]
    first, second, none = (only(asked(batch(MASK), pending=(one,))) for one in bound)
    assert first.args == {"to": MASK}
    assert first.allowed == ("approve", "edit")
    assert len({first.digest, second.digest, none.digest}) == 3


def test_arguments_that_nothing_has_sealed_are_masked_and_cannot_be_edited() -> None:
    request = only(asked(batch(MAIL)))
    assert (request.args, request.description, request.allowed) == ({"to": MASK}, f"to {MASK}", ("approve",))
    schema = decision_schema(("approve", "edit", "reject"))
    value = {
        "type": "tool_approval",
        "tool_call_id": "c",
        "name": "send",
        "args": {"to": MAIL},
        "description": "",
    }
    request = only(asked(value, schema=schema))
    assert (request.args, request.allowed) == ({"to": MASK}, ("approve", "reject"))


def test_without_a_rule_for_arguments_a_reviewer_sees_what_the_tool_gets() -> None:
    pause = asked(batch(MAIL, description=f"write to {OTHER}"), apply_to_output=True)
    (request,) = pause.requests
    assert (request.args, request.allowed) == ({"to": MAIL}, ("approve", "edit"))
    assert request.description == f"write to {MASK}"


def test_without_a_key_a_masked_question_is_bound_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLACET_ENCRYPTION_KEY")
    digests = {only(asked(f"use {mail}?", apply_to_output=True)).digest for mail in (MAIL, OTHER)}
    assert len(digests) == 1
