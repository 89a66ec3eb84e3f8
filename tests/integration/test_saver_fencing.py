from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.conformance.test_utils import generate_checkpoint, generate_metadata
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from typing_extensions import TypedDict

from placet.checkpoint.saver import TOKEN, RedisSaver
from placet.errors import LeaseLost
from placet.state.keys import Keys

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain_core.runnables import RunnableConfig
    from redis.asyncio import Redis

LEASE = Keys()("lease", "t")


def at(token: int | None = None, **more: Any) -> RunnableConfig:
    configurable = {"thread_id": "t", "checkpoint_ns": "", **more}
    return {"configurable": configurable if token is None else {**configurable, TOKEN: token}}


async def put(saver: RedisSaver, token: int | None) -> Any:
    return await saver.aput(at(token), generate_checkpoint(), generate_metadata(), {})


async def put_writes(saver: RedisSaver, token: int | None) -> Any:
    return await saver.aput_writes(at(token, checkpoint_id="c"), [("a", 1)], "task")


async def delete(saver: RedisSaver, token: int | None) -> Any:
    return await saver.adelete_thread("t", token=token)


async def prune(saver: RedisSaver, token: int | None) -> Any:
    return await saver.aprune(["t"], token=token)


async def prune_all(saver: RedisSaver, token: int | None) -> Any:
    return await saver.aprune(["t"], strategy="delete", token=token)


writes = pytest.mark.parametrize(
    "write", [put, put_writes, delete, prune, prune_all], ids=lambda w: w.__name__
)


@writes
@pytest.mark.parametrize(
    ("lease", "token"), [("7", 6), ("7", 8), ("7", None), (None, 7)], ids=["old", "new", "none", "gone"]
)
async def test_write_without_the_lease_is_refused_and_changes_nothing(
    redis: Redis,
    write: Callable[[RedisSaver, int | None], Awaitable[Any]],
    lease: str | None,
    token: int | None,
) -> None:
    saver = RedisSaver(redis)
    await put(saver, None)
    if lease:
        await redis.hset(LEASE, mapping={"token": lease, "run_id": "r", "owner": "w"})
    key = Keys()("checkpoint", "t")
    before = await redis.hgetall(key)

    with pytest.raises(LeaseLost) as refusal:
        await write(saver, token)

    assert refusal.value.thread_id == "t"
    assert await redis.hgetall(key) == before


@writes
@pytest.mark.parametrize("token", [7, None])
async def test_write_with_the_lease_or_where_there_is_none(
    redis: Redis, write: Callable[[RedisSaver, int | None], Awaitable[Any]], token: int | None
) -> None:
    if token:
        await redis.hset(LEASE, mapping={"token": str(token), "run_id": "r", "owner": "w"})
    await write(RedisSaver(redis), token)


async def test_upkeep_without_token_is_refused_on_a_leased_thread(redis: Redis) -> None:
    saver = RedisSaver(redis)
    await saver.aput(at(), generate_checkpoint(), generate_metadata(run_id="r"), {})
    await redis.hset(LEASE, "token", "7")
    with pytest.raises(LeaseLost):
        await saver.adelete_for_runs(["r"])
    await saver.adelete_for_runs(["another"])
    with pytest.raises(LeaseLost):
        await saver.acopy_thread("other", "t")
    await saver.acopy_thread("t", "other")


class State(TypedDict):
    n: int


async def test_a_leased_graph_runs_updates_and_forks_and_stores_no_token(redis: Redis) -> None:
    await redis.hset(LEASE, "token", "77001122")
    graph = (
        StateGraph(State)
        .add_node("a", lambda state: {"n": state["n"] + 1})
        .add_node("b", lambda state: {"n": state["n"] * 10})
        .add_edge(START, "a")
        .add_conditional_edges("a", lambda state: [Send("b", state)], ["b"])
        .add_edge("b", END)
        .compile(checkpointer=RedisSaver(redis))
    )
    config: RunnableConfig = {"configurable": {"thread_id": "t", TOKEN: 77001122}}

    assert await graph.ainvoke({"n": 1}, config) == {"n": 20}
    await graph.aupdate_state(config, {"n": 3}, as_node="a")
    await graph.abulk_update_state(config, [[_update("a", 4)], [_update("b", 5)]])
    copied = await graph.aupdate_state((await graph.aget_state(config)).config, None, as_node="__copy__")

    assert (await graph.aget_state(copied)).values == {"n": 5}
    stored = await redis.hgetall(Keys()("checkpoint", "t"))
    assert not any(b"placet_token" in value or b"77001122" in value for value in stored.values())
    async for saved in RedisSaver(redis).alist({"configurable": {"thread_id": "t"}}):
        assert not any("token" in key for key in saved.metadata)
        assert TOKEN not in saved.config["configurable"]
    with pytest.raises(LeaseLost):
        await graph.ainvoke({"n": 1}, {"configurable": {"thread_id": "t", TOKEN: 5}})


def _update(node: str, value: int) -> Any:
    from langgraph.types import StateUpdate  # noqa: PLC0415

    return StateUpdate(values={"n": value}, as_node=node)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_a_run_that_is_taken_over_stops_and_stores_nothing_more(redis: Redis, durability: Any) -> None:
    await redis.hset(LEASE, "token", "1")
    ran = []

    async def take_over(state: State) -> dict[str, Any]:
        await redis.hset(LEASE, "token", "2")
        return {"n": 666}

    async def after(state: State) -> dict[str, Any]:
        ran.append(state)
        return {"n": 667}

    saver = RedisSaver(redis)
    graph = (
        StateGraph(State)
        .add_sequence([("take_over", take_over), ("after", after)])
        .add_edge(START, "take_over")
        .compile(checkpointer=saver)
    )
    with pytest.raises(LeaseLost):
        await graph.ainvoke({"n": 1}, at(1), durability=durability)

    assert ran == [] or durability != "sync"
    saved = await saver.aget_tuple(at())
    assert saved is None or saved.checkpoint["channel_values"].get("n") in (None, 1)
