"""What others do between a commit in the store and its reply in the worker."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from core import open_core

from placet.checkpoint import checkpointer
from placet.dispatch import Dispatcher
from placet.engine import Engine
from placet.event_writer import EventWriter
from placet.graphs import Agents
from placet.state.leases import Leases

if TYPE_CHECKING:
    from pathlib import Path

    from core import Core


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


async def test_an_answer_overtakes_the_reply_of_the_pause(redis_url: str, tmp_path: Path) -> None:
    """Its wake-up waits for the segment's end; dropped, it would be sent again seconds later."""
    config = tmp_path / "langgraph.json"
    config.write_text(json.dumps({"graphs": {"support": "placet.demo_agent:agent"}}))
    async with AsyncExitStack() as stack, open_core(redis_url, config=str(config)) as core:
        settings = core.connection.settings
        leases = LateLeases(core)
        saver = await stack.enter_async_context(checkpointer(core.connection.reader, settings))
        agents = await Agents.load(settings, checkpointer=saver)
        engine = Engine(
            agents=agents,
            leases=leases,
            approvals=core.approvals,
            dispatcher=Dispatcher(settings=settings),
            settings=settings,
        )
        leases.append = core.leases.append  # type: ignore[method-assign]
        run = await core.placet.enqueue("support", {"messages": [{"role": "user", "content": "Refund it"}]})
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
