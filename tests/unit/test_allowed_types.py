from __future__ import annotations

from collections.abc import Mapping, Sequence  # noqa: TC003 (the types below are read at run time)
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypedDict

from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from pydantic import BaseModel

from placet.agents.allowed_types import allowed_types
from placet.agents.graphs import Agents
from placet.middleware.testing import Call, ScriptedModel, Step


class Leaf(BaseModel):
    n: int


class Tree(BaseModel):
    leaves: dict[str, list[Leaf]]
    parent: Tree | None = None


class Colour(Enum):
    RED = "red"


class Point(NamedTuple):
    colour: Colour


@dataclass
class Box:
    points: Sequence[Point]


class Context(BaseModel):
    user: str


class Private(TypedDict):
    secret: Secret


class Secret(BaseModel):
    value: str


Named = NewType("Named", Leaf)


class Good(TypedDict, total=False):
    tree: Annotated[Tree | None, ["unhashable"]]
    box: Mapping[str, Box]
    kind: Literal["a", "b"]
    named: Named


class Answer(BaseModel):
    leaf: Leaf


class Other(BaseModel):
    n: int


def names(graph: Any) -> set[str]:
    return {name for module, name in allowed_types(graph) if module == __name__}


async def work(state: Good) -> Good:
    return {}


async def hide(state: Private) -> Good:
    return {}


def test_state_input_and_context_types_are_found_with_all_that_they_hold() -> None:
    graph = StateGraph(Good, context_schema=Context).add_node(work).add_node(hide).add_edge(START, "work")
    assert names(graph.compile()) == {"Tree", "Leaf", "Box", "Point", "Colour", "Context", "Secret"}


def test_of_agents_their_response_format_and_of_graphs_their_subgraphs() -> None:
    for given in (Answer, ToolStrategy(Answer), ProviderStrategy(Answer)):
        agent = create_agent(ScriptedModel(script=[]), response_format=given)
        assert names(agent) == {"Answer", "Leaf"}
    assert names(StateGraph(Good).add_node("a", agent).add_edge(START, "a").compile()) >= {"Answer", "Tree"}
    union = create_agent(ScriptedModel(script=[]), response_format=ToolStrategy(Answer | Other))
    assert names(union) == {"Answer", "Leaf", "Other"}


def test_a_node_whose_closure_is_not_bound_yet() -> None:
    async def node(state: Good) -> Good:
        return later

    graph = StateGraph(Good).add_node(node).add_edge(START, "node").compile()
    assert "Tree" in names(graph)
    later: Good = {}


def test_the_functional_api_s_input_and_result() -> None:
    @entrypoint()
    async def flow(box: Box) -> Answer:
        return Answer(leaf=Leaf(n=1))

    assert names(flow) == {"Box", "Point", "Colour", "Answer", "Leaf"}


async def test_a_pydantic_result_survives_the_checkpoint_in_strict_mode() -> None:
    async def ask(state: Any) -> dict[str, Any]:
        interrupt("go on?")
        return {}

    class Outer(TypedDict, total=False):
        structured_response: Any

    agent = create_agent(
        ScriptedModel(script=[Step(calls=[Call("Answer", {"leaf": {"n": 1}})])]), response_format=Answer
    )
    graph = StateGraph(Outer).add_node("agent", agent).add_node("ask", ask)
    compiled = graph.add_edge(START, "agent").add_edge("agent", "ask").compile()
    agents = Agents(agents={}, checkpointer=InMemorySaver())
    attached = agents._attach("outer", compiled)
    await attached.ainvoke({}, {"configurable": {"thread_id": "t"}})
    state = await attached.aget_state({"configurable": {"thread_id": "t"}})
    assert state.values["structured_response"] == Answer(leaf=Leaf(n=1))
