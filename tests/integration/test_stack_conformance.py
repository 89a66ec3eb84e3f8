"""Where langgraph-checkpoint-redis departs from LangGraph's suite, named one by one in docs/checkpointers.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.checkpoint.conformance import checkpointer_test, validate
from redis.asyncio import Redis

from placet.checkpoint.serde import CheckpointSerde
from placet.checkpoint.stack import StackSaver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

KNOWN = set()


async def test_conformance_but_for_what_is_known(stack_url: str) -> None:
    @checkpointer_test(name="StackSaver")
    async def saver() -> AsyncIterator[StackSaver]:
        async with Redis.from_url(stack_url) as redis:
            await redis.flushall()
            yield await StackSaver.open(redis, serde=CheckpointSerde())

    report = await validate(saver)

    failures = {name: result.failures for name, result in report.results.items() if result.failures}
    assert failures == {}
