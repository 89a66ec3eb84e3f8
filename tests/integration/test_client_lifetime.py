from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import pytest

from placet import Placet, PlacetSync
from placet.errors import NotConnected

BOUND = 15
METHODS: dict[str, dict[str, Any]] = {
    "enqueue": {"agent": "agent", "input": {}},
    "get": {"run_id": "r"},
    "runs": {},
    "wait": {"run_id": "r"},
    "stream": {"run_id": "r"},
    "cancel": {"run_id": "r"},
    "retry": {"run_id": "r"},
    "state": {"thread_id": "t"},
    "delete_thread": {"thread_id": "t"},
    "approvals": {},
    "approval": {"approval_id": "a"},
    "watch_approvals": {},
    "decide": {"approval_id": "a", "decision": {"type": "approve"}, "reviewer": "alice"},
    "decide_many": {"decisions": {"a": {"type": "approve"}}, "reviewer": "alice"},
    "resume": {"run_id": "r", "resume": 1, "reviewer": "alice"},
}


async def test_a_closed_client_stays_closed(redis_url: str) -> None:
    async with Placet.connect(redis_url, broker_url="memory://") as client:
        run = await client.enqueue("agent", {})
    for method, arguments in METHODS.items():
        call = getattr(client, method)(**arguments)
        with pytest.raises(NotConnected, match="closed"):
            await (anext(call) if method in ("stream", "watch_approvals") else call)
    async with Placet.connect(redis_url, broker_url="memory://") as client:
        assert [one.id for one in await client.runs()] == [run.id]


def test_the_sync_wrapper_works_within_its_with_alone(redis_url_sync: str) -> None:
    placet = PlacetSync.connect(redis_url_sync, broker_url="memory://")
    with pytest.raises(NotConnected, match="not connected yet"):
        placet.runs()
    with placet:
        unfinished = placet.stream(placet.enqueue("agent", {}).id)
        assert next(unfinished).type == "run.enqueued"
        with pytest.raises(NotConnected, match="open"), placet:
            pass
        assert len(placet.runs()) == 1
    placet.__exit__(None, None, None)
    for call in (placet.runs, placet.watch_approvals, lambda: next(unfinished), placet.__enter__):
        with pytest.raises(NotConnected, match="closed"):
            call()


def test_the_sync_wrapper_is_closed_by_several_threads_under_calls(redis_url_sync: str) -> None:
    told: list[BaseException] = []
    begun = threading.Barrier(9)

    def call(method: Any) -> None:
        begun.wait(BOUND)
        try:
            while True:
                method()
        except BaseException as error:  # noqa: BLE001 - whatever comes out is what is tested
            told.append(error)

    with PlacetSync.connect(redis_url_sync, broker_url="memory://") as placet:
        waiting = placet.enqueue("agent", {}).id
        calls = [
            *[placet.runs] * 3,
            *[lambda: placet.enqueue("agent", {})] * 2,
            lambda: placet.wait(waiting),
            lambda: list(placet.stream(waiting)),
            lambda: list(placet.watch_approvals()),
        ]
        callers = [threading.Thread(target=call, args=(one,), daemon=True) for one in calls]
        for caller in callers:
            caller.start()
        begun.wait(BOUND)
        assert placet.runs()
        closers = [threading.Thread(target=placet.__exit__, args=(None, None, None)) for _ in range(4)]
        for closer in closers:
            closer.start()
    for thread in (*callers, *closers):
        thread.join(BOUND)
    assert [type(error) for error in told] == [NotConnected] * len(calls)


FORKED_SYNC = """
import os, sys
from placet import PlacetSync
from placet.errors import NotConnected

def refused(call):
    try:
        call()
    except NotConnected as error:
        return "after the fork" in str(error)

with PlacetSync.connect(sys.argv[1], broker_url="memory://") as placet:
    events = placet.stream(placet.enqueue("agent", {}).id)
    next(events)
    child = os.fork()
    if child == 0:
        wait = lambda: placet.wait("r", timeout=1)
        right = all(map(refused, (placet.runs, wait, lambda: next(events), placet.watch_approvals)))
        placet.__exit__(None, None, None)
        with PlacetSync.connect(sys.argv[1], broker_url="memory://") as own:
            right = right and len(own.runs()) == 1
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(placet.runs()) == 1
"""

FORKED_ASYNC = """
import asyncio, multiprocessing, os, sys
from placet import Placet
from placet.errors import NotConnected

async def child(placet, run_id):
    calls = [placet.runs(), placet.enqueue("agent", {}), placet.cancel(run_id), anext(placet.stream(run_id))]
    for result in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(result, NotConnected) and "after the fork" in str(result), result
    async with Placet.connect(sys.argv[1], broker_url="memory://") as own:
        assert len(await own.runs()) == 1

def in_child(placet, run_id):
    asyncio.run(child(placet, run_id))

async def main():
    async with Placet.connect(sys.argv[1], broker_url="memory://") as placet:
        run = await placet.enqueue("agent", {})
        waiting = asyncio.create_task(placet.wait(run.id))
        await placet.runs()
        process = multiprocessing.get_context("fork").Process(target=in_child, args=(placet, run.id))
        process.start()
        await asyncio.to_thread(process.join)
        assert process.exitcode == 0
        assert len(await placet.runs()) == 1
        await placet.cancel(run.id)
        assert (await waiting).status == "cancelled"

asyncio.run(main())
"""


@pytest.mark.parametrize("script", [FORKED_SYNC, FORKED_ASYNC], ids=["sync", "async"])
def test_a_client_is_of_the_process_that_connected(redis_url_sync: str, script: str) -> None:
    # a fork where threads run is what is tested, and what newer Pythons warn of
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script, redis_url_sync]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * BOUND, check=False)
    assert (done.returncode, done.stderr) == (0, "")
