"""The state core by itself: its parts on one connection, and a clock that is moved by hand."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from placet import Placet
from placet.dispatch import Dispatcher
from placet.errors import LeaseLost
from placet.middleware.shared import Breaker, CallCount, CallId
from placet.settings import Settings
from placet.state.approvals import ApprovalRequest, Approvals, CheckedDecision
from placet.state.connection import Connection
from placet.state.events import Events
from placet.state.fingerprints import Fingerprint
from placet.state.leases import Claim, Leases
from placet.state.runs import NewRun, Runs
from placet.state.threads import Threads
from placet.state.timers import Timers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from placet.middleware.shared import CallRecord
    from placet.state.approvals import ApprovalKind, ApprovalMode
    from placet.state.connection import WakeUp
    from placet.state.runs import Run, RunError

ALLOWED = {
    "tool_call": ("approve", "edit", "reject", "respond"),
    "question": ("answer",),
    "breakpoint": ("approve", "reject"),
    "unknown_call": ("approve", "respond", "reject"),
}


def new_run(run_id: str = "r1", thread_id: str = "t1", **changes: Any) -> NewRun:
    given: dict[str, Any] = {
        "agent": "agent",
        "queue": "placet",
        "input": '{"x":1}',
        "config": "{}",
        "context": "null",
        "metadata": "{}",
        "principal": None,
        "start_at": None,
    }
    return NewRun(id=run_id, thread_id=thread_id, **{**given, **changes})


def graph(digest: str = "d1") -> Fingerprint:
    """A fingerprint of a graph with nothing in it."""
    level: dict[str, Any] = {"nodes": {}, "gates": {}, "tools": [], "keys": {}, "graphs": {}}
    content = {"level": level, "types": ""}
    return Fingerprint(digest=digest, content=content, text=json.dumps(content), versions='{"langgraph":"1"}')


def request(
    approval_id: str = "a1",
    interrupt_id: str | None = None,
    *,
    kind: ApprovalKind = "tool_call",
    index: int = 0,
    count: int = 1,
    **changes: Any,
) -> ApprovalRequest:
    modes: dict[ApprovalKind, ApprovalMode] = {
        "tool_call": "batched",
        "question": "raw",
        "breakpoint": "static",
        "unknown_call": "own",
    }
    given: dict[str, Any] = {
        "mode": modes[kind],
        "tool": None if kind == "question" else "pay",
        "args": {"amount": 1} if kind == "tool_call" else None,
        "tool_call_id": f"call-{approval_id}" if kind == "tool_call" else None,
        "description": "Pay",
        "value": "Sure?" if kind == "question" else None,
        "allowed": ALLOWED[kind],
        "response_schema": None,
        "digest": f"digest-{approval_id}",
    }
    return ApprovalRequest(
        id=approval_id,
        interrupt_id=interrupt_id or f"i-{approval_id}",
        kind=kind,
        index=index,
        count=count,
        **{**given, **changes},
    )


def call_id(approval_id: str = "a1", *, tool: str = "pay") -> CallId:
    """The call that a request is about."""
    return CallId(f"key-{approval_id}", tool, f"call-{approval_id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """Everything that a client and a worker do to the store."""

    connection: Connection
    placet: Placet
    runs: Runs
    approvals: Approvals
    events: Events
    threads: Threads
    leases: Leases
    timers: Timers

    @property
    def redis(self) -> Any:
        return self.connection.redis

    async def enqueue(self, run_id: str = "r1", thread_id: str = "t1", **changes: Any) -> Run:
        await self.runs.enqueue(new_run(run_id, thread_id, **changes))
        return await self.runs.get(run_id)

    async def claim(self, run_id: str = "r1") -> Claim:
        claim, why, _ = await self.leases.claim(run_id)
        assert claim is not None, why
        return claim

    async def refused(self, run_id: str = "r1") -> str:
        """Why a claim is refused."""
        claim, why, _ = await self.leases.claim(run_id)
        assert claim is None
        return why

    async def pause(self, claim: Claim, *requests: ApprovalRequest, **changes: Any) -> list[WakeUp]:
        given: dict[str, Any] = {"checkpoint_id": "c1", "data": "{}", "outcomes": {}, "graph": graph()}
        return await self.leases.pause(claim, requests=requests, **{**given, **changes})

    async def paused(self, *requests: ApprovalRequest, run_id: str = "r1", thread_id: str = "t1") -> None:
        """A run that stands at a pause."""
        await self.enqueue(run_id, thread_id)
        await self.pause(await self.claim(run_id), *requests)

    async def decide(
        self, *approval_ids: str, kind: str = "approve", reviewer: str = "alice", digest: str | None = None
    ) -> list[WakeUp]:
        checked = [
            CheckedDecision(approval_id=one, digest=digest or f"digest-{one}", decision={"type": kind})
            for one in approval_ids
        ]
        _, wake_ups = await self.approvals.decide(checked, reviewer=reviewer)
        return wake_ups

    async def start_call(self, claim: Claim, approval_id: str = "a1", *, attempt: int = 1) -> CallRecord:
        """Start the call that a request was about, as its tool does."""
        return await self.leases.shared(claim).start_call("r1", call_id(approval_id), attempt=attempt)

    async def finish(
        self, claim: Claim, status: str = "success", *, reason: str = "", error: RunError | None = None
    ) -> tuple[str, list[WakeUp]]:
        result = '{"done":true}' if status == "success" else ""
        return await self.leases.finish(claim, status, result=result, error=error, reason=reason, outcomes={})

    async def fail(self, claim: Claim) -> None:
        error: RunError = {"type": "ValueError", "message": "no", "node": "n"}
        await self.finish(claim, "error", reason="an error ended the run", error=error)

    async def look(self, *, limit: int = 100, queues: tuple[str, ...] = ("placet",)) -> list[WakeUp]:
        wake_ups, _ = await self.timers.look(facts="{}", limit=limit, queues=queues)
        return wake_ups

    async def expire_lease(self, thread_id: str = "t1") -> None:
        assert await self.redis.zadd(self.connection.keys("leases"), {thread_id: 1}, xx=True, ch=True)

    async def make_due(self, run_id: str = "r1") -> None:
        """Put a run's timer, or the time to send its wake-up again, into the past."""
        for index in (self.connection.keys("timers"), self.connection.keys("outbox", "placet")):
            await self.redis.zadd(index, {run_id: 1}, xx=True)
        run = self.connection.keys("run", run_id)
        if await self.redis.hexists(run, "wake_at"):
            await self.redis.hset(run, "wake_at", "1")

    async def make_late(self, run_id: str = "r1") -> None:
        """Let a run's timeout be over."""
        run = self.connection.keys("run", run_id)
        if await self.redis.zadd(self.connection.keys("deadlines"), {run_id: 1}, xx=True, ch=True):
            await self.redis.hset(run, "deadline", "1")

    async def outbox(self, queue: str = "placet") -> list[str]:
        return [one.decode() for one in await self.redis.zrange(self.connection.keys("outbox", queue), 0, -1)]

    async def scanned(self) -> set[str]:
        """Members of every set that somebody goes through periodically."""
        found: set[str] = set(await self.outbox())
        for name in ("leases", "timers", "deadlines"):
            found |= {one.decode() for one in await self.redis.zrange(self.connection.keys(name), 0, -1)}
        return found

    async def told(self, run_id: str = "r1") -> list[tuple[str, Any]]:
        """A run's events: type and data."""
        events = await self.events.after(run_id, 0, block_ms=1)
        return [(event.type, event.data) for event in events]

    async def stale(self, claim: Claim) -> None:
        """Check that every commit under a lost lease is refused."""
        with pytest.raises(LeaseLost):
            await self.pause(claim, request("late"))
        with pytest.raises(LeaseLost):
            await self.finish(claim)
        with pytest.raises(LeaseLost):
            await self.leases.give_back(claim, reason="late", count_attempt=True)
        with pytest.raises(LeaseLost):
            await self.leases.append(claim, [("custom", "", json.dumps("late"))], batch=1, progressed=True)
        with pytest.raises(LeaseLost):
            await self.leases.repaired(claim)
        ledger, call = self.leases.shared(claim), call_id()
        with pytest.raises(LeaseLost):
            await ledger.start_call(claim.run.id, call, attempt=1)
        with pytest.raises(LeaseLost):
            await ledger.end_call(claim.run.id, call, attempt=1, start=1, state="done", outcome="succeeded")
        with pytest.raises(LeaseLost):
            await ledger.withdraw_call(claim.run.id, call, attempt=1, start=1)
        with pytest.raises(LeaseLost):
            await ledger.start_try(claim.run.id, "k", deaths_count=True)
        with pytest.raises(LeaseLost):
            await ledger.fail_try(claim.run.id, "k", number=1, wait_ms=1, passed=0)
        with pytest.raises(LeaseLost):
            await ledger.withdraw_try(claim.run.id, "k", number=1)
        with pytest.raises(LeaseLost):
            await ledger.enter_model(claim.run.id, Breaker("m", 1, 1), call="c")
        with pytest.raises(LeaseLost):
            await ledger.stay_with_model(claim.run.id, "k", 1)
        counts = [CallCount("run", "models", 1)]
        with pytest.raises(LeaseLost):
            await ledger.count_call(claim.run.id, counts, thread_id="t1", waiter="late")


@asynccontextmanager
async def open_core(redis_url: str, **changes: Any) -> AsyncIterator[Core]:
    given = {"redis_url": redis_url, "broker_url": "memory://", **changes}
    settings = Settings.from_env({}, **given)
    async with Connection.open(settings) as connection:
        dispatcher = Dispatcher(settings=settings)
        try:
            yield Core(
                connection=connection,
                placet=Placet(connection=connection, dispatcher=dispatcher),
                runs=Runs(connection),
                approvals=Approvals(connection),
                events=Events(connection),
                threads=Threads(connection),
                leases=Leases(connection, owner="w1"),
                timers=Timers(connection, owner="w1"),
            )
        finally:
            await dispatcher.aclose()
