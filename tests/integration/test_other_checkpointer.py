"""Checkpointers that a deployment brings: `PLACET_CHECKPOINTER=package.module:factory`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import own_savers
import pytest
from core import open_core
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver

from placet.checkpoint import checkpointer
from placet.errors import InvalidSettings, NotFound
from placet.settings import Settings

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from redis.asyncio import Redis


def settings(factory: str) -> Settings:
    return Settings.from_env({}, checkpointer=f"own_savers:{factory}")


async def test_a_factory_that_gives_one(redis: Redis) -> None:
    own_savers.seen.clear()
    async with checkpointer(redis, settings("plain")) as saver:
        assert isinstance(saver, InMemorySaver)
    assert own_savers.seen == ["placet"]


async def test_a_factory_that_gives_a_context_manager(redis: Redis) -> None:
    own_savers.seen.clear()
    async with checkpointer(redis, settings("connected")) as saver:
        assert isinstance(saver, InMemorySaver)
        assert own_savers.seen == ["opened"]
    assert own_savers.seen == ["opened", "closed"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("own_savers:nothing", "own_savers:nothing gave a dict, no checkpointer"),
        ("own_savers:broken", "own_savers:broken: ConnectionError: no server"),
        ("own_savers:missing", "own_savers:missing: AttributeError: module 'own_savers' has no .*"),
        ("not.there:at_all", "not.there:at_all: ModuleNotFoundError: No module named 'not'"),
    ],
)
async def test_what_cannot_be_used_is_one_line(redis: Redis, name: str, why: str) -> None:
    with pytest.raises(InvalidSettings, match=f"^PLACET_CHECKPOINTER: {why}$"):
        async with checkpointer(redis, Settings.from_env({}, checkpointer=name)):
            pass


async def test_a_client_reads_and_deletes_there(stack_url: str) -> None:
    config: RunnableConfig = {"configurable": {"thread_id": "t1", "checkpoint_ns": ""}}
    async with open_core(stack_url, checkpointer="langgraph-redis") as core:
        await core.enqueue()
        async with checkpointer(core.connection.reader, core.connection.settings) as saver:
            checkpoint = {**empty_checkpoint(), "channel_values": {"x": 1}, "channel_versions": {"x": "1"}}
            await saver.aput(config, checkpoint, {"run_id": "r1"}, {"x": "1"})  # type: ignore[arg-type]
            state = await core.placet.state("t1")
            assert (state["values"], state["run_id"]) == ({"x": 1}, "r1")
            await core.placet.delete_thread("t1")
            assert await saver.aget_tuple(config) is None
            await core.placet.delete_thread("t1")  # again, for what a segment under way may have left
        with pytest.raises(NotFound):
            await core.placet.state("t1")
