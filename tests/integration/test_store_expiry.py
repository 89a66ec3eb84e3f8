from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langgraph.store.base import PutOp

from placet.checkpoint.store import RedisStore

if TYPE_CHECKING:
    from redis.asyncio import Redis

USER = ("users", "ann")
EXPIRIES = "{placet}:store:expiries"
MINUTE = 60_000_000


async def left(redis: Redis, key: str = "a") -> float | None:
    """Minutes that an item has yet to live."""
    expiry = await redis.zscore(EXPIRIES, f"10:users\0ann\0{key}")
    time: Any = await redis.time()
    seconds, micro = time
    return None if expiry is None else (expiry - seconds * 1_000_000 - micro) / MINUTE


async def pass_time(redis: Redis, minutes: float) -> None:
    """Let every item be that much nearer to its end."""
    members: Any = await redis.zrange(EXPIRIES, 0, -1)
    for member in members:
        await redis.zincrby(EXPIRIES, -minutes * MINUTE, member)


async def test_an_item_expires(redis: Redis) -> None:
    store = RedisStore(redis)
    await store.aput(USER, "a", {"n": 1}, ttl=10)
    await store.aput(USER, "kept", {"n": 1})
    await store.aput(("other",), "a", {}, ttl=10)
    await pass_time(redis, 9)
    assert len(await store.asearch((), refresh_ttl=False)) == 3
    await pass_time(redis, 1.1)
    assert await store.aget(USER, "a") is None
    assert [item.key for item in await store.asearch((), filter={"n": 1})] == ["kept"]
    assert await store.alist_namespaces() == [USER]
    assert sorted(await redis.keys("*store*")) == [
        b"{placet}:store-items:users\0ann\0",
        b"{placet}:store-order:users\0ann\0",
        b"{placet}:store:namespaces",
        b"{placet}:store:sequence",
    ]


async def test_reads_renew_a_ttl_unless_told_otherwise(redis: Redis) -> None:
    store = RedisStore(redis)
    await store.aput(USER, "a", {"n": 1}, ttl=10)
    for read in (
        lambda again: store.aget(USER, "a", refresh_ttl=again),
        lambda again: store.asearch(USER, refresh_ttl=again),
        lambda again: store.asearch(USER, filter={"n": 1}, refresh_ttl=again),
    ):
        await pass_time(redis, 5)
        await read(False)
        assert 4 < (await left(redis) or 0) <= 5
        await read(None)
        assert 9 < (await left(redis) or 0) <= 10


async def test_a_search_renews_what_it_returns_alone(redis: Redis) -> None:
    store = RedisStore(redis)
    await store.abatch([PutOp(USER, key, {"n": 1}, ttl=10) for key in "abc"])
    await pass_time(redis, 5)
    await store.asearch(USER, limit=1, offset=1)
    await store.asearch(USER, limit=1, offset=2, filter={"n": 1})
    assert [round(await left(redis, key) or 0) for key in "abc"] == [5, 10, 10]


async def test_the_stores_own_ttl(redis: Redis) -> None:
    store = RedisStore(redis, ttl={"default_ttl": 10, "refresh_on_read": False})
    await store.aput(USER, "a", {})
    await pass_time(redis, 5)
    await store.aget(USER, "a")
    assert 4 < (await left(redis) or 0) <= 5
    await store.aput(USER, "a", {}, ttl=20)
    assert 19 < (await left(redis) or 0) <= 20
    await store.aput(USER, "a", {}, ttl=None)
    assert await left(redis) is None


async def test_thousands_that_expire_at_once_are_never_seen(redis: Redis) -> None:
    store = RedisStore(redis)
    await store.abatch([PutOp(USER, f"k{n}", {"n": n}, ttl=10) for n in range(5_500)])
    await store.aput(USER, "kept", {"n": -1})
    members: Any = await redis.zrange(EXPIRIES, 0, -1)
    await redis.zadd(EXPIRIES, dict.fromkeys(members, 1))
    assert [item.key for item in await store.asearch(USER)] == ["kept"]
    assert await redis.zcard(EXPIRIES) == 0


async def test_ttls_at_the_edges(redis: Redis) -> None:
    store = RedisStore(redis)
    await store.abatch([PutOp(USER, key, {}, ttl=ttl) for key, ttl in (("a", 0), ("b", -1), ("c", 1e300))])
    assert [item.key for item in await store.asearch(USER)] == ["c"]
