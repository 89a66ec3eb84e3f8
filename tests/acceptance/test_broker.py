"""Messages are wake-ups: lost, doubled, or their connection broken, the runs are the same."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from brokers import on_both_brokers

from fleet import PATIENCE, human, paused, wait_until
from placet.celery import make_app

if TYPE_CHECKING:
    from brokers import Broker
    from rabbitmq import RabbitMQ
    from redis.asyncio import Redis

    from fleet import Fleet
    from placet import Placet, Run


async def all_ended(placet: Placet, runs: list[Run]) -> None:
    for run in runs:
        ended = await placet.wait(run.id, timeout=PATIENCE)
        assert ended.status == "success", ended.error


@on_both_brokers
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


@on_both_brokers
async def test_broken_connections(fleet: Fleet, placet: Placet, broker: Broker) -> None:
    """Each to the broker, and if that is Redis to the store, is cut, with runs under way and with none."""
    (worker,) = await fleet.start()
    for cut in range(3):
        busy = await placet.enqueue("slow_tool", human(f"b{cut}"))
        await fleet.started("slow", cut + 1)
        broker.cut()
        fleet.open_barrier(f"b{cut}")
        later = await placet.enqueue("plain", human("go"))
        await all_ended(placet, [busy, later])
    assert worker.process.poll() is None
    assert [effect.args["barrier"] for effect in fleet.effects("slow")] == ["b0", "b1", "b2"]
    assert len(fleet.effects("look_up")) == 3


@pytest.mark.settings(concurrency=2, reconcile_seconds=0.2)
async def test_a_long_queue(fleet: Fleet, placet: Placet, broker: Broker, redis: Redis) -> None:
    """10,000 runs wait for one slow worker: little is sent twice, what is lost is sent again."""
    queue = fleet.settings.queue_names[0]
    gate = asyncio.Semaphore(50)

    async def enqueue() -> Run:
        async with gate:
            return await placet.enqueue("plain", human("go"))

    await asyncio.gather(*(enqueue() for _ in range(10_000)))
    pending = placet._connection.keys("runs_in", "pending")

    async def sent() -> bool:
        return broker.waiting(queue) == 10_000

    await wait_until(sent)
    await fleet.start()
    for done in (50, 100, 150, 200):

        async def ran(least: int = done) -> bool:
            assert broker.waiting(queue) <= 1.1 * await redis.zcard(pending)
            return len(fleet.effects("look_up", "end")) >= least

        await wait_until(ran)
    broker.empty(queue)
    waiting = await redis.zcard(pending)

    async def goes_on() -> bool:
        return bool(await redis.zcard(pending) < waiting - 50)

    await wait_until(goes_on)
    assert broker.waiting(queue) <= 1.1 * await redis.zcard(pending)
    assert len(fleet.effects("look_up")) <= 10_001 - await redis.zcard(pending)


@pytest.mark.parametrize("broker", ["rabbitmq"], indirect=True)
async def test_the_broker_is_killed(fleet: Fleet, placet: Placet, broker: Broker, rabbitmq: RabbitMQ) -> None:
    """While a decision comes in, and with messages in its queue: all of it is there when the broker is."""
    run = await placet.enqueue("batched", human("go"))
    await fleet.start(2)
    pay, mail = await paused(placet, run)
    rabbitmq.kill()
    await placet.decide_many({pay.id: {"type": "approve"}, mail.id: {"type": "approve"}}, reviewer="ann")
    later = await placet.enqueue("plain", human("go"))
    assert {(await placet.get(one.id)).status for one in (run, later)} == {"pending"}
    rabbitmq.start()
    await all_ended(placet, [run, later])
    assert (await placet.get(run.id)).segment == 2
    assert sorted(effect.name for effect in fleet.effects()) == ["look_up", "look_up", "mail", "pay"]
    assert [worker.process.poll() for worker in fleet.workers] == [None, None]


@pytest.mark.parametrize("broker", ["rabbitmq"], indirect=True)
async def test_queues_outlive_the_broker(
    fleet: Fleet, placet: Placet, broker: Broker, rabbitmq: RabbitMQ
) -> None:
    queue = fleet.settings.queue_names[0]
    runs = [await placet.enqueue("plain", human("go")) for _ in range(20)]

    async def sent() -> bool:
        return broker.waiting(queue) == 20 and broker.waiting(queue) == 20

    await wait_until(sent)
    rabbitmq.stop()
    rabbitmq.start()

    async def there_again() -> bool:
        return broker.waiting(queue) == 20

    await wait_until(there_again)
    await fleet.start()
    await all_ended(placet, runs)
    # none for remote control, for events or for delays
    assert rabbitmq.queues() == {queue: (True, "quorum")}


@pytest.mark.parametrize("broker", ["rabbitmq"], indirect=True)
async def test_the_broker_is_frozen(fleet: Fleet, placet: Placet, broker: Broker, rabbitmq: RabbitMQ) -> None:
    """It takes connections and answers nothing: callers wait for it neither with nor without a connection."""
    await fleet.start()
    run = await placet.enqueue("batched", human("go"))
    pay, mail = await paused(placet, run)
    with rabbitmq.frozen():
        await placet.decide_many({pay.id: {"type": "approve"}, mail.id: {"type": "approve"}}, reviewer="ann")
        async with fleet.connect() as other:
            later = await other.enqueue("plain", human("go"))
        assert {(await placet.get(one.id)).status for one in (run, later)} == {"pending"}
    await all_ended(placet, [run, later])


@pytest.mark.parametrize("broker", ["rabbitmq"], indirect=True)
async def test_a_queue_is_deleted_under_its_worker(fleet: Fleet, placet: Placet, broker: Broker) -> None:
    await fleet.start()
    await all_ended(placet, [await placet.enqueue("plain", human("go"))])
    broker.delete(fleet.settings.queue_names[0])
    await all_ended(placet, [await placet.enqueue("plain", human("go"))])


@pytest.mark.parametrize("broker", ["rabbitmq"], indirect=True)
@pytest.mark.settings(concurrency=1)
async def test_a_busy_workers_messages_are_taken_back(
    fleet: Fleet, placet: Placet, broker: Broker, rabbitmq: RabbitMQ
) -> None:
    """RabbitMQ closes the channel of a worker that does not acknowledge for long."""
    with rabbitmq.impatient():
        (worker,) = await fleet.start()
        busy = await placet.enqueue("slow_tool", human("b"))
        await fleet.started("slow")
        later = await placet.enqueue("plain", human("go"))

        async def closed() -> bool:
            return "delivery acknowledgement on channel" in worker.log

        await wait_until(closed)
    fleet.open_barrier("b")
    await all_ended(placet, [busy, later])
    assert worker.process.poll() is None
