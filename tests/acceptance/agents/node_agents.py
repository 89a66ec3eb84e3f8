"""Agents that pause in their own nodes; acceptance_effects.py says what each does."""

from __future__ import annotations

import operator
import sys
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from acceptance_effects import logged
from langchain_core.runnables import RunnableConfig  # noqa: TC002 (LangGraph reads the annotation)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph


class Questions(TypedDict, total=False):
    """Answers, in the order of the questions."""

    answers: list[Any]


async def ask(state: Questions) -> Questions:
    """Ask twice, then act on both."""
    answers = [interrupt("first?"), interrupt({"ask": "second?"})]
    with logged("ask", answers=answers):
        return {"answers": answers}


class Sides(TypedDict, total=False):
    """One answer for each branch."""

    left: Any
    right: Any


async def left(state: Sides) -> Sides:
    """Ask on one side."""
    return {"left": interrupt("left?")}


async def right(state: Sides) -> Sides:
    """Ask on the other."""
    return {"right": interrupt("right?")}


async def join(state: Sides) -> Sides:
    """Act on both answers."""
    with logged("join", left=state["left"], right=state["right"]):
        return {}


class Answer(TypedDict, total=False):
    """One answer."""

    answer: Any


async def inner(state: Answer) -> Answer:
    """Ask from within a subgraph."""
    answer = interrupt("inner?")
    with logged("inner", answer=answer):
        return {"answer": answer}


class Steps(TypedDict, total=False):
    """Names of the nodes that ran."""

    steps: Annotated[list[str], operator.add]


async def plan(state: Steps) -> Steps:
    """Come before the effect."""
    return {"steps": ["plan"]}


async def act(state: Steps) -> Steps:
    """Have the effect."""
    with logged("act"):
        return {"steps": ["act"]}


async def finish(state: Steps) -> Steps:
    """Come after the effect."""
    return {"steps": ["finish"]}


async def configured(state: Answer, config: RunnableConfig) -> Answer:
    """Ask what the factory left in the config."""
    return {"answer": interrupt(config["configurable"].get("question", "made?"))}


async def make(config: RunnableConfig) -> CompiledStateGraph[Answer, None, Answer, Answer]:
    """Make a graph for a run, with a checkpointer that Placet replaces."""
    graph = StateGraph(Answer).add_node("ask", configured).add_edge(START, "ask")
    question = config["configurable"].get("question", "made?")
    return graph.compile(checkpointer=InMemorySaver()).with_config(configurable={"question": question})


def _acting() -> StateGraph[Steps, None, Steps, Steps]:
    return StateGraph(Steps).add_sequence([plan, act, finish]).add_edge(START, "plan")


questions = StateGraph(Questions).add_node(ask).add_edge(START, "ask")  # uncompiled: Placet compiles it
parallel = (
    StateGraph(Sides)
    .add_node(left)
    .add_node(right)
    .add_node(join)
    .add_edge(START, "left")
    .add_edge(START, "right")
    .add_edge(["left", "right"], "join")
    .compile()
)
subgraph = (
    StateGraph(Answer)
    .add_node("outer", StateGraph(Answer).add_node(inner).add_edge(START, "inner").compile())
    .add_edge(START, "outer")
    .compile()
)
before = _acting().compile(interrupt_before=["act"])
after = _acting().compile(interrupt_after=["act"])


class Quits(TypedDict, total=False):
    """How to quit."""

    how: str


class OwnSignal(BaseException):
    """What a library may use to get out of a loop."""


async def quit_async(state: Quits) -> Quits:
    """Raise what is no Exception, on the event loop."""
    raise {"exit": SystemExit(3), "interrupt": KeyboardInterrupt("ctrl-c"), "own": OwnSignal("out")}[
        state["how"]
    ]


def quit_sync(state: Quits) -> Quits:
    """Raise what is no Exception, in a thread."""
    sys.exit(state["how"])


def _quitting(node: Any) -> CompiledStateGraph[Any, Any, Any, Any]:
    return StateGraph(Quits).add_node("quit", node).add_edge(START, "quit").compile()


quits_async, quits_sync = _quitting(quit_async), _quitting(quit_sync)
