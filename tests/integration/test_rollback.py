"""A run that is rolled back leaves nothing in its thread's state, whichever checkpointer keeps that."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from consistency import check_consistency
from core import new_run, open_core
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

from placet.checkpoint import checkpointer
from placet.checkpoint.threads import ThreadsSaver
from placet.errors import LeaseLost
from placet.execution.segment import Finished, Paused, Segment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from core import Core

    from placet.agents.factories import Graph
    from placet.state.leases import Claim

CALL = {"name": "pay", "args": {}, "id": "c1"}
BACKENDS = ["placet", "langgraph-redis", "own_savers:plain"]


def inner(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage(f"noted {state['messages'][-1].content}")]}


def model(state: MessagesState) -> dict[str, Any]:
    if state["messages"][-1].content == "noted ask":
        return {"messages": [AIMessage("", tool_calls=[CALL])]}
    return {"messages": [AIMessage("fine")]}


def ask(state: MessagesState) -> None:
    if state["messages"][-1].content == "":
        interrupt("Sure?")


class Thread:
    """A thread's turns, each run driven by hand."""

    def __init__(self, core: Core, graph: Graph) -> None:
        self.core = core
        self.graph = graph

    async def begin(self, run_id: str, text: str, **options: Any) -> Claim:
        message = f'{{"messages": [{{"role": "user", "content": "{text}"}}]}}'
        await self.core.runs.enqueue(new_run(run_id, input=message, **options))
        return await self.core.claim(run_id)

    async def drive(self, claim: Claim) -> Finished | Paused:
        parts: dict[str, Any] = {"leases": self.core.leases, "approvals": self.core.approvals}
        return await Segment(claim=claim, graph=self.graph, **parts).drive()

    async def turn(self, run_id: str, text: str, **options: Any) -> None:
        claim = await self.begin(run_id, text, **options)
        came_to = await self.drive(claim)
        if isinstance(came_to, Paused):
            await self.core.pause(claim, *came_to.requests)
        else:
            await self.core.finish(claim)

    async def said(self) -> list[str]:
        state = await self.graph.aget_state({"configurable": {"thread_id": "t1"}})
        assert state.next == ()
        return [message.content for message in state.values.get("messages", ())]


@asynccontextmanager
async def opened(core: Core) -> AsyncIterator[Thread]:
    noting = StateGraph(MessagesState)
    noting.add_node("inner", inner)
    noting.add_edge(START, "inner")
    graph = StateGraph(MessagesState)
    graph.add_node("noting", noting.compile())
    graph.add_node("model", model)
    graph.add_node("ask", ask)
    graph.add_edge(START, "noting")
    graph.add_edge("noting", "model")
    graph.add_edge("model", "ask")
    graph.add_edge("ask", END)
    async with checkpointer(core.connection.reader, core.connection.settings) as saver:
        yield Thread(core, graph.compile(checkpointer=saver))


@pytest.fixture(params=BACKENDS)
async def thread(redis_url: str, request: pytest.FixtureRequest) -> AsyncIterator[Thread]:
    backend: str = request.param
    url = request.getfixturevalue("stack_url") if backend == "langgraph-redis" else redis_url
    async with open_core(url, checkpointer=backend) as core, opened(core) as thread:
        yield thread
        await check_consistency(core.redis)


def turn(text: str) -> list[str]:
    return [text, f"noted {text}", "fine"]


async def test_a_paused_runs_messages_are_gone(thread: Thread) -> None:
    await thread.turn("r1", "hello")
    await thread.turn("r2", "ask")
    await thread.turn("r3", "better", multitask_strategy="rollback")

    assert await thread.said() == turn("hello") + turn("better")
    await thread.turn("r4", "more")
    assert await thread.said() == turn("hello") + turn("better") + turn("more")


async def test_an_interrupted_runs_messages_stay_and_its_call_is_answered(thread: Thread) -> None:
    await thread.turn("r1", "hello")
    await thread.turn("r2", "ask")
    await thread.turn("r3", "better", multitask_strategy="interrupt")

    answered = "The call of `pay` did not finish: interrupted by run r3."
    assert await thread.said() == [*turn("hello"), "ask", "noted ask", "", answered, *turn("better")]


async def test_a_threads_first_run_leaves_an_empty_thread(thread: Thread) -> None:
    await thread.turn("r1", "ask")
    await thread.turn("r2", "better", multitask_strategy="rollback")
    assert await thread.said() == turn("better")


async def test_a_thread_that_was_mended_before_stays_so(thread: Thread) -> None:
    await thread.turn("r1", "ask")
    await thread.turn("r2", "ask", multitask_strategy="interrupt")
    await thread.turn("r3", "better", multitask_strategy="rollback")

    answered = "The call of `pay` did not finish: interrupted by run r2."
    assert await thread.said() == ["ask", "noted ask", "", answered, *turn("better")]


@pytest.mark.parametrize("dies", ["before", "half-way", "after"])
async def test_a_worker_that_dies_over_the_rollback_leaves_it_to_the_next(thread: Thread, dies: str) -> None:
    await thread.turn("r1", "hello")
    await thread.turn("r2", "ask")
    claim = await thread.begin("r3", "better", multitask_strategy="rollback")
    parts: dict[str, Any] = {"leases": thread.core.leases, "approvals": thread.core.approvals}
    if dies == "half-way":
        record = thread.core.connection.keys("thread", "t1")
        noted = await thread.core.redis.hget(record, "rollback")
        await Segment(claim=claim, graph=thread.graph, **parts)._begin()
        await thread.core.redis.hset(record, "rollback", noted)
    elif dies == "after":
        await Segment(claim=claim, graph=thread.graph, **parts)._begin()
    await thread.core.expire_lease()
    again = await thread.core.claim("r3")
    await thread.drive(again)
    await thread.core.finish(again)
    assert await thread.said() == turn("hello") + turn("better")


async def test_our_own_checkpointer_keeps_nothing_of_it_and_is_fenced(redis_url: str) -> None:
    async with open_core(redis_url) as core, opened(core) as thread:
        await thread.turn("r1", "hello")
        key = core.connection.keys("checkpoint", "t1")
        before = await core.redis.hgetall(key)
        await thread.turn("r2", "ask")
        assert await core.redis.hgetall(key) != before
        claim = await thread.begin("r3", "better", multitask_strategy="rollback")
        saver = thread.graph.checkpointer
        assert isinstance(saver, ThreadsSaver)
        for token in (None, claim.token - 1):
            with pytest.raises(LeaseLost):
                await saver.aroll_back("t1", ["r2"], token=token)
        await saver.aroll_back("t1", ["r2"], token=claim.token)
        assert await core.redis.hgetall(key) == before
