"""The store does what LangGraph's InMemoryStore does, operation by operation."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from redis.asyncio import Redis

from placet.checkpoint.store import RedisStore

if TYPE_CHECKING:
    from langgraph.store.base import Op

ALL = 10_000
labels = st.sampled_from(["a", "b", "ab", "日", "a.b", "\n"])
namespaces = st.lists(labels, min_size=1, max_size=3).map(tuple)
prefixes = st.lists(labels, max_size=2).map(tuple)
patterns = st.lists(labels | st.just("*"), max_size=3).map(tuple)
keys = st.sampled_from(["k", "l", "", "{k}"])
numbers = st.integers(-3, 3) | st.sampled_from([0.5, -1.5])
words = st.sampled_from(["x", "y", ""])
values = st.fixed_dictionaries(
    {"n": numbers, "s": words | st.none()},
    optional={"l": st.lists(numbers, max_size=2), "d": st.fixed_dictionaries({"e": words})},
)
comparisons = st.dictionaries(
    st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]), numbers, max_size=2
)
filters = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "n": numbers | comparisons,
        "s": words | st.none() | st.fixed_dictionaries({"$ne": words}),
        "l": st.lists(numbers, max_size=2),
        "d": st.fixed_dictionaries({"e": words | st.fixed_dictionaries({"$eq": words})}),
    },
)
conditions = st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), patterns)
few = st.integers(0, 4)
operations = st.one_of(
    st.builds(PutOp, namespaces, keys, values, st.none(), st.none()),
    st.builds(PutOp, namespaces, keys, values, st.just(False), st.none()),
    st.builds(PutOp, namespaces, keys, st.none(), st.none(), st.none()),
    st.builds(GetOp, namespaces, keys),
    st.builds(SearchOp, prefixes, filters, st.integers(0, 10), few, st.none() | words),
    st.builds(
        ListNamespacesOp,
        st.lists(conditions, max_size=2).map(tuple),
        st.none() | st.integers(1, 3),
        st.integers(0, 10),
        few,
    ),
)
batches = st.lists(st.lists(operations, max_size=6), max_size=10)


async def expected(memory: InMemoryStore, ops: list[Op]) -> list[Any]:
    """What the InMemoryStore says, but for two things that it leaves open.

    It goes through namespaces in the order they came into being, and lists those that are empty again.
    """
    for empty in [namespace for namespace, items in memory._data.items() if not items]:
        del memory._data[empty]
    listed = {at: await memory.abatch([op]) for at, op in enumerate(ops) if isinstance(op, ListNamespacesOp)}
    whole = [op._replace(limit=ALL, offset=0) if isinstance(op, SearchOp) else op for op in ops]
    results: list[Any] = await memory.abatch(whole)
    for at, op in enumerate(ops):
        if at in listed:
            (results[at],) = listed[at]  # before a get of this batch made a namespace
        if isinstance(op, SearchOp):
            results[at] = sorted(results[at], key=lambda item: item.namespace)[
                op.offset : op.offset + op.limit
            ]
    return [plain(result) for result in results]


def plain(result: Any) -> Any:
    if isinstance(result, list):
        return [plain(one) for one in result]
    return (result.namespace, result.key, result.value) if hasattr(result, "value") else result


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches)
def test_same_operations_same_answers(redis_url: str, given_batches: list[list[Op]]) -> None:
    async def check() -> None:
        async with Redis.from_url(redis_url) as redis:
            await redis.flushdb()
            store, memory = RedisStore(redis), InMemoryStore()
            last: list[Op] = [SearchOp((), limit=ALL), ListNamespacesOp()]
            for ops in [*given_batches, last]:
                assert [plain(result) for result in await store.abatch(ops)] == await expected(memory, ops)

    asyncio.run(check())
