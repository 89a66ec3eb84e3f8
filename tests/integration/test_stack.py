"""langgraph-checkpoint-redis as Placet uses it, on a server with the modules it needs."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, TypedDict
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.redis.ashallow import AsyncShallowRedisSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt
from redis.asyncio import Redis
from stack_server import stack_server

from placet.checkpoint import checkpointer
from placet.checkpoint.serde import CheckpointSerde
from placet.checkpoint.stack import StackSaver
from placet.checkpoint.threads import TOKEN
from placet.errors import InvalidSettings, StoreUnavailable, UnreadableCheckpoint
from placet.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig
    from langgraph.graph.state import CompiledStateGraph

CONSTRUCTOR = {"lc": 2, "type": "constructor", "id": ["this", "x"], "kwargs": {}}


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    value: Any
    answer: Any


@pytest.fixture
async def stack(stack_url: str) -> AsyncIterator[Redis]:
    async with Redis.from_url(stack_url) as client:
        yield client


def opened(redis: Redis, **options: Any) -> Any:
    return StackSaver.open(redis, **{"serde": CheckpointSerde(), **options})


def thread(thread_id: str = "t", **more: Any) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, **more}}


def asking(saver: StackSaver, value: Any = None) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A graph that keeps a value, asks and answers."""

    async def keep(state: State) -> State:
        return {"value": value, "messages": [AIMessage("kept", id="a")]}

    async def ask(state: State) -> State:
        return {"answer": interrupt({"value": state["value"]}, response_schema={"type": "string"})}

    graph = StateGraph(State).add_sequence([("keep", keep), ("ask", ask)]).add_edge(START, "keep")
    return graph.compile(checkpointer=saver)


async def test_a_pause_with_its_schema_and_types_on_another_saver(stack: Redis) -> None:
    value = {
        "d": Decimal("1.10"),
        "at": datetime.now(UTC),
        "t": (1, 2),
        "b": b"\0\xff",
        "s": {1},
        "n": {1: 2},
    }
    await asking(await opened(stack), value).ainvoke({"messages": [HumanMessage("go", id="h")]}, thread())
    graph = asking(await opened(stack))
    state = await graph.aget_state(thread())
    (asked,) = state.interrupts
    assert asked.value == {"value": value}
    assert asked.response_schema == {"type": "string"}
    assert state.values["value"] == value
    assert type(state.values["value"]["t"]) is tuple
    end = await graph.ainvoke(Command(resume={asked.id: "yes"}), thread())
    assert (end["answer"], end["value"]) == ("yes", value)
    assert [message.id for message in end["messages"]] == ["h", "a"]


async def test_bytes_in_a_tool_messages_artifact(stack: Redis) -> None:
    given = ToolMessage("ok", tool_call_id="c", id="x", artifact={"png": b"\x89PNG"})
    await asking(await opened(stack)).ainvoke({"messages": [given]}, thread())
    state = await asking(await opened(stack)).aget_state(thread())
    assert state.values["messages"][0] == given


async def test_names_in_data_are_not_imported(stack: Redis) -> None:
    assert "this" not in sys.modules
    call = {"name": "send", "args": {"payload": CONSTRUCTOR}, "id": "c"}
    value = {"plain": CONSTRUCTOR, "__send__": True, "__interrupt__": True, "__bytes__": "AA=="}
    graph = asking(await opened(stack), value)
    await graph.ainvoke({"messages": [AIMessage("", id="m", tool_calls=[call])]}, thread())
    graph = asking(await opened(stack))
    state = await graph.aget_state(thread())
    assert state.values["messages"][0].tool_calls[0]["args"] == {"payload": CONSTRUCTOR}
    end = await graph.ainvoke(Command(resume=CONSTRUCTOR), thread())
    assert (end["answer"], end["value"]) == (CONSTRUCTOR, value)
    assert (await anext(graph.aget_state_history(thread()))).values["answer"] == CONSTRUCTOR
    assert "this" not in sys.modules


async def test_the_config_is_kept_as_metadata_but_for_the_token(stack: Redis) -> None:
    saver = await opened(stack)
    config: RunnableConfig = {"configurable": {"thread_id": "t", TOKEN: 7}, "metadata": {"run_id": "r1"}}
    await asking(saver).ainvoke({"messages": []}, config)
    state = await asking(saver).aget_state(thread())
    assert (state.metadata or {})["run_id"] == "r1"
    assert TOKEN not in str(state.metadata)


@pytest.mark.parametrize("round_", range(5))
async def test_many_start_at_once(stack_url: str, round_: int) -> None:
    clients = [Redis.from_url(stack_url) for _ in range(12)]
    try:
        assert len(await asyncio.gather(*(opened(client) for client in clients))) == 12
    finally:
        for client in clients:
            await client.aclose()


@pytest.mark.parametrize("name", ["t", "a,b", "a\nb", "a:b", "*", "[x]", "日本 {é}", '"', "-@x|y"])
async def test_a_deleted_thread_leaves_nothing(stack: Redis, name: str) -> None:
    saver = await opened(stack)
    graph = asking(saver, {"n": 1})
    others = [f"{name}:b", f"{name},", "other"]
    for thread_id in (name, *others):
        await graph.ainvoke({"messages": []}, thread(thread_id))
    before = set(await stack.keys())
    await saver.adelete_thread(name)
    gone = before - set(await stack.keys())
    assert len(gone) == len(before) // 4
    assert await saver.aget_tuple(thread(name)) is None
    for thread_id in others:
        assert (await graph.aget_state(thread(thread_id))).interrupts
        await saver.adelete_thread(thread_id)
    assert await stack.keys() == []


async def test_ten_thousand_writes_are_deleted(stack: Redis) -> None:
    saver = await opened(stack)
    config = await saver.aput(thread(), empty_checkpoint(), {}, {})
    await saver.aput_writes(config, [("c", n) for n in range(10_050)], "task")
    await saver.adelete_thread("t")
    assert await stack.keys() == []


async def test_writes_come_back_in_the_order_of_their_tasks(stack: Redis) -> None:
    saver = await opened(stack)
    config = await saver.aput(thread(), empty_checkpoint(), {}, {})
    tasks = [(f"~__pregel_push, {n:010}", uuid4().hex) for n in range(8)]
    for path, task in reversed(tasks):
        await saver.aput_writes(config, [("c", path), ("d", path)], task, path)
    found = await (await opened(stack)).aget_tuple(config)
    expected = [(task, channel, path) for path, task in tasks for channel in "cd"]
    assert found.pending_writes == expected


async def test_encryption(stack: Redis) -> None:
    secret = {"text": "marzipan"}
    await asking(await opened(stack, encryption_key="k" * 32), secret).ainvoke({"messages": []}, thread())
    for key in await stack.keys():
        if await stack.type(key) == b"ReJSON-RL":
            assert b"marzipan" not in await stack.execute_command("JSON.GET", key)  # type: ignore[no-untyped-call]
    state = await asking(await opened(stack, encryption_key="k" * 32)).aget_state(thread())
    assert state.values["value"] == secret
    with pytest.raises(UnreadableCheckpoint, match="decrypted"):
        await (await opened(stack, encryption_key="x" * 32)).aget_tuple(thread())
    await asking(await opened(stack), secret).ainvoke({"messages": []}, thread("plain"))
    with pytest.raises(UnreadableCheckpoint, match="not encrypted"):
        await (await opened(stack, encryption_key="k" * 32)).aget_tuple(thread("plain"))


async def test_two_prefixes_do_not_meet(stack: Redis) -> None:
    await asking(await opened(stack, namespace="one")).ainvoke({"messages": []}, thread())
    assert await (await opened(stack, namespace="two")).aget_tuple(thread()) is None


async def test_sync_calls_from_another_thread(stack: Redis) -> None:
    saver = await opened(stack)
    await asking(saver).ainvoke({"messages": []}, thread())
    found = await asyncio.to_thread(saver.get_tuple, thread())
    assert "answer" not in found.checkpoint["channel_values"]


async def test_a_server_that_goes_away(tmp_path: Path) -> None:
    with stack_server(tmp_path) as url:
        client = Redis.from_url(url)
        saver = await opened(client)
    config = thread(checkpoint_id="c", checkpoint_ns="")
    async with client:
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: opened(client),
            lambda: saver.aget_tuple(thread()),
            lambda: saver.aput(thread(), empty_checkpoint(), {}, {}),
            lambda: saver.aput_writes(config, [("c", 1)], "task"),
            lambda: saver.adelete_thread("t"),
        ]
        for call in calls:
            with pytest.raises(StoreUnavailable):
                await call()


async def test_a_server_without_the_modules_is_one_line(redis: Redis) -> None:
    settings = Settings.from_env({}, checkpointer="langgraph-redis")
    with pytest.raises(InvalidSettings, match=r"^PLACET_CHECKPOINTER: .*lacks Search and JSON; [^\n]*$"):
        async with checkpointer(redis, settings):
            pass


async def test_it_is_chosen_by_the_setting_and_never_shallow(stack: Redis) -> None:
    settings = Settings.from_env({}, checkpointer="langgraph-redis", namespace="own")
    async with checkpointer(stack, settings) as saver:
        assert type(saver) is StackSaver
        assert not issubclass(StackSaver, AsyncShallowRedisSaver)
        await asking(saver).ainvoke({"messages": []}, thread())
    keys: Any = await stack.keys()
    assert all(key.startswith((b"own-", b"write_keys_zset:")) for key in keys)
