"""Limits in a LangGraph app without Placet's workers, on Redis: async and sync agents, in one another."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from placet.middleware import (
    CallWindow,
    ModelCallLimitMiddleware,
    RedisSharedState,
    RunContext,
    ToolCallLimitMiddleware,
    run_context,
)
from placet.middleware.testing import Call, ScriptedModel, Step

HELLO: Any = {"messages": [{"role": "user", "content": "hello"}]}


class Agents:
    """An agent whose tool invokes another for ever, both written down."""

    def __init__(self, *middleware: Any) -> None:
        self.calls: list[str] = []

        @tool
        def look() -> str:
            """Look."""
            self.calls.append("look")
            return "looked"

        inner = create_agent(self.model("inner", "look"), [look])

        @tool
        def delegate() -> str:
            """Delegate."""
            return str(inner.invoke(HELLO)["messages"][-1].text)

        saver = InMemorySaver()
        self.graph = create_agent(
            self.model("outer", "delegate"), [delegate], middleware=middleware, checkpointer=saver
        )

    def model(self, name: str, calls: str) -> ScriptedModel:
        def step(_: object) -> Step:
            self.calls.append(name)
            return Step(calls=[Call(calls)])

        return ScriptedModel(script=[step] * 20)


async def go(agents: Agents, shared: RedisSharedState, run_id: str = "r1", **configurable: str) -> str:
    with run_context(RunContext(run_id=run_id, shared=shared)):
        out = await agents.graph.ainvoke(
            HELLO, {"configurable": {"thread_id": "t1", **configurable}}, durability="sync"
        )
    return str(out["messages"][-1].text)


async def test_sync_subagents_count(redis_url: str) -> None:
    agents = Agents(ModelCallLimitMiddleware(run_limit=4, thread_limit=6))
    async with RedisSharedState.open(redis_url) as shared:
        assert await go(agents, shared) == "Model call limits exceeded: run limit (4/4)"
        assert agents.calls == ["outer", "inner", "look", "inner", "look", "inner", "look"]
        assert await go(agents, shared, "r2") == "Model call limits exceeded: thread limit (6/6)"
        assert len(agents.calls) == 7 + 2 + 1


async def test_sync_tools_count(redis_url: str) -> None:
    agents = Agents(ToolCallLimitMiddleware(tool_name="look", run_limit=2, exit_behavior="end"))
    async with RedisSharedState.open(redis_url) as shared:
        text = await go(agents, shared)
    assert text == "'look' tool call limit reached: run limit exceeded (3/2 calls)."
    assert agents.calls.count("look") == 2


async def test_another_process_goes_on_counting(redis_url: str) -> None:
    for calls, text in ((3, "run limit (3/3)"), (2, "tenant limit (5/5 in 60 s)"), (0, "tenant limit")):
        window = CallWindow(limit=5, per=60, by="tenant")
        agents = Agents(ModelCallLimitMiddleware(run_limit=3, windows=[window]))
        async with RedisSharedState.open(redis_url) as shared:
            assert text in await go(agents, shared, f"run of {calls}", tenant="acme")
        assert len([one for one in agents.calls if one != "look"]) == calls


async def test_a_sync_call_on_the_event_loop_is_refused(redis_url: str) -> None:
    """It could not wait for Redis: rather no call than one that is not counted."""
    agents = Agents(ModelCallLimitMiddleware(run_limit=3))
    async with RedisSharedState.open(redis_url) as shared:
        with (
            run_context(RunContext(run_id="r1", shared=shared)),
            pytest.raises(RuntimeError, match="use ainvoke"),
        ):
            agents.graph.invoke(HELLO, {"configurable": {"thread_id": "t1"}})
    assert agents.calls == []
