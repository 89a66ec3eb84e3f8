"""The right to execute a thread, and the commits that a holder may make under its fencing token."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..compact import compact_json
from ..sealing import MARK, is_sealed
from .approvals import decision_of, request_record
from .connection import wake_ups
from .ledger import last_attempts
from .runs import run_of
from .shared_state import RedisSharedState
from .workers import workers_seen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from placet.middleware.shared import CallRecord

    from ..sealing import Seal
    from ..settings import Settings
    from .approvals import ApprovalRequest
    from .connection import Connection, WakeUp
    from .fingerprints import Fingerprint
    from .runs import Run, RunError


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A decision to be delivered; the interrupt's answer is made of all of its."""

    approval_id: str
    interrupt_id: str
    mode: str
    index: int
    decision: dict[str, Any]
    tool_call_id: str
    """Of the call it is about, empty if there is none or it is not known."""
    delivered: bool
    """Whether an attempt that did not finish was handed it already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A lease on a run's thread, and what its segment starts from."""

    run: Run
    token: int
    progress: str
    """The checkpoint the last segment ended at, empty before the first pause."""
    answers: tuple[Answer, ...]
    graph: str
    """Digest of the fingerprint of the graph that it was left by, empty before the first pause."""
    repair: str
    """Why the thread's last run ended abnormally, if it did and nothing was mended since."""
    repair_run: str = ""
    """The run that left the thread so: its ledger knows of the calls that were cut off."""
    rollback: tuple[str, ...] = ()
    """Runs whose checkpoints are to go before this one begins."""
    saved: tuple[Any, ...] = ()
    """What our checkpointer has of the thread, to be read; empty where something is to be mended first."""
    unsealed: bool = False
    """Whether it begins with an input that stands in clear, though this process has a key."""


class Leases:
    """Claims threads, renews the leases, and commits what a segment came to."""

    def __init__(self, connection: Connection, *, owner: str, fleet: str = "") -> None:
        self._c = connection
        self.owner = owner
        self._fleet = fleet
        self._pid = os.getpid()

    @property
    def settings(self) -> Settings:
        """What the process was told from outside."""
        return self._c.settings

    async def claim(self, run_id: str) -> tuple[Claim | None, str, list[WakeUp]]:
        """Take the run's thread if there is something to do; without a claim the text says why not."""
        settings = self._c.settings
        bounds = (int(settings.lease_seconds * 1000), settings.max_attempts, self._pid, settings.max_deaths)
        reply = await self._c.run("claim", run_id, self.owner, *bounds, self._fleet, settings.build_id)
        if reply[0] != b"claimed":
            return None, reply[0].decode(), wake_ups(reply)
        _, token, flat, answers, repair, repair_run, rollback, saved, _ = reply
        record = dict(zip(flat[::2], flat[1::2], strict=True))
        claim = Claim(
            run=run_of(record, self._c.seal),
            token=int(token),
            progress=record[b"progress"].decode(),
            answers=tuple(_answer_of(row, self._c.seal) for row in answers),
            graph=record.get(b"graph", b"").decode(),
            repair=repair.decode(),
            repair_run=repair_run.decode(),
            rollback=tuple(json.loads(rollback)),
            saved=tuple(saved),
            unsealed=self._c.seal is not None and not is_sealed(record.get(b"input", MARK.encode()).decode()),
        )
        return claim, "claimed", wake_ups(reply)

    def shared(self, claim: Claim) -> RedisSharedState:
        """What middleware shares with other processes, fenced by the claim's token."""
        return RedisSharedState(self._c, token=claim.token)

    async def renew(self, held: Mapping[str, int]) -> tuple[set[str], set[str]]:
        """Prolong the leases of runs (id to token); returns those that are lost and those to stop."""
        pairs: list[str | int] = []
        for run_id, token in held.items():
            pairs += [run_id, token]
        lost, stopping = await self._c.run(
            "renew", int(self._c.settings.lease_seconds * 1000), *pairs, again=True
        )
        return {key.decode() for key in lost}, {key.decode() for key in stopping}

    async def stops(self, position: str, *, block_ms: int) -> tuple[str, set[str]]:
        """Runs that were asked to stop after `position` in the stream of those, and where to go on from.

        It waits for the first. A hint to renew at once: what a run is to do, its record says.
        """
        reply = await self._c.read(self._c.blocking.xread({self._c.keys("stops"): position}, block=block_ms))
        entries = reply[0][1] if reply else []
        runs = {fields[b"run"].decode() for _, fields in entries}
        return (entries[-1][0].decode() if entries else position), runs

    async def repaired(self, claim: Claim) -> None:
        """Say that the thread's messages are in order again."""
        await self._c.run("repaired", claim.run.id, claim.token, again=True)

    async def cut_off(self, claim: Claim, keys: Sequence[str]) -> dict[str, CallRecord]:
        """Read the last attempts at calls of the run that left the thread without their results."""
        return await last_attempts(self._c, claim.repair_run, keys) if claim.repair_run else {}

    async def append(
        self,
        claim: Claim,
        events: Iterable[tuple[str, str, str]],
        *,
        batch: int,
        progressed: bool = False,
    ) -> None:
        """Append events to the run's stream: (type, namespace joined by `|`, JSON data).

        `batch` counts the segment's calls: the same one again appends nothing. `progressed` says that the
        segment has got past the checkpoint it began with.
        """
        flat = [part for kind, ns, data in events for part in (kind, ns, compact_json(data))]
        about = (self._pid, claim.run.attempt, f"{claim.token}-{batch}", "1" if progressed else "")
        await self._c.run("events", claim.run.id, claim.token, *about, *flat, again=True)

    async def pause(
        self,
        claim: Claim,
        *,
        checkpoint_id: str,
        graph: Fingerprint,
        requests: Sequence[ApprovalRequest],
        wake_at_ms: int | None = None,
        sleeps: str = "",
        data: str,
        outcomes: Mapping[str, str],
        reopen_reason: str = "",
    ) -> list[WakeUp]:
        """Commit a pause and give the lease back."""
        reply = await self._c.run(
            "pause",
            claim.run.id,
            claim.token,
            self._pid,
            checkpoint_id,
            "" if wake_at_ms is None else wake_at_ms,
            compact_json(data),
            json.dumps([request_record(request) for request in requests]),
            json.dumps(dict(outcomes)),
            reopen_reason or "the graph asked again",
            *self._standing(graph),
            sleeps,
            again=True,
        )
        return wake_ups(reply)

    async def finish(
        self,
        claim: Claim,
        status: str,
        *,
        result: str = "",
        error: RunError | None = None,
        reason: str = "",
        outcomes: Mapping[str, str],
    ) -> tuple[str, list[WakeUp]]:
        """Commit a run's end and give the lease back; returns the status that it ended with."""
        reply = await self._c.run(
            "finish",
            claim.run.id,
            claim.token,
            self._pid,
            status,
            result,
            "" if error is None else json.dumps(error),
            reason,
            json.dumps(dict(outcomes)),
            again=True,
        )
        return reply[0].decode(), wake_ups(reply)

    def _standing(self, graph: Fingerprint) -> tuple[str, ...]:
        return graph.digest, graph.text, graph.versions, self._c.settings.build_id

    async def fingerprint(self, digest: str) -> dict[str, Any] | None:
        """Read what the fingerprint of that digest holds; None if it is not kept any more."""
        text = await self._c.read(self._c.reader.hget(self._c.keys("graph", digest), "fingerprint"))
        return None if text is None else json.loads(text)

    async def matched(self, claim: Claim, graph: Fingerprint) -> None:
        """Say that the run goes on in this graph, which is not the one that it was left by."""
        await self._c.run("matched", claim.run.id, claim.token, self._pid, *self._standing(graph), again=True)

    async def unmatched(self, claim: Claim, *, why: str) -> list[WakeUp]:
        """Leave the run as it was found, for workers with another graph, and give the lease back."""
        handed = [answer.approval_id for answer in claim.answers if not answer.delivered]
        facts = (self._pid, why, self._fleet, json.dumps(handed))
        return wake_ups(await self._c.run("unmatched", claim.run.id, claim.token, *facts, again=True))

    async def is_served(self, agent: str, *, queue: str) -> bool:
        """Whether a worker that is alive has the agent and consumes the queue."""
        seen = await self._c.read(workers_seen(self._c.reader, self._c.keys))
        seconds = self._c.settings.reconcile_seconds
        return any(
            agent in one.agents and queue in one.queues and one.alive(reconcile_seconds=seconds)
            for one in seen
        )

    async def give_back(self, claim: Claim, *, reason: str, count_attempt: bool) -> list[WakeUp]:
        """Hand the run to any other worker at once.

        Where another has it already and the attempt does not count, its loss is not counted as a death.
        """
        facts = (self._pid, reason, "" if count_attempt else "1")
        reply = await self._c.run("give_back", claim.run.id, claim.token, *facts, again=True)
        return wake_ups(reply)


def _answer_of(row: Sequence[bytes], seal: Seal | None) -> Answer:
    approval_id, interrupt_id, mode, index, decision, delivered, tool_call_id = row
    return Answer(
        approval_id=approval_id.decode(),
        interrupt_id=interrupt_id.decode(),
        mode=mode.decode(),
        index=int(index),
        decision=decision_of(decision.decode(), approval_id.decode(), seal),
        tool_call_id=tool_call_id.decode(),
        delivered=bool(delivered),
    )
