"""What others do between a commit in the store and its reply in the worker, or while the store is away."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from core import open_core

from fleet import wait_until
from placet.agents.graphs import Agents
from placet.checkpoint import checkpointer
from placet.dispatch import Dispatcher
from placet.errors import StoreUnavailable
from placet.execution.engine import Engine
from placet.execution.event_writer import EventWriter
from placet.state.leases import Leases

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from core import Core

REFUND = {"messages": [{"role": "user", "content": "Refund it"}]}


class LateLeases(Leases):
    """Commits at once, and holds the reply back until it is let go."""

    def __init__(self, core: Core) -> None:
        super().__init__(core.connection, owner="late")
        self.committed, self.let_go = asyncio.Event(), asyncio.Event()

    async def pause(self, *args: Any, **kwargs: Any) -> Any:
        return await self._late(await super().pause(*args, **kwargs))

    async def append(self, *args: Any, **kwargs: Any) -> None:
        await super().append(*args, **kwargs)
        await self._late(None)

    async def _late(self, reply: Any) -> Any:
        self.committed.set()
        await self.let_go.wait()
        return reply


class AwayLeases(Leases):
    """A worker's, that cannot reach the store for a while; others can."""

    def __init__(self, core: Core) -> None:
        super().__init__(core.connection, owner="cut off")
        self.away = False

    async def append(self, *args: Any, **kwargs: Any) -> None:
        await self._reach()
        await super().append(*args, **kwargs)

    async def renew(self, *args: Any) -> Any:
        await self._reach()
        return await super().renew(*args)

    async def give_back(self, *args: Any, **kwargs: Any) -> Any:
        await self._reach()
        return await super().give_back(*args, **kwargs)

    async def _reach(self) -> None:
        if self.away:
            raise StoreUnavailable("away")


@asynccontextmanager
async def working(core: Core, leases: Leases) -> AsyncIterator[Engine]:
    """An engine with the demo's agent."""
    settings = core.connection.settings
    async with checkpointer(core.connection.reader, settings) as saver:
        agents = await Agents.load(settings, checkpointer=saver)
        dispatcher = Dispatcher(settings=settings)
        yield Engine(
            agents=agents, leases=leases, approvals=core.approvals, dispatcher=dispatcher, settings=settings
        )
        await dispatcher.aclose()


@pytest.mark.parametrize("taken_over", [False, True])
async def test_a_worker_that_could_not_reach_the_store_did_not_die(
    redis_url: str, tmp_path: Path, *, taken_over: bool
) -> None:
    config = demo(tmp_path)
    async with open_core(redis_url, config=str(config), lease_seconds=0.3) as core:
        leases = AwayLeases(core)
        async with working(core, leases) as engine:
            leases.away = True
            run = await core.placet.enqueue("support", REFUND)
            assert await engine.execute(run.id) == "lease lost"
            if taken_over:
                await core.expire_lease(run.thread_id)
                assert [one.run_id for one in await core.look()] == [run.id]
            keeping = asyncio.create_task(engine.keep_leases())
            leases.away = False

            async def made_good() -> bool:
                now = await core.placet.get(run.id)
                return (now.deaths, now.attempt, now.status) == (0, 0, "pending")

            await wait_until(made_good)
            keeping.cancel()
            assert await core.outbox() == [run.id]
            assert await engine.execute(run.id) == "interrupted"


def demo(folder: Path) -> Path:
    config = folder / "langgraph.json"
    config.write_text(json.dumps({"graphs": {"support": "placet.dev.demo_agent:agent"}}))
    return config


async def test_an_answer_overtakes_the_reply_of_the_pause(redis_url: str, tmp_path: Path) -> None:
    """Its wake-up waits for the segment's end; dropped, it would be sent again seconds later."""
    async with open_core(redis_url, config=str(demo(tmp_path))) as core:
        leases = LateLeases(core)
        leases.append = core.leases.append  # type: ignore[method-assign]
        async with working(core, leases) as engine:
            run = await core.placet.enqueue("support", REFUND)
            first = asyncio.create_task(engine.execute(run.id))
            await leases.committed.wait()
            [approval] = await core.placet.approvals(run_id=run.id)
            await core.placet.decide(approval.id, {"type": "approve"}, reviewer="alice")
            second = asyncio.create_task(engine.execute(run.id))
            await asyncio.sleep(0)
            leases.let_go.set()
            assert (await first, await second) == ("interrupted", "success")


async def test_progress_during_a_write_is_told_by_the_next(core: Core) -> None:
    await core.enqueue()
    claim = await core.claim()
    leases = LateLeases(core)
    async with EventWriter(claim=claim, leases=leases) as events:
        events.add("custom", (), 1)
        await leases.committed.wait()
        events.progressed()
        leases.let_go.set()
    assert await core.redis.hget(core.connection.keys("run", "r1"), "progressed") == b"1"
    await core.finish(claim)


async def test_events_of_a_moment_are_one_write(core: Core) -> None:
    await core.enqueue()
    claim = await core.claim()
    async with EventWriter(claim=claim, leases=core.leases) as events:
        for number in range(20):
            events.add("custom", (), number)
            await asyncio.sleep(0)
    batch = await core.redis.hget(core.connection.keys("run", "r1"), "batch")
    assert batch == f"{claim.token}-1".encode()
    assert [data for kind, data in await core.told() if kind == "custom"] == list(range(20))
    await core.finish(claim)
