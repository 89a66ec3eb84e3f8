from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from placet.middleware.testing import Call, ScriptedModel, Step

if TYPE_CHECKING:
    from collections.abc import Sequence

CALLING = Step("Let me look.", calls=[Call("look", {"key": "é"}), Call("look", {"key": "b"}, id="mine")])


def look(key: str) -> str:
    """Look a key up."""
    return f"found {key}"


async def test_the_position_comes_from_the_messages() -> None:
    model = ScriptedModel(script=["one", "two", lambda messages: f"after {messages[-1].text}"])
    question = HumanMessage("?")
    assert (await model.ainvoke([question])).text == "one"
    assert (await model.ainvoke([question])).text == "one"
    assert (await model.ainvoke([question, AIMessage("one")])).text == "two"
    assert model.invoke([question, AIMessage("one"), AIMessage("two")]).text == "after two"
    assert model.invoke([question, AIMessage("one"), HumanMessage("again")]).text == "one"


async def test_past_its_end_it_says_so() -> None:
    model = ScriptedModel(script=["one"])
    with pytest.raises(ValueError, match="the script has 1 steps, asked for number 2"):
        await model.ainvoke([HumanMessage("?"), AIMessage("one")])


async def test_sync_async_and_streamed_answers_are_the_same() -> None:
    model = ScriptedModel(script=[CALLING])
    chunks = [chunk async for chunk in model.astream([HumanMessage("?")])]
    assert [c.text for c in chunks if c.text] == ["Let", " me", " look."]
    assert chunks[-1].chunk_position == "last"
    merged = chunks[0]
    for chunk in chunks[1:]:
        merged += chunk
    streamed = list(model.stream([HumanMessage("?")]))
    assert [c.content for c in streamed] == [c.content for c in chunks]
    for answer in (merged, await model.ainvoke([HumanMessage("?")]), model.invoke([HumanMessage("?")])):
        assert isinstance(answer, AIMessage)
        assert answer.text == "Let me look."
        assert answer.tool_calls == [
            {"name": "look", "args": {"key": "é"}, "id": "call_1_0_0", "type": "tool_call"},
            {"name": "look", "args": {"key": "b"}, "id": "mine", "type": "tool_call"},
        ]


async def test_an_error_is_raised_each_time_and_a_function_may_let_it_pass() -> None:
    with pytest.raises(TimeoutError, match="slow"):
        await ScriptedModel(script=[Step(error=TimeoutError("slow"))]).ainvoke("?")
    asked: list[int] = []

    def flaky(messages: Sequence[BaseMessage]) -> Step:
        asked.append(len(messages))
        return Step("fine", error=TimeoutError("slow") if len(asked) == 1 else None)

    model = ScriptedModel(script=[flaky])
    with pytest.raises(TimeoutError):
        await model.ainvoke("?")
    assert (await model.ainvoke("?")).text == "fine"


async def test_async_steps_serve_async_calls_only() -> None:
    async def step(messages: Sequence[BaseMessage]) -> str:
        return f"{len(messages)} message"

    model = ScriptedModel(script=[step])
    assert (await model.ainvoke("?")).text == "1 message"
    with pytest.raises(TypeError, match="async calls only"):
        model.invoke("?")


async def test_in_an_agent_call_ids_are_unique_over_the_turns_of_a_thread() -> None:
    model = ScriptedModel(script=[Step(calls=[Call("look", {"key": "a"})], delay_seconds=0.001), "done"])
    agent = create_agent(model, tools=[look], checkpointer=InMemorySaver())
    ids = []
    for _ in range(2):
        tokens: list[Any] = []
        async for token, _meta in agent.astream(
            {"messages": [HumanMessage("?")]}, {"configurable": {"thread_id": "t"}}, stream_mode="messages"
        ):
            tokens.append(token)
            if isinstance(token, ToolMessage):
                ids.append(token.tool_call_id)
        assert tokens[-1].chunk_position == "last"
        assert "done" in [token.text for token in tokens]
    assert ids == ["call_1_0_0", "call_2_0_0"]


def test_the_package_middleware_loads_nothing_heavy() -> None:
    code = "import placet.middleware, sys; print([m for m in sys.modules if m.startswith('lang')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
