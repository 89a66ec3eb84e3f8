"""An approval request: one tool call, one question or one static breakpoint that waits for a person."""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from ..compact import compact_json, load_json
from ..errors import AlreadyDecided, ChangedSinceSeen, NotFound, NotPending, ThreadExpired
from ..sealing import Unreadable, is_sealed, opened_or_unreadable
from .connection import moment, wake_ups

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from ..sealing import Seal
    from .connection import Connection, WakeUp

ApprovalKind = Literal["tool_call", "question", "breakpoint", "unknown_call"]
ApprovalStatus = Literal["pending", "decided", "expired", "superseded", "cancelled"]
ApprovalMode = Literal["batched", "per_call", "raw", "static", "own"]
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
    policy: dict[str, Any] | None = None
    """What the agent's gate says of who may decide, None if it says nothing."""


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
    outcome_reason: str = ""
    """Why the call did not run, or how its run ended; empty where `outcome` says it all."""
    incompatible: str = ""
    """Why the deployed graph could not take the run on, while it waits for one that can."""


class Approvals:
    """Records of approval requests: read, listed, decided; the pause commit makes them."""

    def __init__(self, connection: Connection) -> None:
        self._c = connection

    async def get(self, approval_id: str) -> Approval:
        """Read one request.

        Raises:
            NotFound: when there is none of that id.
        """
        record = await self._c.read(self._c.reader.hgetall(self._c.keys("approval", approval_id)))
        if not record:
            raise NotFound("approval", approval_id)
        return approval_of(record, self._c.seal)

    async def newest(
        self,
        *,
        status: str | None,
        run_id: str | None = None,
        thread_id: str | None = None,
        agent: str | None = None,
        limit: int,
    ) -> list[Approval]:
        """List requests, newest first, those that match every filter given."""
        if run_id is not None:
            index = self._c.keys("run_approvals", run_id)
        elif status is not None:
            index = self._c.keys("approvals_in", status)
        else:
            index = self._c.keys("approvals")
        found: list[Approval] = []
        async for record in self._c.records(index, "approval"):
            approval = approval_of(record, self._c.seal)
            if (
                (status is None or approval.status == status)
                and (thread_id is None or approval.thread_id == thread_id)
                and (agent is None or approval.agent == agent)
            ):
                found.append(approval)
                if len(found) >= limit:
                    break
        return found

    async def of_pause(self, run_id: str) -> list[Approval]:
        """The requests of the pause a run is in, in the order they were asked."""
        ids = await self._c.read(self._c.reader.lrange(self._c.keys("run_pause", run_id), 0, -1))
        return [await self.get(key.decode()) for key in ids]

    async def decide(
        self, checked: Sequence[CheckedDecision], *, reviewer: str
    ) -> tuple[list[Approval], list[WakeUp]]:
        """Save decisions, all or none; the first on a request wins. Gives the requests as they are then.

        Raises:
            NotFound, AlreadyDecided, NotPending, ChangedSinceSeen: for the first request that refuses.
            ThreadExpired: when the checkpoints of a run are gone; the run has ended then.
        """
        args: list[str] = []
        for one in checked:
            args += [one.approval_id, one.digest, _decision_text(one, self._c.seal), one.decision["type"]]
        reply = await self._c.run("decide", reviewer, os.getpid(), *args)
        tag, *facts = (part.decode() if isinstance(part, bytes) else "" for part in reply)
        if tag == "missing":
            raise NotFound("approval", facts[0])
        if tag == "decided":
            raise AlreadyDecided(facts[0], facts[1], facts[2])
        if tag == "not_pending":
            raise NotPending(facts[0], facts[1], facts[2])
        if tag == "changed":
            raise ChangedSinceSeen(facts[0])
        if tag == "gone":
            raise ThreadExpired(facts[0], facts[1])
        records = [dict(zip(flat[::2], flat[1::2], strict=True)) for flat in reply[1]]
        return [approval_of(record, self._c.seal) for record in records], wake_ups(reply)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedDecision:
    """A decision that was found to fit the request of that digest."""

    approval_id: str
    digest: str
    decision: dict[str, Any]


_SEALED = "sealed"
_TEXTS = ("id", "interrupt_id", "kind", "mode", "digest")
_SHOWN = ("description", "args", "value", "allowed", "response_schema", "count", "policy")
"""What no script reads: one field, for each costs some 50 bytes beside what it holds."""


def request_record(request: ApprovalRequest) -> dict[str, str]:
    """A request as the texts of its hash."""
    record = {name: getattr(request, name) for name in _TEXTS}
    shown = json.dumps({name: getattr(request, name) for name in _SHOWN}, separators=(",", ":"))
    record |= {"shown": b64encode(compact_json(shown)).decode(), "index": str(request.index)}
    record |= {"tool": request.tool or "", "tool_call_id": request.tool_call_id or ""}
    return record


def _decision_text(checked: CheckedDecision, seal: Seal | None) -> str:
    """A decision as it is stored: its type, and the rest sealed if there is a key."""
    kind = checked.decision["type"]
    if seal is None or len(checked.decision) == 1:
        return json.dumps(checked.decision)
    return json.dumps({"type": kind, _SEALED: seal.seal(checked.decision, _about(checked.approval_id))})


def decision_of(text: str, approval_id: str, seal: Seal | None) -> dict[str, Any]:
    """Read a stored decision; one that does not open stays sealed, but for its type."""
    stored: dict[str, Any] = json.loads(text)
    if not is_sealed(sealed := stored.get(_SEALED)):
        return stored
    opened = opened_or_unreadable(seal, str(sealed), _about(approval_id))
    return stored if isinstance(opened, Unreadable) else opened


_OUTCOME_REASONS = {
    "rejected": "the reviewer rejected it",
    "responded": "the reviewer answered in its place",
    "limited": "a limit had no room for it",
    "superseded": "the run went on without it",
}
"""What scripts say for short."""


def _about(approval_id: str) -> str:
    return f"decision on {approval_id}"


def approval_of(record: Mapping[bytes, bytes], seal: Seal | None) -> Approval:
    """Read a request's hash."""
    text = {name.decode(): value.decode() for name, value in record.items()}
    shown = load_json(b64decode(text["shown"]))
    return Approval(
        **{name: text[name] for name in _TEXTS},  # type: ignore[arg-type]
        **{**shown, "allowed": tuple(shown["allowed"])},
        index=int(text["index"]),
        tool=text["tool"] or None,
        tool_call_id=text["tool_call_id"] or None,
        run_id=text["run_id"],
        thread_id=text["thread_id"],
        agent=text["agent"],
        principal=text.get("principal"),
        status=cast("ApprovalStatus", text["status"]),
        reason=text.get("reason", ""),
        outcome=cast("Outcome", text["outcome"]),
        outcome_reason=_OUTCOME_REASONS.get(reason := text.get("outcome_reason", ""), reason),
        decision=decision_of(text["decision"], text["id"], seal) if text.get("decision") else None,
        decided_by=text.get("decided_by") or None,
        created_at=moment(text["created_at"]),
        decided_at=moment(text["decided_at"]) if text.get("decided_at") else None,
        incompatible=text.get("incompatible", ""),
    )
