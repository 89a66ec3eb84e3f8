"""What breaks: one function a kind, each ends when what it broke works again."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from placet.state.keys import Keys

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from .plan import PlannedFault
    from .servers import Server
    from .world import Process, World

_STOLEN_BY = 3
"""Connections that take messages from the workers' queue, beside the workers themselves."""
_REPEATS = 10
_BUSIEST = 0.8
"""Share of the faults of workers that meet the busiest one."""


async def inject(world: World, fault: PlannedFault) -> None:
    """Do it, and tell the witness."""
    began = time.time()
    pid, detail = await _KINDS[fault.kind](world, fault)
    await asyncio.to_thread(world.witness.fault, fault.kind, began, pid=pid, detail=detail)


def _one(processes: Sequence[Process], fault: PlannedFault) -> Process:
    return processes[int(fault.pick * len(processes))]


async def _worker(world: World, fault: PlannedFault) -> Process:
    """Mostly the worker that holds most runs just now."""
    held: Counter[int] = Counter()
    if fault.pick < _BUSIEST:
        with suppress(RedisError, OSError, TimeoutError):
            async with asyncio.timeout(0.5):
                held = await _holders(world)
    pid = held.most_common(1)[0][0] if held else 0
    return next((one for one in world.workers if one.pid == pid), _one(world.workers, fault))


async def _holders(world: World) -> Counter[int]:
    """How many leases each process holds."""
    keys, redis = Keys(world.settings.namespace), world.store.redis
    pipeline = redis.pipeline(transaction=False)
    threads: Any = await redis.zrange(keys("leases"), 0, -1)
    for thread in threads:
        pipeline.hget(keys("lease", thread.decode()), "owner")
    return Counter(int(owner.decode().rpartition(":")[2]) for owner in await pipeline.execute() if owner)


async def _kill_worker(world: World, fault: PlannedFault) -> tuple[int, str]:
    return await _kill(await _worker(world, fault))


async def _kill_decider(world: World, fault: PlannedFault) -> tuple[int, str]:
    return await _kill(_one(world.deciders, fault))


async def _kill(process: Process) -> tuple[int, str]:
    child = process.child
    assert child is not None
    child.signal(signal.SIGKILL)
    await child.wait()
    await process.start(instead_of=child)
    await _ready(process)
    return child.pid, process.name


async def _ready(process: Process) -> None:
    """Wait until it takes work, or another fault has met it."""
    with suppress(RuntimeError):
        await process.ready()


async def _stop_worker(world: World, fault: PlannedFault) -> tuple[int, str]:
    worker = await _worker(world, fault)
    child = worker.child
    assert child is not None
    child.signal(signal.SIGSTOP)
    await asyncio.sleep(fault.seconds)
    child.signal(signal.SIGCONT)
    return child.pid, worker.name


async def _end_worker(world: World, fault: PlannedFault) -> tuple[int, str]:
    """A rolling restart: SIGTERM, and another starts in its place once it has ended."""
    worker = await _worker(world, fault)
    child = worker.child
    assert child is not None
    await child.stop(grace_seconds=40)
    await worker.start(instead_of=child)
    await _ready(worker)
    return child.pid, worker.name


async def _cut_worker(world: World, fault: PlannedFault) -> tuple[int, str]:
    worker = await _worker(world, fault)
    pid, proxy = worker.pid, world.proxies[world.workers.index(worker)]
    proxy.cut()
    await asyncio.sleep(fault.seconds)
    proxy.heal()
    return pid, worker.name


async def _stall_worker(world: World, fault: PlannedFault) -> tuple[int, str]:
    worker = await _worker(world, fault)
    pid, proxy = worker.pid, world.proxies[world.workers.index(worker)]
    proxy.stall()
    await asyncio.sleep(fault.seconds)
    proxy.heal()
    return pid, worker.name


async def _cut_connections(world: World, fault: PlannedFault) -> tuple[int, str]:
    for server in (world.store, world.broker):
        async with server.lock:
            await server.redis.client_kill_filter(_type="normal", skipme=True)
    return 0, "store and broker"


async def _kill_store(world: World, fault: PlannedFault) -> tuple[int, str]:
    return await _killed(world.store, min(fault.seconds, 1.5))


async def _kill_broker(world: World, fault: PlannedFault) -> tuple[int, str]:
    return await _killed(world.broker, fault.seconds)


async def _killed(server: Server, seconds: float) -> tuple[int, str]:
    async with server.lock:
        await server.kill()
        await asyncio.sleep(seconds)
        await server.start()
    return 0, f"away for {seconds:.1f} s"


async def _pause_store(world: World, fault: PlannedFault) -> tuple[int, str]:
    return await _stopped(world.store, fault.seconds * 2)  # some are longer than a lease


async def _pause_broker(world: World, fault: PlannedFault) -> tuple[int, str]:
    return await _stopped(world.broker, fault.seconds * 2)


async def _stopped(server: Server, seconds: float) -> tuple[int, str]:
    async with server.lock:
        server.signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        server.signal(signal.SIGCONT)
    return 0, f"stopped for {seconds:.1f} s"


async def _hold_store(world: World, fault: PlannedFault) -> tuple[int, str]:
    """The server holds all commands back, and does them then."""
    async with world.store.lock:
        await world.store.redis.client_pause(int(fault.seconds * 1000), all=True)
        await asyncio.sleep(fault.seconds)
    return 0, f"held for {fault.seconds:.1f} s"


async def _fill_store(world: World, fault: PlannedFault) -> tuple[int, str]:
    """Writes are refused: OOM command not allowed."""
    async with world.store.lock:
        await world.store.redis.config_set("maxmemory", "1mb")
        await asyncio.sleep(fault.seconds)
        await world.store.redis.config_set("maxmemory", "0")
    return 0, f"full for {fault.seconds:.1f} s"


async def _flush_scripts(world: World, fault: PlannedFault) -> tuple[int, str]:
    async with world.store.lock:
        await world.store.redis.script_flush()
    return 0, ""


async def _drop_messages(world: World, fault: PlannedFault) -> tuple[int, str]:
    async def drop(message: Any) -> None:
        pass

    return 0, f"{await _steal(world, fault.seconds, drop)} dropped"


async def _repeat_messages(world: World, fault: PlannedFault) -> tuple[int, str]:
    async def repeat(message: Any) -> None:
        await world.broker.redis.lpush(world.queue, *[message] * _REPEATS)

    return 0, f"{await _steal(world, fault.seconds, repeat, most=50)} repeated"


async def _delay_messages(world: World, fault: PlannedFault) -> tuple[int, str]:
    """Come late, and in another order."""
    kept: list[Any] = []

    async def keep(message: Any) -> None:
        kept.append(message)

    await _steal(world, fault.seconds, keep)
    await asyncio.sleep(fault.seconds)
    random.Random(fault.pick).shuffle(kept)  # noqa: S311 - it has to come out the same again
    try:
        if kept:
            await world.broker.redis.lpush(world.queue, *kept)
    except (RedisError, OSError):  # another fault has ended the broker meanwhile
        return 0, f"{len(kept)} lost with the broker"
    return 0, f"{len(kept)} delayed"


async def _steal(
    world: World, seconds: float, treat: Callable[[Any], Awaitable[None]], *, most: int = 10_000
) -> int:
    """Take messages from the queue in competition with the workers; returns how many."""
    until = time.monotonic() + seconds
    taken = 0

    async def thief() -> None:
        nonlocal taken
        async with Redis.from_url(world.broker.url) as redis:
            while time.monotonic() < until and taken < most:
                with suppress(RedisError, OSError):
                    if found := await redis.brpop([world.queue], timeout=0.2):
                        taken += 1
                        await treat(found[1])

    await asyncio.gather(*(thief() for _ in range(_STOLEN_BY)))
    return taken


_KINDS: dict[str, Callable[[World, PlannedFault], Awaitable[tuple[int, str]]]] = {
    "kill_worker": _kill_worker,
    "stop_worker": _stop_worker,
    "end_worker": _end_worker,
    "cut_worker": _cut_worker,
    "stall_worker": _stall_worker,
    "cut_connections": _cut_connections,
    "kill_store": _kill_store,
    "pause_store": _pause_store,
    "hold_store": _hold_store,
    "fill_store": _fill_store,
    "flush_scripts": _flush_scripts,
    "kill_broker": _kill_broker,
    "pause_broker": _pause_broker,
    "drop_messages": _drop_messages,
    "repeat_messages": _repeat_messages,
    "delay_messages": _delay_messages,
    "kill_decider": _kill_decider,
}
