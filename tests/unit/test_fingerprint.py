from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, InterruptOnConfig
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from pydantic import BaseModel, create_model

from placet.agents.fingerprint import fingerprint, subgraphs
from placet.middleware.testing import ScriptedModel, Step

if TYPE_CHECKING:
    from placet.agents.factories import Graph

AGENTS = Path(__file__).parents[1] / "acceptance" / "agents"


@tool
def pay(to: str) -> str:
    """Pay."""
    return to


@tool
def look(at: str) -> str:
    """Look."""
    return at


def agent(*middleware: Any, tools: Any = (pay, look), **given: Any) -> Graph:
    made: Graph = create_agent(ScriptedModel(script=[]), tools=list(tools), middleware=middleware, **given)
    return made


def gate(
    *, mode: Any = "batched", **interrupt_on: bool | InterruptOnConfig
) -> AgentMiddleware[Any, Any, Any]:
    return HumanInTheLoopMiddleware(interrupt_on=interrupt_on, interrupt_mode=mode)


def level(graph: Graph) -> dict[str, Any]:
    found: dict[str, Any] = fingerprint(graph).content["level"]
    return found


def test_it_holds_gates_tools_nodes_and_keys_as_plain_json() -> None:
    made = agent(gate(pay=True, look={"allowed_decisions": ["reject", "approve"]}, mode="per_call"))
    found = level(made)
    assert found["gates"] == {
        "pay": ["per_call", "approve", "edit", "reject", "respond"],
        "look": ["per_call", "approve", "reject"],
    }
    assert found["tools"] == ["look", "pay"]
    assert found["middleware"] == ["HumanInTheLoopMiddleware"]
    assert {"model", "tools", "HumanInTheLoopMiddleware.after_model"} < set(found["nodes"])
    assert {"messages", "hitl_edited_tool_calls"} < set(found["keys"])
    assert json.loads(fingerprint(made).text) == fingerprint(made).content
    assert set(json.loads(fingerprint(made).versions)) == {"langgraph", "langchain", "langchain-core"}


def test_it_is_taken_once_for_a_graph() -> None:
    made = agent()
    assert fingerprint(made) is fingerprint(made)
    assert fingerprint(made) == fingerprint(agent())


def test_a_prompt_and_a_model_are_no_part_of_it() -> None:
    other = create_agent(ScriptedModel(script=[Step("x")]), tools=[pay, look], system_prompt="Be brief.")
    assert fingerprint(other).digest == fingerprint(agent()).digest


@pytest.mark.parametrize(
    "other",
    [
        agent(gate(pay=True)),
        agent(gate(pay=True), gate_of_another_name := type("Gate", (HumanInTheLoopMiddleware,), {})({})),
        agent(gate(pay=True, mode="per_call")),
        agent(gate(pay={"allowed_decisions": ["approve"]})),
        agent(tools=[pay]),
        agent(interrupt_before=["tools"]),
    ],
)
def test_what_a_paused_run_needs_is(other: Graph) -> None:
    assert fingerprint(other).digest != fingerprint(agent()).digest
    assert gate_of_another_name.name == "Gate"


def test_every_process_has_the_same() -> None:
    code = (
        "import placet.checkpoint, deployed_agents as d;"
        "from placet.agents.fingerprint import fingerprint as f;"
        "from langgraph.pregel import Pregel;"
        "print([f(g).digest for g in vars(d).values() if isinstance(g, Pregel)])"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": str(AGENTS), "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1


def test_a_middlewares_own_gates_are_taken_from_its_attribute() -> None:
    class Asks(AgentMiddleware[Any, Any, Any]):
        placet_gates = {"pay": ("per_call", "approve", "reject")}  # noqa: RUF012 - as a middleware may have it

        def after_model(self, state: Any, runtime: Any) -> None: ...

    assert level(agent(Asks()))["gates"] == {"pay": ["per_call", "approve", "reject"]}


class State(TypedDict, total=False):
    """A state."""

    value: Any


def test_graphs_within_nodes_and_tools() -> None:
    inner = agent(gate(pay=True))
    by_name = {"inner": inner}

    @tool
    async def ask(text: str) -> str:
        """Ask by name."""
        return str(await inner.ainvoke({"messages": text}))

    @tool
    async def choose(name: str) -> str:
        """Choose one of several."""
        return str(await by_name[name].ainvoke({}))

    outer = agent(tools=[ask, choose])
    assert subgraphs(outer) == {"tools/ask": inner, "tools/choose": inner}
    assert level(outer)["graphs"]["tools/ask"] == level(inner)
    whole = StateGraph(State).add_node("outer", outer).add_edge(START, "outer").compile()
    assert level(whole)["graphs"]["outer"] == level(outer)


async def again(text: str) -> str:
    """Call the agent that has this tool."""
    return str(await recursive.ainvoke({"messages": text}))


recursive = agent(tools=[tool(again)])


def test_a_graph_that_calls_itself() -> None:
    assert level(recursive)["graphs"] == {}
    assert list(subgraphs(recursive)) == ["tools/again"]


def test_a_class_of_the_state_counts_with_its_fields() -> None:
    def holding(cls: type) -> str:
        # the class has to be where its name says
        setattr(sys.modules[__name__], cls.__name__, cls)
        cls.__module__ = __name__
        graph: StateGraph[Any] = StateGraph(create_model("Whole", value=(cls, ...)))
        return fingerprint(graph.add_node("n", lambda _: {}).add_edge(START, "n").compile()).digest

    one, same = (create_model("Held", width=(int, ...)) for _ in range(2))
    digests = [holding(cls) for cls in (one, same, create_model("Held", width=(str, ...)))]
    assert digests[0] == digests[1] != digests[2]

    @dataclass
    class Plain:
        """A dataclass."""

        width: int

    class Model(BaseModel):
        """A model."""

        width: int

    assert len({*digests, holding(Plain), holding(Model)}) == 4
