"""Whoever can write to the broker may write anything: a worker drops it, says so, and goes on."""

from __future__ import annotations

import asyncio
import json
import pickle
import zlib
from typing import TYPE_CHECKING, Any

import pytest
from brokers import RedisBroker, on_both_brokers

from fleet import PATIENCE, human, wait_until
from placet.celery import RABBITMQ_QUEUE, make_app

if TYPE_CHECKING:
    from brokers import Broker

    from fleet import Fleet, WorkerProcess
    from placet import Placet

MARK = "sesame"
START = {"task": "placet.start_run", "id": "1"}
PICKLE = pickle.dumps((("sesame",), {}, {}))


def task(*args: Any, **kwargs: Any) -> bytes:
    return json.dumps([args, kwargs, {}]).encode()


BODIES = [
    b"",
    b"\xff\xfe\x00",
    b"{sesame",
    b"null",
    b"[]",
    b"17",
    b'"sesame"',
    b"{}",
    b"[" * 10_000,
    b'[["sesame"]]',
    b'[["sesame"], {}]',
    b'[["sesame"], null, {}]',
    b'[["sesame"], [], {}]',
    b'["sesame", {}, {}]',
    b'["s", {}, {}]',
    b'[{"sesame": 1}, {}, {}]',
    b'[["\\ud800"], {}, {}]',
    task(),
    task("sesame", "sesame"),
    task(1),
    task(None),
    task(["sesame"]),
    task({"sesame": 1}),
    task(""),
    task("sesame" * 100),
    task("sesame" * 1_000_000),
    task("sesame", more="sesame"),
    task(run_id="sesame"),
    PICKLE,
]
HEADERS: list[dict[str, Any]] = [
    {},
    {"task": None},
    {"task": "sesame", "id": "1"},
    {"task": "celery.backend_cleanup", "id": "1"},
    {"task": ["placet.start_run"], "id": "1"},
    {"task": {"placet.start_run": 1}, "id": "1"},
    START | {"compression": "sesame"},
    START | {"compression": ["gzip"]},
]


async def refused(worker: WorkerProcess, times: int) -> None:
    async def all_told() -> bool:
        assert worker.process.poll() is None, worker.log
        return worker.log.count("message.refused") >= times

    await wait_until(all_told)
    assert worker.log.count("message.refused") == times


async def goes_on(placet: Placet, worker: WorkerProcess) -> None:
    run = await placet.wait((await placet.enqueue("plain", human("go"))).id, timeout=PATIENCE)
    assert run.status == "success", run.error
    assert worker.process.poll() is None
    assert MARK not in worker.log


@on_both_brokers
async def test_messages_that_are_no_wake_ups(fleet: Fleet, placet: Placet, broker: Broker) -> None:
    (worker,) = await fleet.start()
    queue = fleet.settings.queue_names[0]
    for body in BODIES:
        broker.put(queue, body, START)
    for headers in HEADERS:
        broker.put(queue, task("sesame"), headers)
    broker.put(
        queue, pickle.dumps((("sesame",), {}, {})), START, content_type="application/x-python-serialize"
    )
    protocol_1 = {"task": "placet.start_run", "id": "1", "args": ["sesame"], "kwargs": {}}
    broker.put(queue, json.dumps(protocol_1).encode())
    broker.put(queue, zlib.compress(task("sesame")), START | {"compression": "gzip"})
    await refused(worker, len(BODIES) + len(HEADERS) + 3)
    await goes_on(placet, worker)
    assert broker.waiting(queue) == 0


@on_both_brokers
async def test_of_a_wake_up_only_the_run_id_counts(fleet: Fleet, placet: Placet, broker: Broker) -> None:
    """What else Celery would act on is not looked at."""
    (worker,) = await fleet.start()
    queue = fleet.settings.queue_names[0]
    signature = {"task": "placet.start_run", "args": ["sesame"], "kwargs": {}, "options": {}}
    embedded = {name: [signature] for name in ("callbacks", "errbacks", "chain")} | {"chord": signature}
    headers = START | {
        "id": "sesame",
        "eta": "2999-01-01T00:00:00",
        "expires": "sesame",
        "retries": "sesame",
        "timelimit": "sesame",
        "shadow": "sesame",
        "group": "sesame",
        "argsrepr": "sesame",
        "stamped_headers": ["sesame"],
    }
    broker.put(queue, json.dumps([["nobody"], {}, embedded]).encode(), headers, reply_to="sesame")

    async def executed() -> bool:
        return worker.log.count("run.missing") == 1

    await wait_until(executed)
    await goes_on(placet, worker)
    assert worker.log.count("run.missing") == 1
    assert worker.log.count("run.claimed") == 1
    assert "message.refused" not in worker.log
    assert broker.waiting(queue) == 0


@pytest.mark.parametrize("broker", ["redis"], indirect=True)
async def test_what_is_no_message_at_all(fleet: Fleet, placet: Placet, broker: Broker) -> None:
    """In Redis, anything may stand where kombu expects its envelope."""
    assert isinstance(broker, RedisBroker)
    (worker,) = await fleet.start()
    queue = fleet.settings.queue_names[0]
    properties: dict[str, Any] = {"body_encoding": "base64", "delivery_tag": "1", "delivery_info": {}}
    fine: dict[str, Any] = {
        "body": "W10=",
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": START,
        "properties": properties,
    }
    odd: dict[str, list[Any]] = {
        "body": ["sesame!", "é", 1, None, [], {}, {"__type__": "uuid", "__value__": "sesame"}],
        "headers": ["sesame", ["sesame"], 1],
        "properties": ["sesame", ["sesame"], 1, None, {}],
    }
    odd_properties: dict[str, list[Any]] = {
        "body_encoding": ["sesame", 1, [1]],
        "delivery_tag": [[1], {}],
        "delivery_info": ["sesame", [1], 1],
    }
    envelopes: list[Any] = [
        *(None, [], {}, 17, 1.5, "sesame", True, ["sesame"], {"sesame": 1}),
        {"__type__": "datetime", "__value__": "sesame"},
        fine | {"content-type": ["sesame"], "content-encoding": ["sesame"]},
        *(fine | {field: value} for field, values in odd.items() for value in values),
        *(
            fine | {"properties": properties | {field: value}}
            for field, values in odd_properties.items()
            for value in values
        ),
    ]
    raw = [b"", b"sesame", b"\xff\xfe", b"{", b"[" * 100_000, b"[1" + b",1" * 1_000_000]
    raw += [json.dumps(envelope).encode() for envelope in envelopes]
    for one in raw:
        broker.put_raw(queue, one)
    await refused(worker, len(raw))
    assert "Connection to broker lost" not in worker.log
    await goes_on(placet, worker)


@pytest.mark.parametrize("broker", ["redis"], indirect=True)
async def test_a_queue_that_is_none(fleet: Fleet, placet: Placet, broker: Broker, redis: Any) -> None:
    """A key of another kind stands where the queue is, until somebody takes it away."""
    assert isinstance(broker, RedisBroker)
    (worker,) = await fleet.start()
    queue = fleet.settings.queue_names[0]
    await redis.set(queue, MARK)

    async def told() -> bool:
        assert worker.process.poll() is None, worker.log
        return "Connection to broker lost" in worker.log

    await wait_until(told)
    await redis.delete(queue)
    await goes_on(placet, worker)


@pytest.mark.parametrize("broker", ["rabbitmq"], indirect=True)
async def test_what_the_client_library_cannot_read(fleet: Fleet, placet: Placet, broker: Broker) -> None:
    """RabbitMQ passes on what is no text; py-amqp fails at it, each of the few times that it is delivered."""
    (worker,) = await fleet.start()
    queue = fleet.settings.queue_names[0]
    for field in ("correlation_id", "reply_to"):
        broker.put(queue, task("sesame"), START, **{field: b"sesame\xff"})

    async def dropped() -> bool:
        assert worker.process.poll() is None, worker.log
        return bool(worker.log.count("Connection to broker lost") > RABBITMQ_QUEUE["x-delivery-limit"])

    await wait_until(dropped)
    await goes_on(placet, worker)
    worker.kill()
    (second,) = await fleet.start()
    await goes_on(placet, second)
    assert "message.refused" in worker.log
    assert "message.refused" not in second.log


@on_both_brokers
async def test_remote_control_is_not_listened_to(fleet: Fleet, placet: Placet, broker: Broker) -> None:
    """Celery's own commands from the broker: end, take no more messages, take no more of a task."""
    (worker,) = await fleet.start()

    def command() -> None:
        with make_app(fleet.settings) as app:
            app.control.broadcast("shutdown")
            app.control.cancel_consumer(fleet.settings.queue_names[0])
            app.control.rate_limit("placet.start_run", "0/m")
            assert app.control.ping(timeout=0.5) == []

    await asyncio.to_thread(command)
    await goes_on(placet, worker)
