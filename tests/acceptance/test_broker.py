"""Messages are wake-ups: lost, doubled, or their connection broken, the runs are the same."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from fleet import PATIENCE, human, paused, wait_until
from placet.celery import make_app

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from fleet import Fleet
    from placet import Placet, Run


async def all_ended(placet: Placet, runs: list[Run]) -> None:
    for run in runs:
        ended = await placet.wait(run.id, timeout=PATIENCE)
        assert ended.status == "success", ended.error


async def test_messages_sent_over_and_over(fleet: Fleet, placet: Placet) -> None:
    """200 copies of each message of 20 runs."""
    await fleet.start(2)
    queue = fleet.settings.queue_names[0]

    async def flood(runs: list[Run], task: str) -> None:
        def send() -> None:
            with make_app(fleet.settings) as app, app.producer_pool.acquire(block=True) as producer:
                for run in runs * 200:
                    app.send_task(task, args=[run.id], queue=queue, producer=producer)

        await asyncio.to_thread(send)

    runs = [await placet.enqueue("batched", human("go")) for _ in range(20)]
    await flood(runs, "placet.start_run")
    for run in runs:
        pay, mail = await paused(placet, run)
        await placet.decide_many({pay.id: {"type": "approve"}, mail.id: {"type": "approve"}}, reviewer="ann")
    await flood(runs, "placet.resume_run")
    await all_ended(placet, runs)
    names = [effect.name for effect in fleet.effects()]
    assert {name: names.count(name) for name in names} == {"pay": 20, "mail": 20, "look_up": 20}
    assert {run.segment for run in [await placet.get(run.id) for run in runs]} == {2}


async def test_broken_connections(fleet: Fleet, placet: Placet, redis: Redis) -> None:
    """Every connection is cut three times, with runs under way and none."""
    (worker,) = await fleet.start()
    for cut in range(3):
        busy = await placet.enqueue("slow_tool", human(f"b{cut}"))
        await fleet.started("slow", cut + 1)
        await redis.client_kill_filter(_type="normal", skipme=True)
        fleet.open_barrier(f"b{cut}")
        later = await placet.enqueue("plain", human("go"))
        await all_ended(placet, [busy, later])
    assert worker.process.poll() is None
    assert [effect.args["barrier"] for effect in fleet.effects("slow")] == ["b0", "b1", "b2"]
    assert len(fleet.effects("look_up")) == 3


@pytest.mark.settings(concurrency=2, reconcile_seconds=0.2)
async def test_a_long_queue(fleet: Fleet, placet: Placet, redis: Redis) -> None:
    """10,000 runs wait for one slow worker: little is sent twice, what is lost is sent again."""
    queue = fleet.settings.queue_names[0]
    gate = asyncio.Semaphore(50)

    async def enqueue() -> Run:
        async with gate:
            return await placet.enqueue("plain", human("go"))

    await asyncio.gather(*(enqueue() for _ in range(10_000)))
    pending = placet._connection.keys("runs_in", "pending")

    async def sent() -> bool:
        return int(await redis.llen(queue)) == 10_000

    await wait_until(sent)
    await fleet.start()
    for done in (50, 100, 150, 200):

        async def ran(least: int = done) -> bool:
            assert await redis.llen(queue) <= 1.1 * await redis.zcard(pending)
            return len(fleet.effects("look_up", "end")) >= least

        await wait_until(ran)
    await redis.delete(queue)
    waiting = await redis.zcard(pending)

    async def goes_on() -> bool:
        return bool(await redis.zcard(pending) < waiting - 50)

    await wait_until(goes_on)
    assert await redis.llen(queue) <= 1.1 * await redis.zcard(pending)
    assert len(fleet.effects("look_up")) <= 10_001 - await redis.zcard(pending)
