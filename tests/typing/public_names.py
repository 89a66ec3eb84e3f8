"""What a type checker sees of the public names; checked by mypy, never run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, assert_type

from placet import Approval, Decision, Event, Placet, PlacetSync, PostedCard, Reviewer, Run, errors
from placet.approvals.decisions import Answer, Approve, Edit, Reject, Respond

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager


async def client(placet: Placet) -> None:
    connected: AbstractAsyncContextManager[Placet] = Placet.connect("redis://h", broker_url="amqp://h")
    async with connected as also:
        assert_type(also, Placet)
    run = await placet.enqueue("agent", {"messages": []}, thread_id="t", start_at=timedelta(seconds=1))
    assert_type(run, Run)
    await placet.enqueue("agent", {}, multitask_strategy="rollback", timeout_seconds=60)
    await placet.enqueue("agent", {}, multitask_strategy="kill")  # type: ignore[arg-type]
    assert_type(await placet.get("r"), Run)
    assert_type(await placet.runs(status="pending", limit=5), list[Run])
    assert_type(await placet.wait(run.id, until="pause", timeout=timedelta(seconds=1)), Run)
    assert_type(placet.stream(run.id, after=None, until="end"), AsyncGenerator[Event, None])
    assert_type(await placet.cancel(run.id), Run)
    assert_type(await placet.retry(run.id), Run)
    assert_type(await placet.state("t"), dict[str, Any])
    await placet.delete_thread("t")
    assert_type(await placet.approvals(status=None), list[Approval])
    assert_type(await placet.approval("a"), Approval)
    assert_type(await placet.cards("a"), list[PostedCard])
    assert_type(await placet.reviewer("slack:U1"), Reviewer | None)
    assert_type(await placet.may_decide(await placet.approval("a"), reviewer="alice"), Reviewer)
    assert_type(placet.watch_approvals(), AsyncGenerator[Approval, None])
    assert_type(await placet.decide("a", {"type": "approve"}, reviewer="alice", seen="d"), Approval)
    assert_type(await placet.decide_many({"a": {"type": "approve"}}, reviewer="alice"), list[Approval])
    async for event in placet.stream(run.id):
        assert_type(event.id, int)
        assert_type(event.at, datetime)
    await placet.runs(status="done")  # type: ignore[arg-type]
    await placet.wait(run.id, until="ever")  # type: ignore[arg-type]
    await placet.enqueue("agent", {}, thread="t")  # type: ignore[call-arg]


def records(run: Run, approval: Approval, decision: Decision) -> None:
    assert_type(
        run.status,
        Literal["pending", "running", "interrupted", "success", "error", "timeout", "cancelled"],
    )
    assert_type(run.ended, bool)
    assert_type(run.wake_at, datetime | None)
    assert_type(approval.status, Literal["pending", "decided", "expired", "superseded", "cancelled"])
    assert_type(approval.allowed, tuple[str, ...])
    assert_type(decision, Approve | Edit | Reject | Respond | Answer)
    run.id = "other"  # type: ignore[misc]


def sync() -> None:
    with PlacetSync.connect("redis://h") as placet:
        assert_type(placet, PlacetSync)
        assert_type(placet.enqueue("agent", {}, thread_id="t"), Run)
        assert_type(placet.approvals(status="pending"), list[Approval])
        assert_type(placet.stream("r", until="pause"), Generator[Event, None, None])
        placet.enqueue("agent", {}, thread="t")  # type: ignore[call-arg]


def told(error: errors.AlreadyDecided) -> None:
    assert_type(error.decided_by, str)
    permanent: errors.PermanentError = error
    assert_type(permanent.args, tuple[Any, ...])
