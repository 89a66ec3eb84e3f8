from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from structlog.testing import capture_logs

from placet.agents.graphs import Agents, tool_schemas
from placet.errors import InvalidAgent, UnknownAgent
from placet.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig

HEAD = """
from __future__ import annotations
import asyncio, contextlib
from typing import Any, TypedDict
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore
from langgraph_sdk.runtime import ServerRuntime

class State(TypedDict, total=False):
    said: str

def saying(text):
    async def say(state):
        return {"said": text}
    return StateGraph(State).add_node("say", say).add_edge(START, "say")

log = []
"""

TWICE = """
from langchain.agents import create_agent
from placet.middleware import TodoListMiddleware
from placet.middleware.testing import ScriptedModel
a = create_agent(ScriptedModel(script=[]), middleware=[TodoListMiddleware(), TodoListMiddleware()])
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Settings]:
    """Write agents.py and a langgraph.json that lists the named variables of it."""
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(names: str, code: str) -> Settings:
        (tmp_path / "agents.py").write_text(HEAD + code)
        graphs = {name: f"./agents.py:{name}" for name in names.split()}
        file = tmp_path / "langgraph.json"
        file.write_text(json.dumps({"graphs": graphs}))
        return Settings(config=str(file))

    return write


async def said(agents: Agents, name: str, config: dict[str, Any] | None = None, context: Any = None) -> str:
    settings: RunnableConfig = {"configurable": {"thread_id": name, **(config or {})}}
    async with agents.open(name, settings, context=context) as graph:
        return str((await graph.ainvoke({}, settings, version="v2")).value["said"])


async def test_every_kind_of_graph_and_factory(write: Callable[[str, str], Settings]) -> None:
    settings = write(
        "compiled uncompiled nothing anything configured server both runtime context_manager sync_manager "
        "late",
        """
compiled = saying("compiled").compile()
uncompiled = saying("uncompiled")
def nothing(): return saying("nothing")
async def anything(whatever): return saying(whatever["configurable"].get("thread_id", "load")).compile()
def configured(*, config: RunnableConfig | None = None, model: str = "m"):
    return saying(config["configurable"].get("user", "load") + model)
async def server(runtime: ServerRuntime[Any]):
    log.append((runtime.access_context, runtime.execution_runtime is None, type(runtime.store).__name__))
    return saying(str(runtime.execution_runtime and runtime.execution_runtime.context))
def both(rt: ServerRuntime, config: RunnableConfig): return saying(type(rt).__name__ + str(len(config)))
def runtime(given: Runtime[Any]): return saying(str(given.context))
@contextlib.asynccontextmanager
async def context_manager(config: RunnableConfig):
    log.append("opened")
    try:
        yield saying("context manager")
    finally:
        log.append("closed")
@contextlib.contextmanager
def sync_manager(): yield saying("sync manager").compile()
async def _made(): return saying("late")
late = asyncio.run(_made())
""",
    )
    agents = await Agents.load(settings, checkpointer=InMemorySaver(), store=InMemoryStore())
    log: list[Any] = sys.modules["langgraph_json__agents"].log
    assert log == [("assistants.read", True, "InMemoryStore"), "opened", "closed"]
    assert agents.names[:3] == ("compiled", "uncompiled", "nothing")
    log.clear()
    for name in ("compiled", "uncompiled", "nothing", "anything", "late"):
        assert await said(agents, name) == name
    assert await said(agents, "configured", {"user": "ann"}) == "annm"
    assert await said(agents, "server", context={"a": 1}) == "{'a': 1}"
    assert (await said(agents, "both")).startswith("_ExecutionRuntime")
    assert await said(agents, "runtime", context=7) == "7"
    assert await said(agents, "sync_manager") == "sync manager"
    assert log == [("threads.create_run", False, "InMemoryStore")]
    async with agents.open("context_manager", {}):
        assert log[1:] == ["opened"]
    assert log[1:] == ["opened", "closed"]


async def test_the_functional_api(write: Callable[[str, str], Settings]) -> None:
    settings = write("flow", "@entrypoint()\nasync def flow(n: int) -> int: return n + 1\n")
    saver = InMemorySaver()
    agents = await Agents.load(settings, checkpointer=saver)
    async with agents.open("flow", {}) as graph:
        assert await graph.ainvoke(1, {"configurable": {"thread_id": "t"}}) == 2
        assert graph.name == "flow"
    assert await saver.aget_tuple({"configurable": {"thread_id": "t", "checkpoint_ns": ""}})


async def test_a_checkpointer_of_its_own_is_replaced_with_one_warning_and_left_alone(
    write: Callable[[str, str], Settings],
) -> None:
    settings = write(
        "owned made without",
        """
owned = saying("owned").compile(checkpointer=InMemorySaver(), store=InMemoryStore())
def made(): return saying("made").compile(checkpointer=InMemorySaver())
without = saying("without").compile()
""",
    )
    saver, store = InMemorySaver(), InMemoryStore()
    with capture_logs() as logs:
        agents = await Agents.load(settings, checkpointer=saver, store=store)
        for name in agents.names:
            assert await said(agents, name) == name
    assert [(e["event"], e["agent"], e["replaced"], e["log_level"]) for e in logs] == [
        ("agent.checkpointer_replaced", "owned", ["InMemorySaver", "InMemoryStore"], "warning"),
        ("agent.checkpointer_replaced", "made", ["InMemorySaver"], "warning"),
    ]
    assert set(saver.storage) == {"owned", "made", "without"}
    own = sys.modules["langgraph_json__agents"].owned
    assert isinstance(own.checkpointer, InMemorySaver)
    assert not own.checkpointer.storage
    assert own.store is not store
    async with agents.open("owned", {}) as graph:
        assert graph.store is store


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("other = saying('x')", "AttributeError: no variable 'a' in "),
        ("other = saying('x')", "; graphs there: other"),
        ("a = 1", "TypeError: expected a graph, got int"),
        ("def a(): return 1", "TypeError: expected a graph, got int"),
        ("def a(): raise RuntimeError('first\\nsecond')", "RuntimeError: first second"),
        ("def a(x, y): return 1", "TypeError: parameter 'x' of the factory: annotate it"),
        ("a = (", "SyntaxError: "),
        ("import nowhere_to_be_found", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("raise SystemExit", "SystemExit"),
        (TWICE, "Please remove duplicate middleware instances. Two have one name; limits and retries take a"),
        ("a = StateGraph(State)", "ValueError: Graph must have an entrypoint"),
    ],
)
async def test_what_cannot_be_loaded_is_one_line_with_file_and_key(
    write: Callable[[str, str], Settings], code: str, message: str
) -> None:
    settings = write("a", code)
    with pytest.raises(InvalidAgent) as caught:
        await Agents.load(settings, checkpointer=InMemorySaver())
    text = str(caught.value)
    assert text.startswith(f"{settings.config}: graphs.a: ")
    assert message in text
    assert "\n" not in text


async def test_an_unknown_agent_is_told_the_known_ones(write: Callable[[str, str], Settings]) -> None:
    agents = await Agents.load(write("a b", "a = b = saying('x')"), checkpointer=InMemorySaver())
    with pytest.raises(UnknownAgent, match="no agent 'c'; there are: a, b"):
        async with agents.open("c", {}):
            pass


async def test_tool_schemas(write: Callable[[str, str], Settings]) -> None:
    settings = write(
        "agent outer",
        """
from typing import Annotated
from langchain.agents import create_agent
from langchain_core.tools import tool, StructuredTool
from langgraph.prebuilt import InjectedState
from placet.middleware.testing import ScriptedModel
@tool
def pay(to: str, amount: float, state: Annotated[dict, InjectedState]) -> str:
    "Pay."
    return ""
schema = {"title": "raw", "type": "object", "properties": {"x": {"type": "integer"}}}
raw = StructuredTool.from_function(lambda x: x, name="raw", description="Raw.", args_schema=schema)
agent = create_agent(ScriptedModel(script=[]), tools=[pay, raw])
outer = StateGraph(State).add_node("inner", agent).add_edge(START, "inner").compile()
""",
    )
    agents = await Agents.load(settings, checkpointer=InMemorySaver())
    async with agents.open("agent", {}) as agent, agents.open("outer", {}) as outer:
        schemas = tool_schemas(agent)
        assert tool_schemas(outer) == schemas
    assert set(schemas) == {"pay", "raw"}
    assert set(schemas["pay"]["properties"]) == {"to", "amount"}
    assert schemas["pay"]["required"] == ["to", "amount"]
    assert schemas["raw"]["properties"] == {"x": {"type": "integer"}}


async def test_names_that_only_type_checkers_import(write: Callable[[str, str], Settings]) -> None:
    settings = write(
        "made",
        "def made(rt: 'Checked.ServerRuntime[Nowhere]', config: 'Nowhere') -> 'Nowhere':\n"
        "    return saying(type(rt).__name__ + config['configurable'].get('thread_id', ''))",
    )
    agents = await Agents.load(settings, checkpointer=InMemorySaver())
    assert await said(agents, "made") == "_ExecutionRuntimemade"
