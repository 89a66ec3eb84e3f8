from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from placet.errors import InvalidInput

if TYPE_CHECKING:
    from core import Core

    from placet import Placet

NO_ID: list[Any] = [None, 5, b"x", ["x"], {"x": 1}, "", "\ud800", "x" * 513]
CALLS: list[tuple[str, str, dict[str, Any]]] = [
    ("get", "run_id", {}),
    ("cancel", "run_id", {}),
    ("retry", "run_id", {}),
    ("wait", "run_id", {}),
    ("stream", "run_id", {}),
    ("resume", "run_id", {"resume": 1, "reviewer": "alice"}),
    ("delete_thread", "thread_id", {}),
    ("state", "thread_id", {}),
    ("approval", "approval_id", {}),
    ("decide", "approval_id", {"decision": {"type": "approve"}, "reviewer": "alice"}),
]
BAD_REASONS: list[Any] = [None, {}, "\ud800", "", "x" * 1_001]
BAD_LIMITS: list[Any] = [0, -1, "x", None]
BAD_DECISIONS: list[Any] = [None, [], {}]
BAD_REVIEWERS: list[Any] = [None, 5, "x" * 513]
WRONG: list[tuple[str, str, dict[str, Any]]] = [
    *(("cancel", "reason", {"run_id": "r", "reason": bad}) for bad in BAD_REASONS),
    *(("wait", "timeout", {"run_id": "r", "timeout": bad}) for bad in ("x", float("nan"), -1)),
    ("wait", "until", {"run_id": "r", "until": None}),
    *(("stream", "after", {"run_id": "r", "after": bad}) for bad in (-1, 1.5, "x", 1 << 70)),
    *(("runs", "limit", {"limit": bad}) for bad in BAD_LIMITS),
    *(("approvals", "limit", {"limit": bad}) for bad in BAD_LIMITS),
    ("runs", "thread_id", {"thread_id": 5}),
    ("runs", "agent", {"agent": b"a"}),
    ("runs", "status", {"status": ["pending"]}),
    ("approvals", "run_id", {"run_id": ["r"]}),
    ("watch_approvals", "group", {"group": 5}),
    *(("decide_many", "decisions", {"decisions": bad, "reviewer": "alice"}) for bad in BAD_DECISIONS),
    *(("decide", "reviewer", {"approval_id": "a", "decision": {}, "reviewer": bad}) for bad in BAD_REVIEWERS),
    ("decide", "seen", {"approval_id": "a", "decision": {}, "reviewer": "al", "seen": 5}),
    ("resume", "reviewer", {"run_id": "r", "resume": 1, "reviewer": None}),
]


async def called(placet: Placet, method: str, arguments: dict[str, Any]) -> None:
    call = getattr(placet, method)(**arguments)
    await (anext(call) if method in ("stream", "watch_approvals") else call)


async def test_what_names_nothing_is_refused_by_every_method(core: Core) -> None:
    for method, argument, others in CALLS:
        for bad in NO_ID:
            with pytest.raises(InvalidInput, match=rf"^{argument}: "):
                await called(core.placet, method, {argument: bad, **others})


@pytest.mark.parametrize(("method", "argument", "arguments"), WRONG)
async def test_a_wrong_argument_is_named(
    core: Core, method: str, argument: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput, match=rf"^{argument}: "):
        await called(core.placet, method, arguments)
