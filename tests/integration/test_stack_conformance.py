"""langgraph-checkpoint-redis as Placet uses it passes LangGraph's suite; as it comes it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.checkpoint.conformance import checkpointer_test, validate
from redis.asyncio import Redis

from placet.checkpoint.serde import CheckpointSerde
from placet.checkpoint.stack import StackSaver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def test_conformance_with_every_capability_claimed(stack_url: str) -> None:
    @checkpointer_test(name="StackSaver")
    async def saver() -> AsyncIterator[StackSaver]:
        async with Redis.from_url(stack_url) as redis:
            await redis.flushall()
            yield await StackSaver.open(redis, serde=CheckpointSerde())

    report = await validate(saver)

    failures = {name: result.failures for name, result in report.results.items() if result.failures}
    assert failures == {}
    assert {name for name, result in report.results.items() if not result.detected} == {
        "copy_thread",
        "delete_for_runs",
    }
