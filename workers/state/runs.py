"""A run: one request on a thread, from enqueue through its pauses to its end."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from ..errors import Conflict, NotFound, ThreadBusy, ThreadExpired
from ..sealing import is_sealed, opened_or_unreadable
from .connection import moment, wake_ups

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from ..sealing import Seal
    from .connection import Connection, Text, WakeUp

RunStatus = Literal["pending", "running", "interrupted", "success", "error", "timeout", "cancelled"]
MultitaskStrategy = Literal["enqueue", "reject", "interrupt", "rollback"]
ENDED: frozenset[str] = frozenset({"success", "error", "timeout", "cancelled"})


class RunError(TypedDict):
    """Why a run failed, as data: the exception's class name, its text, the node (or None)."""

    type: str
    message: str
    node: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run as it stood when it was read; times are UTC."""

    id: str
    thread_id: str
    agent: str
    status: RunStatus
    queue: str
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    wake_at: datetime | None = None
    """When the run wakes by itself: its `start_at`, or a timer it sleeps on."""
    attempt: int = 0
    """Starts of the current segment without progress."""
    segment: int = 0
    """How many segments have been started."""
    input: Any = None
    """What it was enqueued with; the context too is sealed where there is a `PLACET_ENCRYPTION_KEY`."""
    config: dict[str, Any] = field(default_factory=dict)
    context: Any = None
    metadata: dict[str, Any] = field(default_factory=dict)
    principal: str | None = None
    result: Any = None
    """The graph's output, as JSON values, once `status` is `success`."""
    error: RunError | None = None
    reason: str = ""
    """Why it was cancelled, timed out or failed; what a success lacks (its model's answer), or which limit
    ended it; what it waits for until `wake_at`; else empty."""
    timeout_seconds: float | None = None
    """What it may take from its first start, the time that it waits for people left out."""
    deaths: int = 0
    """Workers that died while executing it, since it was enqueued or retried."""
    worker: str | None = None
    """The worker that executes it, or did last: `host:pid`."""
    last_event: int = 0
    """The id of its newest event."""
    incompatible: str = ""
    """Why the deployed graph could not take it on, while it waits for workers with one that can."""
    build: str = ""
    """`PLACET_BUILD_ID` of the worker that it paused on."""

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it, but for a retry."""
        return self.status in ENDED


class Runs:
    """Records of runs: made, read, listed, cancelled, retried."""

    def __init__(self, connection: Connection) -> None:
        self._c = connection

    async def enqueue(self, new: NewRun) -> tuple[bool, list[WakeUp]]:
        """Create the run unless its id is known; returns whether it was created.

        Raises:
            Conflict: when the id stands for a run with another payload.
            ThreadBusy: when the strategy is to reject and a run is in the way.
            ThreadExpired: when the thread was there and is no more.
        """
        start_at = "" if new.start_at is None else str(int(new.start_at.timestamp() * 1000))
        record: list[Text] = []
        for name, text in new.record(self._c.seal).items():
            record += [name, text]
        about = (new.payload_digest(self._c.seal), start_at, new.multitask_strategy, os.getpid())
        reply = await self._c.run("enqueue", new.id, new.thread_id, *about, *record, again=True)
        if reply[0] == b"busy":
            raise ThreadBusy(new.thread_id, reply[1].decode(), reply[2].decode())
        if reply[0] == b"conflict":
            raise Conflict(f"run {new.id} exists with another payload")
        if reply[0] == b"gone":
            raise ThreadExpired(new.thread_id, reply[1].decode())
        return reply[0] == b"created", wake_ups(reply)

    async def get(self, run_id: str) -> Run:
        """Read one run.

        Raises:
            NotFound: when there is none of that id.
        """
        record = await self._c.read(self._c.reader.hgetall(self._c.keys("run", run_id)))
        if not record:
            raise NotFound("run", run_id)
        return run_of(record, self._c.seal)

    async def newest(
        self, *, status: str | None, agent: str | None, thread_id: str | None, limit: int
    ) -> list[Run]:
        """List runs, newest first, those that match every filter given; without what may be large."""
        if status is not None:
            index = self._c.keys("runs_in", status)
        elif thread_id is not None:
            index = self._c.keys("thread_runs", thread_id)
        else:
            index = self._c.keys("runs")
        found: list[Run] = []
        async for record in self._c.records(index, "run", _LISTED):
            run = run_of(record, self._c.seal)
            if (
                (status is None or run.status == status)
                and (agent is None or run.agent == agent)
                and (thread_id is None or run.thread_id == thread_id)
            ):
                found.append(run)
                if len(found) >= limit:
                    break
        return found

    async def cancel(self, run_id: str, *, reason: str) -> list[WakeUp]:
        """End the run now, or ask its worker to.

        Raises:
            NotFound: when there is none of that id.
            Conflict: when it has ended.
        """
        reply = await self._c.run("cancel", run_id, reason, os.getpid())
        if reply[0] == b"missing":
            raise NotFound("run", run_id)
        if reply[0] == b"ended":
            raise Conflict(f"run {run_id} has ended")
        return wake_ups(reply)

    async def retry(self, run_id: str) -> list[WakeUp]:
        """Put a run that ended as `error` or `timeout` back at its last checkpoint.

        Raises:
            NotFound: when there is none of that id.
            Conflict: when it did not fail, or its thread has gone on; the message says which.
        """
        reply = await self._c.run("retry", run_id, os.getpid())
        if reply[0] == b"missing":
            raise NotFound("run", run_id)
        if reply[0] == b"conflict":
            raise Conflict(f"run {run_id} cannot be retried: {reply[1].decode()}")
        return wake_ups(reply)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """What a caller asks for; the JSON fields hold JSON text."""

    id: str
    thread_id: str
    agent: str
    queue: str
    input: str
    config: str
    context: str
    metadata: str
    principal: str | None
    start_at: datetime | None
    multitask_strategy: MultitaskStrategy = "enqueue"
    timeout_ms: int | None = None

    def record(self, seal: Seal | None) -> dict[str, str]:
        """The fields that are stored as they are, but for what may be personal, if there is a key."""
        texts = {name: getattr(self, name) for name in ("agent", "queue", *_JSON_INPUTS)}
        optional = {"principal": self.principal, "timeout_ms": self.timeout_ms}
        texts |= {name: str(value) for name, value in optional.items() if value is not None}
        texts = {name: text for name, text in texts.items() if text != _DEFAULTS.get(name)}
        if seal is None:
            return texts
        sealed = {n: seal.seal(json.loads(texts[n]), _about(n, self.id)) for n in _SEALED if n in texts}
        return texts | sealed

    def payload_digest(self, seal: Seal | None) -> str:
        """Tells two enqueues of one id apart: the same payload is the same run."""
        # when it starts is no part: `start_at` may be counted from the moment of each call
        texts = {name: getattr(self, name) for name in ("thread_id", "agent", "queue", "principal")}
        if self.timeout_ms is not None:
            texts["timeout_ms"] = self.timeout_ms
        values = {name: json.loads(getattr(self, name)) for name in _JSON_INPUTS}
        if seal is not None:
            return seal.digest([texts, values])
        return blake2b(json.dumps([texts, values], sort_keys=True).encode(), digest_size=16).hexdigest()


# all but what may be megabytes: input, config, context, result
_LISTED = (
    *("id", "thread_id", "agent", "status", "queue", "created_at", "updated_at", "started_at", "ended_at"),
    *(
        "wake_at",
        "sleeps",
        "attempt",
        "segment",
        "metadata",
        "principal",
        "error",
        "reason",
        "timeout_ms",
        "deaths",
    ),
    *("worker", "event_seq", "incompatible", "build"),
)
_JSON_INPUTS = ("input", "config", "context", "metadata")
_SEALED = ("input", "context")
_DEFAULTS = {"config": "{}", "context": "null", "metadata": "{}"}
"""What is read where the field is missing."""


def _about(name: str, run_id: str) -> str:
    return f"{name} of run {run_id}"


def run_of(record: Mapping[bytes, bytes], seal: Seal | None) -> Run:
    """Read a run's hash; what is sealed and does not open is `UNREADABLE`."""
    text = {name.decode(): value.decode() for name, value in record.items()}

    def at(name: str) -> datetime | None:
        return moment(text[name]) if text.get(name) else None

    def value(name: str, default: Any = None) -> Any:
        if is_sealed(text.get(name)):
            return opened_or_unreadable(seal, text[name], _about(name, text["id"]))
        return json.loads(text[name]) if text.get(name) else default

    return Run(
        id=text["id"],
        thread_id=text["thread_id"],
        agent=text["agent"],
        status=cast("RunStatus", text["status"]),
        queue=text["queue"],
        created_at=moment(text["created_at"]),
        updated_at=moment(text["updated_at"]),
        started_at=at("started_at"),
        ended_at=at("ended_at"),
        wake_at=at("wake_at"),
        attempt=int(text["attempt"]),
        segment=int(text["segment"]),
        input=value("input"),
        config=value("config", {}),
        context=value("context"),
        metadata=value("metadata", {}),
        principal=text.get("principal"),
        result=value("result"),
        error=value("error"),
        reason=text.get("sleeps" if text.get("wake_at") else "reason", ""),
        timeout_seconds=int(text["timeout_ms"]) / 1000 if "timeout_ms" in text else None,
        deaths=int(text.get("deaths", 0)),
        worker=text.get("worker"),
        last_event=int(text.get("event_seq", 0)),
        incompatible=text.get("incompatible", ""),
        build=text.get("build", ""),
    )
