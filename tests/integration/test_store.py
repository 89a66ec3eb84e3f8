from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from redis.asyncio import Redis

from placet.checkpoint.store import RedisStore
from placet.errors import InvalidSettings, StoreUnavailable, UnreadableCheckpoint, UnstorableType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langgraph.store.base import Item

USER = ("users", "ann")
ODD = [
    ("h4fs", "q"),
    ("h4fs-x",),
    ("日本語", "🚀"),
    ("a{b}", "{}", "[x]*?"),
    ("two\nlines", " ", "\t"),
    ("a:b", "a"),
    ("a", "b:a"),
    ("\x1f", "\x01", "\uffff"),
    ("\ud800",),
    ("x" * 5000,),
]


@pytest.fixture
async def store(redis: Redis) -> RedisStore:
    return RedisStore(redis)


def names(items: Sequence[Item]) -> list[str]:
    return [item.key for item in items]


async def test_put_get_update_delete(store: RedisStore) -> None:
    assert await store.aget(USER, "food") is None
    before = datetime.now(UTC) - timedelta(seconds=5)
    await store.aput(USER, "food", {"likes": "pizza"})
    first = await store.aget(USER, "food")
    assert first is not None
    assert (first.namespace, first.key, first.value) == (USER, "food", {"likes": "pizza"})
    assert before < first.created_at == first.updated_at < before + timedelta(seconds=10)
    await store.aput(USER, "food", {"likes": "soup"})
    second = await store.aget(USER, "food")
    assert second is not None
    assert second.value == {"likes": "soup"}
    assert second.created_at == first.created_at < second.updated_at
    await store.adelete(USER, "food")
    await store.adelete(USER, "food")
    assert await store.aget(USER, "food") is None


async def test_nothing_is_left_when_all_is_deleted(store: RedisStore, redis: Redis) -> None:
    await store.aput(USER, "a", {}, ttl=1)
    await store.aput(("users",), "a", {})
    await store.adelete(USER, "a")
    assert await store.alist_namespaces() == [("users",)]
    await store.adelete(("users",), "a")
    assert await redis.keys() == [b"{placet}:store:sequence"]


@pytest.mark.parametrize("namespace", ODD)
async def test_any_namespace_and_key(store: RedisStore, namespace: tuple[str, ...]) -> None:
    for key in ("", "a.b", "{x}", "日本", "new\nline", "\0", *namespace):
        await store.aput(namespace, key, {"key": key, "text": "日本語 🚀\0"})
        item = await store.aget(namespace, key)
        assert item is not None
        assert (item.namespace, item.key) == (namespace, key)
        assert item.value["text"] == "日本語 🚀\0"
    assert [item.namespace for item in await store.asearch(namespace, limit=1)] == [namespace]
    assert await store.asearch((namespace[0] + "x",)) == []
    assert await store.asearch((namespace[0][:-1] or "other",)) == []
    assert await store.alist_namespaces() == [namespace]
    assert await store.alist_namespaces(prefix=namespace, suffix=namespace) == [namespace]


async def test_namespaces_that_langgraph_refuses(store: RedisStore) -> None:
    for namespace in [(), ("a", ""), ("a.b",), ("langgraph",), ("a\0b",)]:
        with pytest.raises(InvalidNamespaceError):
            await store.aput(namespace, "k", {})
    await store.abatch([PutOp(("a.b", ""), "k", {"n": 1}), PutOp((), "k", {"n": 2})])
    got = await store.abatch([GetOp(("a.b", ""), "k"), GetOp((), "k"), GetOp(("a", "b"), "k")])
    assert [item and item.value for item in got] == [{"n": 1}, {"n": 2}, None]  # type: ignore[union-attr]
    assert await store.alist_namespaces() == [(), ("a.b", "")]
    for label in ("a\0b", 7):
        with pytest.raises(InvalidNamespaceError):
            await store.abatch([GetOp((label,), "k")])  # type: ignore[arg-type]


async def test_search_pages_over_namespaces(store: RedisStore) -> None:
    puts = [PutOp(("docs", f"{n % 7}"), f"k{n:02}", {"n": n}) for n in range(50)]
    await store.abatch([*puts, PutOp(("docsx",), "no", {}), PutOp(("doc",), "no", {})])
    every = await store.asearch(("docs",), limit=100)
    assert [item.value["n"] for item in every] == sorted(range(50), key=lambda n: (n % 7, n))
    pages = [await store.asearch(("docs",), limit=8, offset=offset) for offset in range(0, 64, 8)]
    assert [len(page) for page in pages] == [8, 8, 8, 8, 8, 8, 2, 0]
    assert [item for page in pages for item in page] == every
    assert len(await store.asearch((), limit=100)) == 52
    assert await store.asearch(("docs",), limit=0) == []
    # a query without an index does nothing, as in LangGraph's own stores
    assert await store.asearch(("docs",), query="n", limit=100) == every


async def test_an_update_keeps_its_place(store: RedisStore) -> None:
    for key in "cab":
        await store.aput(USER, key, {})
    await store.aput(USER, "c", {"again": True})
    assert names(await store.asearch(USER)) == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"kind": "fruit"}, "ab"),
        ({"kind": {"$eq": "fruit"}}, "ab"),
        ({"kind": {"$ne": "fruit"}}, "cd"),
        ({"price": {"$gt": 2}}, "bc"),
        ({"price": {"$gte": 2, "$lt": 3}}, "a"),
        ({"price": {"$lte": 2}}, "a"),
        ({"price": {"$gt": "2.5"}}, "bc"),
        ({"day": {"$gte": "2026-02-01"}}, "bc"),
        ({"origin": {"land": "ES"}}, "a"),
        ({"origin": {"land": {"$ne": "ES"}}}, "b"),
        ({"tags": ["x", "y"]}, "a"),
        ({"tags": ["x"]}, ""),
        ({"missing": None}, "abcd"),
        ({"kind": "fruit", "price": 3}, "b"),
        ({}, "abcd"),
    ],
)
async def test_filters(store: RedisStore, wanted: dict[str, Any], expected: str) -> None:
    origins = {"a": {"land": "ES"}, "b": {"land": "FR"}}
    items: dict[str, dict[str, Any]] = {
        "a": {"kind": "fruit", "price": 2, "tags": ["x", "y"], "day": "2026-01-31"},
        "b": {"kind": "fruit", "price": 3, "day": "2026-02-01"},
        "c": {"kind": "root", "price": 4.5, "day": "2026-03-01"},
        "d": {"kind": None, "price": ["dear"]},
    }
    for key, value in items.items():
        await store.aput(USER, key, value | ({"origin": origins[key]} if key in origins else {}))
    assert "".join(names(await store.asearch(USER, filter=wanted))) == expected


async def test_an_unknown_operator_is_refused(store: RedisStore) -> None:
    await store.aput(USER, "a", {"n": 1})
    with pytest.raises(ValueError, match=r"Unsupported operator: \$in"):
        await store.asearch(USER, filter={"n": {"$in": [1]}})


async def test_namespaces_are_listed(store: RedisStore) -> None:
    every = [("a",), ("a", "b"), ("a", "b", "v1"), ("a", "c", "v1"), ("a", "c", "v2"), ("ab", "v1"), ("b",)]
    await store.abatch([PutOp(one, "k", {}) for one in reversed(every)])
    assert await store.alist_namespaces() == every
    assert await store.alist_namespaces(prefix=("a",)) == every[:5]
    assert await store.alist_namespaces(prefix=("a", "*", "v1")) == [every[2], every[3]]
    assert await store.alist_namespaces(suffix=("v1",)) == [every[2], every[3], every[5]]
    assert await store.alist_namespaces(prefix=("a",), suffix=("*", "v1")) == [every[2], every[3]]
    assert await store.alist_namespaces(max_depth=1) == [("a",), ("ab",), ("b",)]
    assert await store.alist_namespaces(max_depth=2, limit=2, offset=1) == [("a", "b"), ("a", "c")]
    assert await store.alist_namespaces(limit=0) == []
    both = MatchCondition("prefix", ("*", "b")), MatchCondition("prefix", ("a",))
    assert await store.abatch([ListNamespacesOp(both)]) == [[("a", "b"), ("a", "b", "v1")]]


async def test_a_batch_is_one_round_trip_and_reads_what_was_there_before(
    store: RedisStore, redis: Redis
) -> None:
    await store.aput(USER, "a", {"n": 1})
    before = (await redis.info("commandstats"))["cmdstat_evalsha"]["calls"]
    got = await store.abatch(
        [
            PutOp(USER, "a", {"n": 2}),
            GetOp(USER, "a"),
            PutOp(USER, "b", {"n": 3}),
            PutOp(USER, "b", {"n": 4}),
            SearchOp(USER),
            GetOp(USER, "b"),
            PutOp(USER, "c", None),
        ]
    )
    assert (await redis.info("commandstats"))["cmdstat_evalsha"]["calls"] == before + 1
    assert [got[1].value, names(got[4]), got[5]] == [{"n": 1}, ["a"], None]  # type: ignore[union-attr, arg-type]
    assert [item.value for item in await store.asearch(USER)] == [{"n": 2}, {"n": 4}]
    assert await store.abatch([]) == []


async def test_a_value_that_cannot_be_stored_leaves_the_batch_undone(store: RedisStore) -> None:
    class Own:
        pass

    with pytest.raises(UnstorableType, match="PLACET_ALLOWED_TYPES"):
        await store.abatch([PutOp(USER, "a", {"n": 1}), PutOp(USER, "b", {"own": Own()})])
    assert await store.asearch(USER) == []


async def test_values_come_back_with_their_types(store: RedisStore) -> None:
    value = {"d": Decimal("1.10"), "at": datetime.now(UTC), "t": (1, 2), "b": b"\0\xff", "deep": {"s": {1}}}
    await store.aput(USER, "a", value)
    item = await store.aget(USER, "a")
    assert item is not None
    assert item.value == value
    assert type(item.value["t"]) is tuple


async def test_a_constructor_in_a_value_stays_data(store: RedisStore) -> None:
    value = {"x": {"lc": 2, "type": "constructor", "id": ["this", "x"], "kwargs": {}}}
    await store.aput(USER, "a", value)
    item = await store.aget(USER, "a")
    assert item is not None
    assert item.value == value


async def test_encrypted_values(redis: Redis) -> None:
    store = RedisStore(redis, encryption_key="k" * 32)
    await store.aput(USER, "a", {"secret": "marzipan", "n": 1})
    dump = await redis.hgetall("{placet}:store-items:users\0ann\0")
    assert b"marzipan" not in dump[b"a"]
    assert [i.value["secret"] for i in await store.asearch(USER, filter={"n": 1})] == ["marzipan"]
    with pytest.raises(UnreadableCheckpoint):
        await RedisStore(redis, encryption_key="x" * 32).aget(USER, "a")


async def test_two_prefixes_do_not_meet(redis: Redis) -> None:
    await RedisStore(redis, namespace="one").aput(USER, "a", {})
    assert await RedisStore(redis, namespace="two").asearch(()) == []


async def test_sync_calls_from_another_thread(store: RedisStore) -> None:
    def work() -> list[Any]:
        store.put(USER, "a", {"n": 1})
        item = store.get(USER, "a")
        found = store.search(USER, filter={"n": 1})
        listed = store.list_namespaces()
        store.delete(USER, "a")
        return [item and item.value, len(found), listed, store.get(USER, "a")]

    assert await asyncio.to_thread(work) == [{"n": 1}, 1, [USER], None]
    with pytest.raises(RuntimeError, match="block its own event loop"):
        store.get(USER, "a")


async def test_ten_thousand_items(store: RedisStore, redis: Redis) -> None:
    for start in range(0, 10_000, 1000):
        await store.abatch([PutOp(USER, f"k{n}", {"n": n}) for n in range(start, start + 1000)])

    async def sent(search: Any) -> tuple[list[int], int]:
        before = (await redis.info("stats"))["total_net_output_bytes"]
        found = [item.value["n"] for item in await search]
        return found, (await redis.info("stats"))["total_net_output_bytes"] - before

    _, nothing = await sent(store.asearch(("none",)))
    found, size = await sent(store.asearch(USER, limit=10, offset=9_985))
    assert found == list(range(9_985, 9_995))
    assert size - nothing < 2_000
    found, size = await sent(store.asearch(USER, limit=10, filter={"n": {"$gte": 20}}))
    assert found == list(range(20, 30))
    assert size - nothing < 60_000
    every = await store.asearch(USER, limit=20_000)
    assert [item.value["n"] for item in every] == list(range(10_000))
    found, _ = await sent(store.asearch(USER, limit=5, offset=3, filter={"n": {"$gte": 9_900}}))
    assert found == list(range(9_903, 9_908))


async def test_a_client_that_decodes_is_refused(redis_url: str) -> None:
    async with Redis.from_url(redis_url, decode_responses=True) as client:
        with pytest.raises(InvalidSettings, match="decode_responses"):
            RedisStore(client)


async def test_a_server_that_is_away(store: RedisStore) -> None:
    async with Redis(port=1) as client:
        with pytest.raises(StoreUnavailable):
            await RedisStore(client).aget(USER, "a")
