"""Subagents with defaults, and tools of others that may run twice."""

from __future__ import annotations

from typing import Any

import pytest
from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain.agents.middleware import FilesystemFileSearchMiddleware as StockFileSearch
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from placet.middleware import (
    FilesystemFileSearchMiddleware,
    HumanInTheLoopMiddleware,
    InMemorySharedState,
    ModelCallLimitMiddleware,
    RunContext,
    TodoListMiddleware,
    ToolLedgerMiddleware,
    run_context,
)
from placet.middleware.deepagents import (
    CompositeBackend,
    FilesystemMiddleware,
    StateBackend,
    StoreBackend,
    SubAgentMiddleware,
)
from placet.middleware.ledger.declared import declaration_of
from placet.middleware.testing import Call, ScriptedModel, Step

GO: Any = {"messages": [("user", "go")]}
MODEL = ScriptedModel(script=["done"])


@tool
def pay(to: str) -> str:
    """Pay someone."""
    return f"paid {to}"


def test_a_general_purpose_subagent_is_always_there() -> None:
    assert SubAgentMiddleware(default_model=MODEL).subagent_names == {"general-purpose"}
    clerk: Any = {"name": "clerk", "description": "pays"}
    assert SubAgentMiddleware(default_model=MODEL, subagents=[clerk]).subagent_names == {
        "general-purpose",
        "clerk",
    }
    own: Any = {"name": "general-purpose", "description": "does all", "model": MODEL}
    (task,) = SubAgentMiddleware(subagents=[own]).tools
    assert "general-purpose: does all" in task.description


def test_a_subagent_without_a_model_is_refused() -> None:
    with pytest.raises(ValueError, match="'general-purpose' has no model; give one, or default_model"):
        SubAgentMiddleware()


async def test_defaults_are_for_subagents_that_name_none() -> None:
    clerk = ScriptedModel(script=[Step(calls=[Call("pay", {"to": "ann"})]), lambda m: m[-1].text])
    task = Call("task", {"description": "pay ann", "subagent_type": "general-purpose"})
    model = ScriptedModel(script=[Step(calls=[task]), lambda m: m[-1].text])
    middleware: Any = [SubAgentMiddleware(default_model=clerk, default_tools=[pay])]
    out = await create_agent(model, middleware=middleware).ainvoke(GO)
    assert out["messages"][-1].text == "paid ann"


def test_a_subagents_gate_is_ours() -> None:
    clerk: Any = {"name": "clerk", "description": "pays", "interrupt_on": {"pay": True}}
    made = SubAgentMiddleware(default_model=MODEL, default_tools=[pay], subagents=[clerk])
    specs: Any = made._subagents
    (spec,) = [spec for spec in specs if spec["name"] == "clerk"]
    assert "interrupt_on" not in spec
    assert [type(one) for one in spec["middleware"]] == [HumanInTheLoopMiddleware]


async def test_files_in_the_store_have_a_namespace_by_default() -> None:
    write = Call("write_file", {"file_path": "/memories/a.txt", "content": "hello"})
    backend = CompositeBackend(StateBackend(), {"/memories/": StoreBackend()})
    store = InMemoryStore()
    middleware: Any = [FilesystemMiddleware(backend=backend)]
    model = ScriptedModel(script=[Step(calls=[write]), "done"])
    await create_agent(model, middleware=middleware, store=store).ainvoke(GO)
    (item,) = await store.asearch(("filesystem",))
    assert item.value["content"] == "hello"


def test_tools_that_may_run_twice_are_known() -> None:
    files = FilesystemMiddleware(backend=StateBackend(), tools="all")
    search = [StockFileSearch(root_path="."), FilesystemFileSearchMiddleware(root_path=".")]
    every: list[Any] = [files, *search, TodoListMiddleware(), SubAgentMiddleware(default_model=MODEL)]
    known = {one.name: declaration_of(one) for middleware in every for one in middleware.tools}
    assert {name for name, declared in known.items() if declared is None} == {"edit_file", "execute"}
    assert {declared.on_unknown for declared in known.values() if declared} == {"rerun"}


def test_a_tool_of_that_name_is_not_known() -> None:
    @tool
    def task(description: str) -> str:
        """Do it."""
        return description

    assert declaration_of(task) is None


async def test_a_whole_deep_agent_passes_through() -> None:
    """Made by deepagents itself, with middleware of ours."""
    model = ScriptedModel(script=[Step(calls=[Call("pay", {"to": "ann"})]), lambda m: m[-1].text])
    middleware: Any = [ModelCallLimitMiddleware(run_limit=2), ToolLedgerMiddleware()]
    agent: Any = create_deep_agent(
        model, tools=[pay], middleware=middleware, interrupt_on={"pay": True}, checkpointer=InMemorySaver()
    )
    config = {"configurable": {"thread_id": "t"}}
    with run_context(RunContext(run_id="r", shared=InMemorySharedState())):
        assert "__interrupt__" in await agent.ainvoke(GO, config)
        out = await agent.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
    assert out["messages"][-1].text == "paid ann"
