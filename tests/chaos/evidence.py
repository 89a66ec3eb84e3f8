"""All that is known when it is quiet: the witness's file, Placet's records, and the threads themselves."""

from __future__ import annotations

import asyncio
import json
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING

from consistency import check_consistency

from placet.checkpoint import checkpointer
from placet.state.events import event_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig

    from placet import Approval, Placet, Run
    from placet.state.events import Event

    from .plan import Plan
    from .witness import Effect, FaultSeen, Reply
    from .world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """A thread as its checkpoints tell: parents by id, and the newest messages."""

    parents: Mapping[str, str | None]
    """Of every checkpoint."""
    newest: str
    messages: Sequence[BaseMessage]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the checker reads."""

    plan: Plan
    runs: Mapping[str, Run]
    approvals: Mapping[str, Approval]
    events: Mapping[str, Sequence[Event]]
    """By run, in order."""
    threads: Mapping[str, Thread]
    effects: Sequence[Effect]
    replies: Sequence[Reply]
    faults: Sequence[FaultSeen]
    active: int
    """Segments that the workers say they execute."""
    raised: Sequence[str]
    """Lines of the workers' logs in which Celery tells of an exception."""
    disagreement: str
    """What `check_consistency` found, empty if nothing."""

    def effects_of(self, key: str, what: str) -> list[Effect]:
        """Rows of one call, in order."""
        return [one for one in self.effects if one.key == key and one.what == what]


async def gather(plan: Plan, world: World, placet: Placet) -> Evidence:
    """Read everything."""
    runs = {run.id: run for run in await placet.runs(limit=1_000_000)}
    approvals = await placet.approvals(status=None, limit=1_000_000)
    witness = world.witness
    return Evidence(
        plan=plan,
        runs=runs,
        approvals={approval.id: approval for approval in approvals},
        events={run: await _events(placet, run) for run in runs},
        threads=await _threads(placet, {run.thread_id for run in runs.values()}),
        effects=await asyncio.to_thread(witness.effects),
        replies=await asyncio.to_thread(witness.replies),
        faults=await asyncio.to_thread(witness.faults),
        raised=[line for worker in world.workers for line in worker.log() if "raised unexpected" in line],
        active=await _active(placet),
        disagreement=await _disagreement(world),
    )


async def _events(placet: Placet, run_id: str) -> list[Event]:
    connection = placet._connection
    found = await connection.read(connection.reader.xrange(connection.keys("run_events", run_id)))
    return [event_of(run_id, position, fields) for position, fields in found]


async def _threads(placet: Placet, ids: set[str]) -> dict[str, Thread]:
    connection = placet._connection
    found = {}
    async with checkpointer(connection.reader, connection.settings, others_as_data=True) as saver:
        for thread_id in ids:
            config: RunnableConfig = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
            every = [saved async for saved in saver.alist(config)]
            if not every:
                continue
            parents = {
                _id(saved.config): _id(saved.parent_config) if saved.parent_config else None
                for saved in every
            }
            newest = every[0].checkpoint
            messages = newest["channel_values"].get("messages", [])
            found[thread_id] = Thread(parents=parents, newest=newest["id"], messages=messages)
    return found


def _id(config: RunnableConfig) -> str:
    return str(config["configurable"]["checkpoint_id"])


async def _active(placet: Placet) -> int:
    """Ask the workers' own facts until none is busy, for some looks of their reconcilers at most."""
    connection = placet._connection
    active = 0
    for _ in range(20):
        seconds, _micro = await connection.read(connection.reader.time())
        alive = connection.reader.zrangebyscore(connection.keys("workers"), (seconds - 3) * 1000, "+inf")
        facts = [
            json.loads(
                await connection.read(
                    connection.reader.hget(connection.keys("worker", name.decode()), "facts")
                )
                or "{}"
            )
            for name in await connection.read(alive)
        ]
        active = sum(one.get("active", 0) for one in facts)
        if not active:
            break
        await asyncio.sleep(0.2)
    return active


async def _disagreement(world: World) -> str:
    try:
        await check_consistency(world.store.redis, world.settings.namespace)
    except AssertionError as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        return f"{at.name}: {at.line}: {error}"
    return ""
