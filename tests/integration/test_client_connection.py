from __future__ import annotations

import asyncio
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from core import open_core, request

from placet import Placet, PlacetSync
from placet.errors import AlreadyDecided, InvalidSettings, NotFound, StoreUnavailable, WaitTimeout
from placet.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from core import Core
    from redis.asyncio import Redis

BOUND = 15
BLOCKED = 2.0


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(50)
        yield listening.getsockname()[1]


async def longest_block(stop: asyncio.Event) -> float:
    """How long the loop was kept from turning, at most."""
    worst, last = 0.0, time.monotonic()
    while not stop.is_set():
        await asyncio.sleep(0)
        worst, last = max(worst, time.monotonic() - last), time.monotonic()
    return worst


@pytest.mark.parametrize("scheme", ["redis", "amqp"])
@pytest.mark.parametrize("answers", [True, False])
async def test_enqueue_succeeds_with_the_broker_down(
    redis_url: str, silent_port: int, scheme: str, *, answers: bool
) -> None:
    import placet.celery  # noqa: F401, PLC0415 - importing it holds the interpreter, whatever the broker does

    port = 1 if answers else silent_port
    started = time.monotonic()
    async with Placet.connect(redis_url, broker_url=f"{scheme}://127.0.0.1:{port}/") as client:
        stop = asyncio.Event()
        blocked = asyncio.create_task(longest_block(stop))
        runs = await asyncio.gather(*(client.enqueue("agent", {"n": n}) for n in range(50)))
        assert {run.status for run in runs} == {"pending"}
        assert time.monotonic() - started < BOUND
        stop.set()
        assert await blocked < BLOCKED
    assert time.monotonic() - started < BOUND


@pytest.mark.parametrize("answers", [True, False])
async def test_redis_down_is_told_within_bounds(silent_port: int, *, answers: bool) -> None:
    port = 1 if answers else silent_port
    started = time.monotonic()
    async with Placet.connect(f"redis://:s3cret@127.0.0.1:{port}/0", broker_url="memory://") as client:
        calls: list[Any] = [
            client.enqueue("agent", {}),
            client.get("r"),
            client.runs(),
            client.wait("r"),
            anext(client.stream("r")),
            client.decide("a", {"type": "approve"}, reviewer="alice"),
            client.cancel("r"),
            anext(client.watch_approvals()),
        ]
        for result in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(result, StoreUnavailable)
            assert f"redis://127.0.0.1:{port}/0" in str(result)
            assert "s3cret" not in str(result)
    assert time.monotonic() - started < 2 * BOUND


async def test_a_server_without_room_is_unavailable_and_keeps_answers(core: Core, redis: Redis) -> None:
    await core.paused(request())
    await redis.config_set("maxmemory", "1")
    try:
        with pytest.raises(StoreUnavailable, match="memory"):
            await core.placet.enqueue("agent", {})
        with pytest.raises(StoreUnavailable, match="memory"):
            await core.decide("a1")
        assert (await core.placet.approval("a1")).status == "pending"
    finally:
        await redis.config_set("maxmemory", "0")


async def test_connect_names_a_setting_that_cannot_be_used() -> None:
    with pytest.raises(InvalidSettings, match="PLACET_REDIS_URL"):
        await Placet.connect("localhost").__aenter__()
    with pytest.raises(InvalidSettings, match="PLACET_REDIS_URL"), PlacetSync.connect("localhost"):
        pass
    assert not [thread for thread in threading.enumerate() if thread.name == "placet-sync"]


async def test_namespaces_do_not_meet(redis_url: str) -> None:
    async with open_core(redis_url, namespace="one") as one, open_core(redis_url, namespace="two") as two:
        await one.enqueue()
        assert await two.placet.runs() == []
        with pytest.raises(NotFound):
            await two.placet.get("r1")


def sync_session(redis_url: str) -> list[Any]:
    """What a script does, step by step, while the other side runs on a loop elsewhere."""
    told: list[Any] = []
    with PlacetSync.connect(settings=Settings(redis_url=redis_url, broker_url="memory://")) as placet:
        told.append(placet.enqueue("agent", {"x": 1}, run_id="r1", thread_id="t1").id)
        for approval in placet.watch_approvals():
            told.append(approval.id)
            placet.decide(approval.id, {"type": "approve"}, reviewer="alice", seen=approval.digest)
            with pytest.raises(AlreadyDecided):
                placet.decide(approval.id, {"type": "reject"}, reviewer="bob")
            break
        told += [event.type for event in placet.stream("r1")]
        told.append(placet.wait("r1", timeout=5).status)
        waiting = placet.enqueue("agent", {})
        with pytest.raises(WaitTimeout):
            placet.wait(waiting.id, timeout=0.01)
        unfinished = placet.stream(waiting.id)
        told.append(next(unfinished).type)
        unfinished.close()
    return told


async def test_the_sync_wrapper_serves_a_plain_thread(core: Core, redis_url: str) -> None:
    script = asyncio.create_task(asyncio.to_thread(sync_session, redis_url))
    async with asyncio.timeout(BOUND):
        while not await core.outbox():  # noqa: ASYNC110
            await asyncio.sleep(0)
        await core.pause(await core.claim(), request())
        await core.placet.wait("r1", until="pause")
        async for event in core.placet.stream("r1"):
            if event.type == "approval.decided":
                break
        await core.finish(await core.claim())
        told = await script
    assert told == [
        "r1",
        "a1",
        "run.enqueued",
        "run.started",
        "run.interrupted",
        "approval.decided",
        "run.resumed",
        "run.ended",
        "success",
        "run.enqueued",
    ]


def test_the_sync_wrapper_is_shared_between_threads(redis_url_sync: str) -> None:
    settings = Settings(redis_url=redis_url_sync, broker_url="memory://")
    with PlacetSync.connect(settings=settings) as placet:
        threads = [
            threading.Thread(
                target=placet.enqueue, args=("agent", {}), kwargs={"run_id": f"r{n % 5}", "thread_id": "t"}
            )
            for n in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(placet.runs()) == 5


async def test_scripts_run_while_somebody_empties_the_script_cache(core: Core) -> None:
    async def flush() -> None:
        while True:
            await core.redis.script_flush()

    flushing = asyncio.create_task(flush())
    runs = await asyncio.gather(*(core.placet.enqueue("agent", {"n": n}) for n in range(100)))
    assert {run.status for run in runs} == {"pending"}
    flushing.cancel()
    await asyncio.wait([flushing])


async def test_many_wait_on_one_client(redis_url: str) -> None:
    """More than redis-py's pools hold when they are not told otherwise."""
    async with Placet.connect(redis_url) as client:
        run = await client.enqueue("agent", {})
        waits = (client.wait(run.id, timeout=1) for _ in range(150))
        ends = await asyncio.gather(*waits, return_exceptions=True)
    assert {type(end) for end in ends} == {WaitTimeout}
