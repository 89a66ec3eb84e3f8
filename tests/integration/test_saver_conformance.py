from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.checkpoint.conformance import checkpointer_test, validate

from placet.checkpoint.saver import RedisSaver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from redis.asyncio import Redis


async def test_conformance_whole(redis: Redis) -> None:
    @checkpointer_test(name="RedisSaver")
    async def saver() -> AsyncIterator[RedisSaver]:
        yield RedisSaver(redis)

    report = await validate(saver)

    failures = {name: result.failures for name, result in report.results.items() if result.failures}
    assert failures == {}
    assert len(report.results) == 8
    assert all(result.detected and result.passed for result in report.results.values())


async def test_conformance_encrypted(redis: Redis) -> None:
    @checkpointer_test(name="RedisSaver encrypted")
    async def saver() -> AsyncIterator[RedisSaver]:
        yield RedisSaver(redis, encryption_key="k" * 32)

    report = await validate(saver)

    assert {n: r.failures for n, r in report.results.items() if not r.passed} == {}
