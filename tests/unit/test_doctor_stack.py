"""`placet doctor AGENT`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from placet.cli.doctor_stack import stack_checks

if TYPE_CHECKING:
    from pathlib import Path

AGENTS = """
from langchain.agents import create_agent
from langchain.agents.middleware import ModelRetryMiddleware, SummarizationMiddleware
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from placet.middleware import HumanInTheLoopMiddleware, ToolErrorMiddleware, TodoListMiddleware
from placet.middleware import ToolRetryMiddleware
from placet.middleware.testing import ScriptedModel

scripted = ScriptedModel(script=[])
gate = HumanInTheLoopMiddleware(interrupt_on={"write_todos": True})
retry = ToolRetryMiddleware(tools=["write_todos"], name="todos")
good = create_agent(
    scripted, middleware=[gate, TodoListMiddleware(), retry, ToolErrorMiddleware(lambda e, r: "no")]
)
bad = create_agent(
    ChatOpenAI(model="gpt-test", api_key="test", max_retries=3),
    middleware=[
        ToolErrorMiddleware(lambda e, r: "no"), gate, TodoListMiddleware(),
        SummarizationMiddleware(scripted), ModelRetryMiddleware(),
    ],
)
def made():
    return create_agent(scripted, middleware=[TodoListMiddleware()])
plain = StateGraph(MessagesState).add_node("a", lambda state: {}).add_edge(START, "a").compile()
"""


@pytest.fixture(autouse=True)
def agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "doctored.py").write_text(AGENTS)
    graphs = {name: f"./doctored.py:{name}" for name in ("good", "bad", "made", "plain")}
    (tmp_path / "langgraph.json").write_text(json.dumps({"dependencies": ["."], "graphs": graphs}))
    monkeypatch.setenv("PLACET_CONFIG", str(tmp_path / "langgraph.json"))


async def lines(agent: str) -> list[str]:
    checks = [check async for check in stack_checks(agent)]
    return [f"{check.status} {check.name}: {check.found}" for check in checks]


async def test_a_stack_in_order() -> None:
    assert await lines("good") == [
        "ok agent: good: ScriptedModel, 4 middleware",
        "ok 1: HumanInTheLoopMiddleware (placet)",
        "ok 2: TodoListMiddleware (langchain)",
        "ok 3: todos: ToolRetryMiddleware (placet)",
        "ok 4: ToolErrorMiddleware (langchain)",
    ]


async def test_what_is_wrong_with_a_stack() -> None:
    found = await lines("bad")
    assert found[0] == "ok agent: bad: gpt-test, 5 middleware"
    assert "warn 4: SummarizationMiddleware (langchain)" in found
    order = "warn order: HumanInTheLoopMiddleware must come before ToolErrorMiddleware: "
    assert any(line.startswith(order) for line in found)
    assert found[-1] == (
        "warn retries: the client of ChatOpenAI retries by itself, 3 times, inside ModelRetryMiddleware"
    )


async def test_an_agent_of_a_factory() -> None:
    assert await lines("made") == [
        "ok agent: made: ScriptedModel, 1 middleware",
        "ok 1: TodoListMiddleware (langchain)",
    ]


async def test_an_agent_that_would_not_start(tmp_path: Path) -> None:
    wrong = "create_agent(scripted, middleware=[ToolRetryMiddleware(tools=['serach']), TodoListMiddleware()])"
    (tmp_path / "doctored.py").write_text(f"{AGENTS}\nwrong = {wrong}\n")
    (tmp_path / "langgraph.json").write_text(json.dumps({"graphs": {"wrong": "./doctored.py:wrong"}}))
    (line,) = await lines("wrong")
    assert line.startswith("fail agent: ")
    assert (
        "graphs.wrong: InvalidAgent: ToolRetryMiddleware: tools: the agent has no such tool as 'serach'"
        in line
    )


async def test_a_graph_that_is_no_agent_and_one_that_is_not_there() -> None:
    assert await lines("plain") == ["ok agent: plain was not made with create_agent"]
    (line,) = await lines("none")
    assert line.startswith("fail agent: no agent 'none'; there are: good, bad, made, plain")
