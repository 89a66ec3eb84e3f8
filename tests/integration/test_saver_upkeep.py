from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from redis.asyncio import Redis
from typing_extensions import TypedDict

from placet.checkpoint.saver import RedisSaver
from placet.checkpoint.serde import CheckpointSerde
from placet.errors import Conflict, InvalidInput, InvalidSettings, StoreUnavailable, UnreadableCheckpoint
from placet.state.keys import Keys

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.graph.state import CompiledStateGraph


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    topic: str


def reply(state: Chat) -> dict[str, Any]:
    return {"messages": [AIMessage(f"answer {len(state['messages'])}")]}


def chat(saver: RedisSaver) -> CompiledStateGraph[Any, Any, Any, Any]:
    return StateGraph(Chat).add_node("reply", reply).add_edge(START, "reply").compile(checkpointer=saver)


def thread(thread_id: str = "t") -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id}}


async def say(saver: RedisSaver, text: str, config: RunnableConfig | None = None) -> list[str]:
    config = config or thread()
    result = await chat(saver).ainvoke({"messages": [HumanMessage(text)], "topic": "x" * 100}, config)
    return [message.content for message in result["messages"]]


async def test_elements_are_stored_once(redis: Redis) -> None:
    saver = RedisSaver(redis)
    for turn in range(5):
        await say(saver, f"question {turn}")
    names = await redis.hkeys(Keys()("checkpoint", "t"))
    assert sum(name[:1] == b"e" for name in names) == 10


async def test_prune_by_another_process_then_continue(redis: Redis) -> None:
    ours, other = RedisSaver(redis), RedisSaver(redis)
    for turn in range(4):
        await say(ours, f"question {turn}")
    before = await redis.hlen(Keys()("checkpoint", "t"))

    await other.aprune(["t"])
    assert await redis.hlen(Keys()("checkpoint", "t")) < before / 2
    texts = await say(ours, "question 4")

    assert len(texts) == 10
    assert texts[0] == "question 0"
    state = await chat(RedisSaver(redis)).aget_state(thread())
    assert [message.content for message in state.values["messages"]] == texts


async def test_delete_by_another_process_inside_a_run_keeps_the_checkpoint_whole(redis: Redis) -> None:
    saver, other = RedisSaver(redis), RedisSaver(redis)
    await say(saver, "first")

    async def node(state: Chat) -> dict[str, Any]:
        await other.adelete_thread("t")
        return {"messages": [AIMessage("after")]}

    graph = StateGraph(Chat).add_node("node", node).add_edge(START, "node").compile(checkpointer=saver)
    await graph.ainvoke({"messages": [HumanMessage("second")], "topic": "x" * 100}, thread())

    values = (await chat(RedisSaver(redis)).aget_state(thread())).values
    assert [m.content for m in values["messages"]] == ["first", "answer 1", "second", "after"]
    assert values["topic"] == "x" * 100


async def test_a_server_that_loses_its_last_writes_inside_a_run_gets_them_again(redis: Redis) -> None:
    saver, key = RedisSaver(redis), Keys()("checkpoint", "t")
    await say(saver, "first")
    before = await redis.dump(key)
    assert before is not None

    async def node(state: Chat) -> dict[str, Any]:
        await redis.restore(key, 0, before, replace=True)
        return {"messages": [AIMessage("after")]}

    graph = StateGraph(Chat).add_node("node", node).add_edge(START, "node").compile(checkpointer=saver)
    await graph.ainvoke({"messages": [HumanMessage("second")], "topic": "y"}, thread(), durability="sync")

    values = (await chat(RedisSaver(redis)).aget_state(thread())).values
    assert [m.content for m in values["messages"]] == ["first", "answer 1", "second", "after"]


async def test_prune_leaves_nothing_unused(redis: Redis) -> None:
    saver = RedisSaver(redis)
    for turn in range(3):
        await say(saver, f"question {turn}")
    await saver.aprune(["t"])
    names = await redis.hkeys(Keys()("checkpoint", "t"))
    kinds = sorted(name[:1] for name in names)
    assert kinds.count(b"c") == kinds.count(b"i") == 1
    assert kinds.count(b"e") == 6
    assert b"w" not in kinds
    await saver.aprune(["t"], strategy="delete")
    assert await redis.exists(Keys()("checkpoint", "t")) == 0


async def test_unknown_strategy_is_refused(redis: Redis) -> None:
    with pytest.raises(InvalidInput, match="keep_latest"):
        await RedisSaver(redis).aprune(["t"], strategy="all")


def concat(state: list[str], batch: list[list[str]]) -> list[str]:
    return [*state, *(item for update in batch for item in update)]


class Deltas(TypedDict):
    log: Annotated[list[str], DeltaChannel(concat, snapshot_frequency=4)]
    n: int


def delta_graph(saver: RedisSaver) -> CompiledStateGraph[Any, Any, Any, Any]:
    graph = StateGraph(Deltas)
    for name in ("z", "a", "m"):
        graph.add_node(name, lambda state, name=name: {"log": [f"{name}{state['n']}"]})
        graph.add_edge(START, name)
    return graph.compile(checkpointer=saver)


@pytest.mark.parametrize("durability", ["sync", "exit"])
async def test_delta_channels_keep_their_order(redis: Redis, durability: Any) -> None:
    for turn in range(9):
        result = await delta_graph(RedisSaver(redis)).ainvoke(
            {"n": turn, "log": []}, thread(), durability=durability
        )
        loaded = await delta_graph(RedisSaver(redis)).aget_state(thread())
        assert loaded.values["log"] == result["log"]
    assert len(result["log"]) == 27


@pytest.mark.parametrize("turns", range(1, 8))
async def test_prune_keeps_what_delta_channels_stand_on(redis: Redis, turns: int) -> None:
    saver = RedisSaver(redis)
    for turn in range(turns):
        result = await delta_graph(saver).ainvoke({"n": turn, "log": []}, thread())
    before = await redis.hlen(Keys()("checkpoint", "t"))

    await RedisSaver(redis).aprune(["t"])

    assert (await delta_graph(saver).aget_state(thread())).values == result
    assert turns < 4 or await redis.hlen(Keys()("checkpoint", "t")) < before
    again = await delta_graph(saver).ainvoke({"n": 99, "log": []}, thread())
    assert again["log"][: len(result["log"])] == result["log"]


async def test_copy_goes_on_alone_and_never_overwrites(redis: Redis) -> None:
    saver = RedisSaver(redis)
    await say(saver, "first")
    await saver.acopy_thread("t", "copy")
    assert await say(saver, "second", thread("copy")) == ["first", "answer 1", "second", "answer 3"]
    assert len((await chat(saver).aget_state(thread())).values["messages"]) == 2
    with pytest.raises(Conflict, match="copy"):
        await saver.acopy_thread("t", "copy")


ODD = ["a,b", "line\nbreak", "{brace}", "}{", "日本語 🚀", "x" * 300, "a*[b]?", "a:checkpoint", "'\"\\", " "]


async def test_odd_thread_ids(redis: Redis) -> None:
    saver = RedisSaver(redis, namespace="odd*[ns]")
    for thread_id in ODD:
        assert await say(saver, thread_id, thread(thread_id)) == [thread_id, "answer 1"]
    listed = {saved.config["configurable"]["thread_id"] async for saved in saver.alist(None)}
    assert listed == set(ODD)
    for thread_id in ODD:
        await saver.adelete_thread(thread_id)
    # a worker of another test run, whose server's port this one has got, may write its own
    assert [key for key in await redis.keys("*") if bytes(key).startswith(b"{odd*[ns]}")] == []  # type: ignore[arg-type]


async def test_a_name_with_a_separator_is_refused(redis: Redis) -> None:
    config: RunnableConfig = {
        "configurable": {"thread_id": "t", "checkpoint_ns": "a\x1fb", "checkpoint_id": "c"}
    }
    with pytest.raises(InvalidInput, match="checkpoint_ns"):
        await RedisSaver(redis).aput_writes(config, [("a", 1)], "task")


async def test_history_is_newest_first(redis: Redis) -> None:
    saver = RedisSaver(redis)
    graph = chat(saver)
    for turn in range(5):
        await graph.aupdate_state(thread(), {"topic": str(turn)}, as_node="reply")
    history = [state async for state in graph.aget_state_history(thread())]
    assert [state.values["topic"] for state in history] == ["4", "3", "2", "1", "0"]
    page = [s async for s in graph.aget_state_history(thread(), before=history[1].config, limit=2)]
    assert [state.values["topic"] for state in page] == ["2", "1"]
    ids = [saved.checkpoint["id"] async for saved in saver.alist(None)]
    assert ids == sorted(ids, reverse=True)


async def test_ttl_is_one_and_renewed(redis: Redis) -> None:
    saver = RedisSaver(redis, ttl=timedelta(hours=1))
    key = Keys()("checkpoint", "t")
    await say(saver, "first")
    assert 3_590_000 < await redis.pttl(key) <= 3_600_000
    await redis.pexpire(key, 1000)
    await saver.aget_tuple(thread())
    assert await redis.pttl(key) > 3_590_000
    await say(RedisSaver(redis), "second")
    assert await redis.pttl(key) > 3_590_000


async def test_scripts_survive_a_flush(redis: Redis) -> None:
    saver = RedisSaver(redis)
    await say(saver, "first")
    await redis.script_flush()
    assert len(await say(saver, "second")) == 4
    await redis.script_flush()
    assert len([saved async for saved in saver.alist(thread())]) == 6


async def test_encrypted_at_rest(redis: Redis) -> None:
    saver = RedisSaver(redis, encryption_key="0123456789abcdef")
    for turn in range(3):
        await say(saver, f"a secret {turn}")
    stored: dict[Any, Any] = await redis.hgetall(Keys()("checkpoint", "t"))
    blob = b"".join(stored) + b"".join(stored.values())
    assert b"secret" not in blob
    assert b"answer" not in blob
    assert sum(name[:1] == b"e" for name in stored) == 6

    assert len(await say(RedisSaver(redis, encryption_key="0123456789abcdef"), "again")) == 8
    with pytest.raises(UnreadableCheckpoint, match="with this key"):
        await RedisSaver(redis, encryption_key="another key of 24 bytes!").aget_tuple(thread())
    with pytest.raises(UnreadableCheckpoint):
        await RedisSaver(redis).aget_tuple(thread())
    await say(RedisSaver(redis), "plain", thread("plain"))
    with pytest.raises(UnreadableCheckpoint, match="not encrypted"):
        await saver.aget_tuple(thread("plain"))


async def test_damaged_data_is_one_clear_error(redis: Redis) -> None:
    saver, key = RedisSaver(redis), Keys()("checkpoint", "t")
    await say(saver, "words " * 100)
    stored: dict[Any, Any] = await redis.hgetall(key)
    element = next(name for name in stored if name[:1] == b"e" and b"/z" in stored[name])
    await redis.hset(key, element, stored[element][:-3])
    with pytest.raises(UnreadableCheckpoint, match="damaged"):
        await saver.aget_tuple(thread())


async def test_encryption_without_its_package_names_the_extra(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "Crypto.Cipher", None)
    with pytest.raises(InvalidSettings, match=r"placet\[encryption\]"):
        RedisSaver(redis, encryption_key="k" * 16)


OWN = [JsonPlusSerializer(), EncryptedSerializer.from_pycryptodome_aes(CheckpointSerde(), key=b"k" * 16)]


@pytest.mark.parametrize("serde", OWN, ids=["plain", "encrypted"])
async def test_a_serializer_of_the_users(redis: Redis, serde: SerializerProtocol) -> None:
    for turn in range(3):
        texts = await say(RedisSaver(redis, serde=serde), f"question {turn}")
    assert len(texts) == 6
    stored: dict[Any, Any] = await redis.hgetall(Keys()("checkpoint", "t"))
    elements = [name for name in stored if name[:1] == b"e"]
    assert len(elements) == (0 if isinstance(serde, EncryptedSerializer) else 6)


async def test_elements_are_shared_by_workers(redis: Redis) -> None:
    await say(RedisSaver(redis), "first")
    before = await redis.hgetall(Keys()("checkpoint", "t"))
    await say(RedisSaver(redis), "second")
    names = await redis.hkeys(Keys()("checkpoint", "t"))
    assert sum(name[:1] == b"e" for name in before) == 2
    assert sum(name[:1] == b"e" for name in names) == 4


async def test_unusable_options_are_refused(redis: Redis) -> None:
    with pytest.raises(InvalidSettings, match="16, 24 or 32"):
        RedisSaver(redis, encryption_key="short")
    async with Redis.from_url("redis://127.0.0.1:1", decode_responses=True) as texts:
        with pytest.raises(InvalidSettings, match="decode_responses"):
            RedisSaver(texts)


async def test_no_server_is_one_clear_error() -> None:
    async with RedisSaver.from_url("redis://127.0.0.1:1") as saver:
        with pytest.raises(StoreUnavailable):
            await saver.aget_tuple(thread())
