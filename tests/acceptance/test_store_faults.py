"""The store misbehaves under running workers: runs end right afterwards, and what it lost is told."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from chaos.proxy import Proxy
from chaos.servers import Server

from fleet import PATIENCE, Fleet, human, paused, until_it_works, wait_until
from placet.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from placet import Placet, Run

LEASE = 2.0
APPROVE = {"type": "approve"}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Server]:
    """A server of this test alone, for it is stopped and starved."""
    made = Server(tmp_path / "server")
    await made.start()
    yield made
    await made.close()


@pytest.fixture
async def network(store: Server) -> AsyncIterator[Proxy]:
    """What lies between the workers and the server."""
    proxy = Proxy(store.port)
    await proxy.start()
    yield proxy
    await proxy.close()


@pytest.fixture
def fleet(network: Proxy, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(redis_url=f"redis://127.0.0.1:{network.port}/0", folder=tmp_path, lease_seconds=LEASE)
    yield made
    made.stop()


async def ended(placet: Placet, *runs: Run) -> None:
    for run in runs:
        last = await placet.wait(run.id, timeout=PATIENCE)
        assert last.status == "success", last.error


async def in_log(fleet: Fleet, *words: str) -> None:
    """Wait until a worker has said one of these."""

    async def found() -> bool:
        return any(one in worker.log for worker in fleet.workers for one in words)

    await wait_until(found)


async def test_a_frozen_store(store: Server, fleet: Fleet, placet: Placet) -> None:
    """It stands still for three leases, with a tool under way, a request open and a decision on its way."""
    await fleet.start(2)
    busy = await placet.enqueue("slow_tool", human("busy"))
    asking = await placet.enqueue("per_call", human("go"))
    pay, mail = await paused(placet, asking)
    await fleet.started("slow")
    store.signal(signal.SIGSTOP)
    deciding = asyncio.create_task(placet.decide(pay.id, APPROVE, reviewer="ann"))
    await in_log(fleet, "leases.not_renewed")
    await in_log(fleet, "run.left", "run.lost")
    store.signal(signal.SIGCONT)
    try:
        await deciding
    except StoreUnavailable:  # it may have been saved all the same; the second time says so
        await until_it_works(lambda: placet.decide(pay.id, APPROVE, reviewer="ann"))
    fleet.open_barrier("busy")
    await until_it_works(lambda: placet.decide(mail.id, APPROVE, reviewer="ann"))
    await ended(placet, busy, asking)
    assert len(fleet.effects("pay")) == len(fleet.effects("mail")) == 1


async def test_no_memory_left(store: Server, fleet: Fleet, placet: Placet) -> None:
    """`OOM command not allowed`: nothing is saved, callers are told, and all goes on when there is room."""
    await fleet.start(2)
    busy = await placet.enqueue("slow_tool", human("busy"))
    asking = await placet.enqueue("batched", human("go"))
    requests = await paused(placet, asking)
    await fleet.started("slow")
    await store.redis.config_set("maxmemory", "1")
    for call in (
        lambda: placet.enqueue("plain", human("go")),
        lambda: placet.decide(requests[0].id, APPROVE, reviewer="ann"),
        lambda: placet.cancel(asking.id),
    ):
        with pytest.raises(StoreUnavailable, match="memory"):
            await call()
    fleet.open_barrier("busy")
    await in_log(fleet, "used memory > 'maxmemory'")
    await store.redis.config_set("maxmemory", "0")
    assert {one.status for one in await placet.approvals(run_id=asking.id)} == {"pending"}
    await placet.decide_many({one.id: APPROVE for one in requests}, reviewer="ann")
    await ended(placet, busy, asking)
    assert all(worker.process.poll() is None for worker in fleet.workers)


async def test_a_worker_that_is_cut_off(network: Proxy, store: Server, tmp_path: Path) -> None:
    """One worker loses the store, another goes on with its run; what the first still does is refused."""
    cut_off = Fleet(redis_url=f"redis://127.0.0.1:{network.port}/0", folder=tmp_path, lease_seconds=LEASE)
    try:
        (first,) = await cut_off.start()
        other = store.url
        async with cut_off.connect() as placet:
            run = await placet.enqueue("slow_tool", human("busy"))
            await cut_off.started("slow")
        network.cut()
        (second,) = await cut_off.start(PLACET_REDIS_URL=other, PLACET_BROKER_URL=other)
        both = await cut_off.started("slow", 2)
        assert [effect.pid for effect in both] == [first.pid, second.pid]
        cut_off.open_barrier("busy")
        network.heal()
        async with cut_off.connect() as placet:
            await ended(placet, run)
            events = [event async for event in placet.stream(run.id)]
        taken_over = next(event.id for event in events if event.type == "run.recovered")
        assert {event.pid for event in events if event.id > taken_over} <= {second.pid, None}
        await in_log(cut_off, "run.left", "run.lost")
    finally:
        cut_off.stop()


async def test_a_slow_network(network: Proxy, fleet: Fleet, placet: Placet) -> None:
    """Every packet takes its time, both ways: nothing is asked or done twice."""
    network.delay_seconds = 0.05
    await fleet.start(2)
    runs = [await placet.enqueue("batched", human("go")) for _ in range(5)]
    for run in runs:
        asked = await paused(placet, run)
        await placet.decide_many({one.id: APPROVE for one in asked}, reviewer="ann")
    await ended(placet, *runs)
    names = [effect.name for effect in fleet.effects()]
    assert {name: names.count(name) for name in names} == {"pay": 5, "mail": 5, "look_up": 5}


@pytest.fixture
async def replica(store: Server, tmp_path: Path) -> AsyncIterator[tuple[Server, Proxy]]:
    """A replica of the server, and the network between them."""
    link = Proxy(store.port)
    await link.start()
    made = Server(tmp_path / "replica")
    try:
        await made.start()
        await made.redis.replicaof("127.0.0.1", link.port)
        await wait_until(lambda: carried(store, made))
        yield made, link
    finally:
        await made.close()
        await link.close()


async def carried(primary: Server, replica: Server) -> bool:
    """Whether the replica has all that the primary has."""
    written = (await primary.redis.info("replication"))["master_repl_offset"]
    info = await replica.redis.info("replication")
    return bool(info["master_link_status"] == "up" and info["slave_repl_offset"] >= written)


async def promote(replica: Server, network: Proxy) -> None:
    network.cut()
    await replica.redis.replicaof("NO", "ONE")
    network.upstream = replica.port
    network.heal()


async def test_failover(
    store: Server, replica: tuple[Server, Proxy], network: Proxy, fleet: Fleet, placet: Placet
) -> None:
    """The primary dies under its workers and a replica that had all of it takes its place."""
    await fleet.start(2)
    busy = await placet.enqueue("slow_tool", human("busy"))
    asking = [await placet.enqueue("batched", human("go")) for _ in range(10)]
    requests = [request for run in asking for request in await paused(placet, run)]
    await fleet.started("slow")
    for request in requests[:10]:
        await placet.decide(request.id, APPROVE, reviewer="ann")
    await wait_until(lambda: carried(store, replica[0]))
    await store.kill()
    await promote(replica[0], network)
    fleet.open_barrier("busy")
    pending = await until_it_works(placet.approvals)
    assert {one.id for one in pending} == {one.id for one in requests[10:]}
    for request in requests[10:]:
        await until_it_works(partial(placet.decide, request.id, APPROVE, reviewer="ann"))
    await ended(placet, busy, *asking)
    names = [effect.name for effect in fleet.effects()]
    assert {name: names.count(name) for name in ("pay", "mail")} == {"pay": 10, "mail": 10}


async def test_a_failover_that_loses_writes(
    store: Server, replica: tuple[Server, Proxy], network: Proxy, fleet: Fleet, placet: Placet
) -> None:
    """A decision that replication had not carried is asked again, and the loss is told by log and doctor."""
    await fleet.start(1)
    run = await placet.enqueue("gated_slow_tool", human("busy"))
    (request,) = await paused(placet, run)
    await wait_until(lambda: carried(store, replica[0]))
    replica[1].stall()
    replica[1].cut()
    await placet.decide(request.id, APPROVE, reviewer="ann")
    await fleet.started("slow")
    looked = await last_look(store, placet)

    async def looked_again() -> bool:
        return await last_look(store, placet) > looked

    await wait_until(looked_again)
    await store.kill()
    await promote(replica[0], network)
    await in_log(fleet, "store.writes_lost")
    await in_log(fleet, "run.left", "run.lost")
    (again,) = await until_it_works(placet.approvals)
    assert (again.id, again.status) == (request.id, "pending")
    assert len(fleet.effects("slow")) == 1
    fleet.open_barrier("busy")
    await until_it_works(lambda: placet.decide(request.id, APPROVE, reviewer="ann"))
    await ended(placet, run)
    checks = await doctor(fleet)
    assert checks["writes"]["status"] == "warn"
    assert "lost" in checks["writes"]["found"]


async def last_look(store: Server, placet: Placet) -> float:
    """When the only worker last said that it lives."""
    seen: list[Any] = await store.redis.zrange(placet._connection.keys("workers"), 0, -1, withscores=True)
    return float(seen[0][1])


async def doctor(fleet: Fleet) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "placet.cli",
        "doctor",
        "--json",
        env=fleet.env(),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    return {check["name"]: check for check in map(json.loads, out.decode().splitlines())}


async def test_the_broker_is_gone_while_a_decision_comes_in(
    store: Server, redis_url: str, tmp_path: Path
) -> None:
    """The decision is kept, the resume is sent once the broker is back, and happens once."""
    own = Fleet(redis_url=redis_url, folder=tmp_path, broker_url=store.url, lease_seconds=LEASE)
    try:
        await own.start(2)
        async with own.connect() as placet:
            runs = [await placet.enqueue("batched", human("go")) for _ in range(5)]
            requests = [request for run in runs for request in await paused(placet, run)]
            await store.kill()
            for request in requests:
                decided = await placet.decide(request.id, APPROVE, reviewer="ann")
                assert decided.status == "decided"
            assert {(await placet.get(run.id)).status for run in runs} == {"pending"}
            await store.start()
            await ended(placet, *runs)
        names = [effect.name for effect in own.effects()]
        assert {name: names.count(name) for name in names} == {"pay": 5, "mail": 5, "look_up": 5}
    finally:
        own.stop()


async def test_messages_late_and_out_of_order(fleet: Fleet, placet: Placet, store: Server) -> None:
    """Every message is lost first and comes, last one first, when all has ended: nothing happens then."""
    queue = fleet.settings.queue_names[0]
    runs = [await placet.enqueue("batched", human("go")) for _ in range(10)]

    async def sent() -> bool:
        return int(await store.redis.llen(queue)) == len(runs)

    await wait_until(sent)
    late = await store.redis.lrange(queue, 0, -1)
    await store.redis.delete(queue)
    await fleet.start(2)
    for run in runs:
        asked = await paused(placet, run)
        await placet.decide_many({one.id: APPROVE for one in asked}, reviewer="ann")
    await ended(placet, *runs)
    before = [await placet.get(run.id) for run in runs]
    await store.redis.lpush(queue, *reversed(late))

    async def taken() -> bool:
        return not await store.redis.llen(queue)

    await wait_until(taken)
    await ended(placet, await placet.enqueue("plain", human("go")))
    assert [await placet.get(run.id) for run in runs] == before
    assert len(fleet.effects("pay")) == len(runs)
