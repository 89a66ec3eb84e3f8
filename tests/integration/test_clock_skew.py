"""Workers whose clocks differ: LangGraph's checkpoint ids are times, and the newest is the greatest."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.base import id as checkpoint_ids
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from placet.checkpoint.saver import RedisSaver

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from redis.asyncio import Redis

THREAD: RunnableConfig = {"configurable": {"thread_id": "t"}}
MINUTE_NS = 60 * 10**9
TIME_NS = time.time_ns


class State(TypedDict, total=False):
    answers: list[str]


def ask(state: State) -> dict[str, Any]:
    asked = len(state.get("answers", ()))
    return {"answers": [*state.get("answers", ()), interrupt(f"question {asked}")]}


@pytest.fixture
def other_worker(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Turn into a worker whose clock is that many minutes off."""

    def become(minutes: int) -> None:
        monkeypatch.setattr(checkpoint_ids, "_last_v6_timestamp", None)
        monkeypatch.setattr(time, "time_ns", lambda: TIME_NS() + minutes * MINUTE_NS)

    return become


async def test_a_resume_where_the_clock_is_behind(redis: Redis, other_worker: Any) -> None:
    graph = StateGraph(State).add_sequence([("one", ask), ("two", ask), ("three", ask)])
    graph.add_edge(START, "one")

    def connected() -> Any:
        return graph.compile(checkpointer=RedisSaver(redis))

    given: Any = {"answers": []}
    for minutes, asked in ((5, 0), (0, 1), (-5, 2)):
        other_worker(minutes)
        state = await connected().ainvoke(given, THREAD)
        assert [one.value for one in state["__interrupt__"]] == [f"question {asked}"]
        saved = await connected().aget_state(THREAD)
        assert [one.value for one in saved.interrupts] == [f"question {asked}"]
        given = Command(resume={saved.interrupts[0].id: f"answer {asked}"})
    other_worker(-10)
    state = await connected().ainvoke(given, THREAD)
    assert state["answers"] == ["answer 0", "answer 1", "answer 2"]
    history = [one async for one in connected().aget_state_history(THREAD)]
    assert [one.metadata["step"] for one in history] == [3, 2, 1, 0, -1]


async def test_a_fork_where_the_clock_is_behind(redis: Redis, other_worker: Any) -> None:
    graph = StateGraph(State).add_node("one", ask).add_edge(START, "one")
    other_worker(5)
    await graph.compile(checkpointer=RedisSaver(redis)).ainvoke({"answers": []}, THREAD)
    other_worker(0)
    behind = graph.compile(checkpointer=RedisSaver(redis))
    await behind.aupdate_state(THREAD, {"answers": ["from a form"]})
    saved = await behind.aget_state(THREAD)
    assert saved.values["answers"] == ["from a form"]
