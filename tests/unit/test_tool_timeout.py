from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from placet.middleware.testing import Call, ScriptedModel, Step
from placet.middleware.timeout import ToolTimeoutMiddleware

ended: list[str] = []


@tool
async def forever() -> str:
    """Never end."""
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("forever")
    return "never"


@tool
async def quick() -> str:
    """End at once."""
    return "quick"


@tool
async def own_timeout() -> str:
    """Raise a timeout of its own."""
    raise TimeoutError("mine")


@tool
async def ask() -> str:
    """Ask a person."""
    return f"told {interrupt('Sure?')}"


def agent(*names: str, **options: Any) -> Any:
    tools = [forever, quick, own_timeout, ask]
    model = ScriptedModel(script=[Step(calls=[Call(name) for name in names]), "done"])
    limit = ToolTimeoutMiddleware(**{"timeout_seconds": 0.05, **options})
    return create_agent(model, tools=tools, middleware=[limit], checkpointer=InMemorySaver())


async def results(made: Any, given: Any = None) -> dict[str, ToolMessage]:
    given = {"messages": [("user", "go")]} if given is None else given
    state = await made.ainvoke(given, {"configurable": {"thread_id": "t"}})
    return {str(m.name): m for m in state["messages"] if isinstance(m, ToolMessage)}


async def test_a_call_that_takes_too_long_is_cancelled_and_the_model_is_told() -> None:
    ended.clear()
    found = await results(agent("forever", "quick"))

    assert ended == ["forever"]
    assert (found["quick"].text, found["quick"].status) == ("quick", "success")
    assert found["forever"].status == "error"
    assert found["forever"].text == (
        "The call of `forever` did not end within 0.05 s and was cancelled; it may have taken effect."
    )


async def test_a_tools_own_timeout_is_its_own() -> None:
    with pytest.raises(TimeoutError, match="mine"):
        await results(agent("own_timeout"))


async def test_a_pause_is_no_call_that_takes_long() -> None:
    made = agent("ask")
    assert await results(made) == {}
    assert (await results(made, Command(resume="yes")))["ask"].text == "told yes"


@pytest.mark.parametrize("tools", [["quick"], [quick]])
async def test_other_tools_have_all_the_time(tools: list[Any]) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await results(agent("forever", tools=tools))


@pytest.mark.parametrize("bad", [0, -1, float("nan")])
def test_a_timeout_is_a_time(bad: float) -> None:
    with pytest.raises(ValueError, match="timeout_seconds: must be over 0"):
        ToolTimeoutMiddleware(timeout_seconds=bad)
