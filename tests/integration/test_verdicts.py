from __future__ import annotations

import pytest

from placet.middleware import InMemorySharedState, RedisSharedState, SharedState


async def check(shared: SharedState) -> None:
    assert await shared.verdict("r", "a") is None
    assert await shared.keep_verdict("r", "a", "yes") == "yes"
    assert await shared.keep_verdict("r", "a", "no") == "yes"
    assert await shared.verdict("r", "a") == "yes"
    assert await shared.verdict("r", "b") is None
    assert await shared.verdict("s", "a") is None


@pytest.mark.parametrize("where", ["memory", "redis"])
async def test_the_first_verdict_stands(where: str, redis_url: str) -> None:
    if where == "memory":
        await check(InMemorySharedState())
        return
    async with RedisSharedState.open(redis_url) as shared, RedisSharedState.open(redis_url) as other:
        await check(shared)
        assert await other.verdict("r", "a") == "yes"
        await other.forget_failures("r")
        assert await shared.verdict("r", "a") == "yes"
