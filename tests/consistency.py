"""Whether all records and indexes of one namespace agree with each other."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any, get_args

from placet.state.approvals import ApprovalStatus
from placet.state.keys import Keys
from placet.state.runs import ENDED, RunStatus

Hashes = dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything in one namespace, as text."""

    now: int
    runs: Hashes
    approvals: Hashes
    leases: Hashes
    threads: Hashes
    zsets: dict[str, dict[str, float]]
    lists: dict[str, list[str]]
    events: dict[str, list[int]]
    graphs: Hashes
    ledgers: set[str]
    cards: set[str]
    """Runs that have one, or counts of what was tried again."""
    counts: dict[str, set[str]]
    """Runs and threads whose calls are counted, by `run-counts` and `thread-counts`."""

    def zset(self, name: str) -> dict[str, float]:
        return self.zsets.get(name, {})

    def queue(self, thread: str) -> list[str]:
        return self.lists.get(f"thread-queue:{thread}", [])

    def pause(self, run: str) -> list[str]:
        return self.lists.get(f"run-pause:{run}", [])

    def held(self, thread: str) -> bool:
        return self.zset("leases").get(thread, 0) > self.now


async def snapshot(redis: Any, namespace: str = "placet") -> Snapshot:
    prefix = Keys(namespace).prefix
    hashes: dict[str, Hashes] = {"run": {}, "approval": {}, "lease": {}, "thread": {}, "graph": {}}
    zsets: dict[str, dict[str, float]] = {}
    lists: dict[str, list[str]] = {}
    events: dict[str, list[int]] = {}
    ledgers: set[str] = set()
    cards: set[str] = set()
    counts: dict[str, set[str]] = {"run-counts": set(), "thread-counts": set()}
    seconds, micro = await redis.time()
    async for raw in redis.scan_iter(match=prefix + "*", count=1000):
        key = raw.decode()
        name = key.removeprefix(prefix)
        kind, _, of = name.partition(":")
        match (await redis.type(key)).decode():
            case "hash" if kind in hashes:
                found = await redis.hgetall(key)
                hashes[kind][of] = {k.decode(): v.decode() for k, v in found.items()}
            case "hash" if kind in ("run-ledger", "run-tries"):
                ledgers.add(of)
            case "hash" if kind == "cards":
                cards.add(of)
            case "hash" if kind in counts:
                counts[kind].add(of)
            case "zset":
                zsets[name] = {k.decode(): s for k, s in await redis.zrange(key, 0, -1, withscores=True)}
            case "list":
                lists[name] = [one.decode() for one in await redis.lrange(key, 0, -1)]
            case "stream" if kind == "run-events":
                events[of] = [int(at.split(b"-")[0]) for at, _ in await redis.xrange(key)]
    return Snapshot(
        now=seconds * 1000 + micro // 1000,
        runs=hashes["run"],
        approvals=hashes["approval"],
        leases=hashes["lease"],
        threads=hashes["thread"],
        zsets=zsets,
        lists=lists,
        events=events,
        graphs=hashes["graph"],
        ledgers=ledgers,
        cards=cards,
        counts=counts,
    )


async def check_consistency(redis: Any, namespace: str = "placet") -> Snapshot:
    """Fail if any two records disagree; returns what was looked at."""
    seen = await snapshot(redis, namespace)
    _check_indexes(seen)
    assert seen.ledgers | seen.counts["run-counts"] <= set(seen.runs)
    assert seen.cards <= set(seen.approvals)
    assert seen.counts["thread-counts"] <= set(seen.threads)
    for run_id in seen.runs:
        _check_run(seen, run_id)
        _check_clock(seen, run_id)
        _check_turn(seen, run_id)
    for approval_id in seen.approvals:
        _check_approval(seen, approval_id)
    _check_leases(seen)
    _check_lifetimes(seen)
    _check_graphs(seen)
    return seen


def _check_indexes(seen: Snapshot) -> None:
    for prefix, index, records, statuses in (
        ("runs:in:", "runs", seen.runs, get_args(RunStatus)),
        ("approvals:in:", "approvals", seen.approvals, get_args(ApprovalStatus)),
    ):
        assert set(seen.zset(index)) == set(records)
        for status in statuses:
            expected = {key for key, record in records.items() if record["status"] == status}
            assert set(seen.zset(prefix + status)) == expected, (prefix + status, expected)
    every = [run for name, runs in seen.lists.items() if name.startswith("thread-queue:") for run in runs]
    assert [run for run, times in Counter(every).items() if times > 1] == []
    assert all(seen.runs[run]["status"] not in ENDED for run in every)


def _check_lifetimes(seen: Snapshot) -> None:
    """What has ended is on the way out, and nothing else is."""
    assert set(seen.zset("ended")) == {key for key, run in seen.runs.items() if run["status"] in ENDED}
    assert set(seen.zset("idle")) <= set(seen.threads)
    for thread_id, thread in seen.threads.items():
        its = [run for run in seen.runs.values() if run["thread_id"] == thread_id]
        unended = sum(run["status"] not in ENDED for run in its)
        assert int(thread.get("open", 0)) == unended, (thread_id, thread)
        gone = "deleted_at" in thread or "expired_at" in thread
        assert not (gone and unended)
        assert (thread_id in seen.zset("idle")) == (unended == 0 and not gone)


def _check_run(seen: Snapshot, run_id: str) -> None:
    run = seen.runs[run_id]
    assert run_id in seen.zset(f"thread-runs:{run['thread_id']}")
    assert ("ended_at" in run) == (run["status"] in ENDED), run
    ids = seen.events.get(run_id, [])
    if ids:
        assert ids == list(range(ids[0], ids[0] + len(ids)))
        assert ids[-1] == int(run["event_seq"])
    asked = [seen.approvals[one]["status"] for one in seen.pause(run_id)]
    if run["status"] not in (*ENDED, "running"):
        assert (run["status"] == "interrupted") == ("pending" in asked), (run, asked)
    if run["status"] in ENDED:
        assert asked == []
    if run["status"] == "success":
        assert run_id not in seen.ledgers
    if run["status"] in ("success", "cancelled"):
        assert run_id not in seen.counts["run-counts"]


def _check_clock(seen: Snapshot, run_id: str) -> None:
    """A timeout's clock runs from the first start to the end, but for waits for people and graphs."""
    run = seen.runs[run_id]
    assert ("stop" in run) == ("stop_reason" in run)
    assert ("stop" in run) <= (run["status"] == "running")
    begun = "timeout_ms" in run and run["segment"] != "0" and run["status"] not in ENDED
    waits = run["status"] == "interrupted" or (run["status"] == "pending" and "incompatible" in run)
    again = "ended_at" not in run and "deadline" not in run and "time_left" not in run  # since a retry
    if begun and not (again and run["status"] == "pending"):
        assert ("time_left" in run, "deadline" in run) == (waits, not waits), run
    else:
        assert "time_left" not in run
        assert "deadline" not in run
    if run_id in seen.zset("deadlines"):
        assert seen.zset("deadlines")[run_id] == int(run["deadline"])
    else:
        assert "deadline" not in run or "stop" in run


def _check_turn(seen: Snapshot, run_id: str) -> None:
    """A run that can go on is in the outbox, one that cannot is in no set that is scanned."""
    run = seen.runs[run_id]
    thread = run["thread_id"]
    unmatched = run_id in seen.zset(f"unmatched:{run['queue']}")
    outbox = run_id in seen.zset(f"outbox:{run['queue']}")
    timer = run_id in seen.zset("timers")
    if run["status"] in ENDED:
        assert not outbox
        assert not unmatched
        assert not timer
        assert run_id not in seen.queue(thread)
        return
    if run_id not in seen.queue(thread):
        assert timer, f"{run_id} is not queued and will not wake"
        assert run["segment"] == "0"
        assert not outbox
        return
    if seen.queue(thread)[0] != run_id:
        assert not outbox
        assert run.get("due") == "1"
        return
    if run["status"] == "running":
        assert seen.leases[thread]["run_id"] == run_id
        assert not (outbox and seen.held(thread))
        assert not unmatched
        assert not timer
        return
    assert not seen.held(thread)
    claimable = run.get("due") == "1" or _fresh(seen, run_id)
    if claimable:
        assert outbox or unmatched, f"a lost wake-up: {run_id}"
    elif outbox:
        assert int(run.get("wake_at", "0") or 0) <= seen.now, f"{run_id} is woken for nothing"
        assert "wake_at" in run
    assert timer <= ("wake_at" in run)


def _fresh(seen: Snapshot, run_id: str) -> bool:
    asked = [seen.approvals[one] for one in seen.pause(run_id)]
    open_ones = {one["interrupt_id"] for one in asked if one["status"] != "decided"}
    return any(one["delivered"] == "" and one["interrupt_id"] not in open_ones for one in asked)


def _check_approval(seen: Snapshot, approval_id: str) -> None:
    approval = seen.approvals[approval_id]
    run_id, status = approval["run_id"], approval["status"]
    decided = [approval.get(name, "") != "" for name in ("decision", "decided_by", "decided_at")]
    assert approval_id in seen.zset(f"run-approvals:{run_id}")
    assert decided == [status == "decided"] * 3
    if status == "pending":
        assert approval_id in seen.pause(run_id)
        assert approval["outcome"] == "none"
    elif status != "decided":
        assert approval["outcome"] == "not_run"
        assert approval["delivered"] == ""
    if all(decided) and json.loads(approval["decision"])["type"] == "reject":
        assert approval["outcome"] in ("none", "not_run")
    if seen.runs[run_id]["status"] in ENDED:
        assert approval["outcome"] not in ("none", "started")


def _check_graphs(seen: Snapshot) -> None:
    """A fingerprint is kept for each run that refers to it; records that are lost count on."""
    refer = Counter(run["graph"] for run in seen.runs.values() if "graph" in run)
    counted = {digest: int(graph["runs"]) for digest, graph in seen.graphs.items()}
    assert all(counted[digest] >= runs for digest, runs in refer.items())
    assert all("fingerprint" in seen.graphs[digest] for digest in refer)


def _check_leases(seen: Snapshot) -> None:
    assert set(seen.leases) == set(seen.zset("leases"))
    tokens = [int(lease["token"]) for lease in seen.leases.values()]
    assert len(set(tokens)) == len(tokens)
    for thread, lease in seen.leases.items():
        assert seen.runs[lease["run_id"]]["status"] == "running"
        assert seen.queue(thread)[0] == lease["run_id"]
    running = {run["thread_id"] for run in seen.runs.values() if run["status"] == "running"}
    assert running == set(seen.leases)
