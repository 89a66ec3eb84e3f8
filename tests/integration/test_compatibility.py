"""Whether checkpoints of one graph can be gone on from in another, on each checkpointer."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from core import request
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.tools import tool
from langgraph.channels import DeltaChannel
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt
from redis.asyncio import Redis

from placet.agents.compatibility import incompatibility
from placet.agents.fingerprint import fingerprint
from placet.checkpoint import checkpointer
from placet.middleware.testing import Call, ScriptedModel, Step
from placet.settings import Settings
from placet.state.runs import Run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from placet.agents.factories import Graph


@pytest.fixture(params=["placet", "langgraph-redis"])
def settings(request: pytest.FixtureRequest) -> Settings:
    url = request.getfixturevalue("redis_url" if request.param == "placet" else "stack_url")
    return Settings(redis_url=url, checkpointer=request.param)


@pytest.fixture
async def saver(settings: Settings) -> AsyncIterator[Any]:
    async with Redis.from_url(settings.redis_url) as client, checkpointer(client, settings) as made:
        yield made


class Left:
    """A run that a graph has left at a checkpoint."""

    def __init__(self, saver: Any) -> None:
        self._saver = saver
        self._stored: dict[str, Any] | None = None
        self.asked: list[Any] = []

    def attached(self, graph: Graph) -> tuple[Graph, Any]:
        """The graph on the checkpointer, and the run's config."""
        graph = graph.copy()
        graph.checkpointer = self._saver
        return graph, {"configurable": {"thread_id": "t"}, "metadata": {"run_id": "r"}}

    async def by(self, graph: Graph, given: Any) -> None:
        """Drive the graph to its pause."""
        graph, config = self.attached(graph)
        self._stored = fingerprint(graph).content
        await graph.ainvoke(given, config, durability="sync")
        for one in (await graph.aget_state(config)).interrupts:
            asked = one.value.get("action_requests") if isinstance(one.value, dict) else None
            kind: Any = {"kind": "tool_call"} if asked else {"kind": "question", "value": one.value}
            self.asked.append(request(f"a{len(self.asked)}", one.id, **kind))

    async def why_not(self, graph: Graph, *, run_id: str = "r", known: bool = True) -> str | None:
        """Why it cannot go on in this graph."""
        graph, _ = self.attached(graph)
        run: Any = _run(run_id)
        stored = self._stored if known else None
        return await incompatibility(graph, run, stored=stored, requests=self.asked)


def _run(run_id: str) -> Run:
    now: Any = None
    return Run(
        id=run_id, thread_id="t", agent="a", status="running", queue="q", created_at=now, updated_at=now
    )


@pytest.fixture
def left(saver: Any) -> Left:
    return Left(saver)


class State(TypedDict, total=False):
    """A state."""

    many: Annotated[list[str], operator.add]
    value: Any


def graph(*nodes: str, schema: Any = State, first: Any = None) -> Any:
    """Make a graph whose nodes all ask, one after the other."""
    made: StateGraph[Any] = StateGraph(schema)
    made.add_sequence([(name, lambda _, name=name: {"value": interrupt(name)}) for name in nodes])
    made.add_node("first", first or (lambda _: {"many": ["kept"]}))
    return made.add_edge(START, "first").add_edge("first", nodes[0]).compile()


async def test_nodes_elsewhere_may_change(left: Left) -> None:
    await left.by(graph("ask", "then"), {})
    assert await left.why_not(graph("ask")) is None
    assert await left.why_not(graph("ask", "more", "then")) is None
    assert await left.why_not(graph("then", "ask")) is None
    reason = "node 'ask', where it waits, is gone; there are: then, first"
    assert await left.why_not(graph("then")) == reason
    assert await left.why_not(graph("then"), known=False) == reason


async def test_another_runs_checkpoint_says_nothing(left: Left) -> None:
    assert await left.why_not(graph("then")) is None
    await left.by(graph("ask"), {})
    assert await left.why_not(graph("then"), run_id="another") is None


def sure(state: Any) -> Any:
    """Ask about what was sent."""
    return interrupt(state)


async def test_tasks_that_were_sent(left: Left) -> None:
    def sending(name: str) -> Any:
        made = StateGraph(State).add_node("fork", lambda _: {}).add_node(name, sure)
        made.add_conditional_edges("fork", lambda _: [Send(name, "a"), Send(name, "b")])
        return made.add_edge(START, "fork").compile()

    await left.by(sending("each"), {})
    assert len(left.asked) == 2
    assert await left.why_not(sending("each")) is None
    assert (
        await left.why_not(sending("every")) == "node 'each', where it waits, is gone; there are: fork, every"
    )


def delta(known: list[str], new: list[Any]) -> list[str]:
    return known + [one for many in new for one in many]


class Delta(TypedDict, total=False):
    """The same state, one key kept as deltas."""

    many: Annotated[list[str], DeltaChannel(delta)]
    value: Any


async def test_a_key_that_is_kept_in_another_way(left: Left) -> None:
    await left.by(graph("ask", schema=Delta), {})
    assert await left.why_not(graph("ask", schema=Delta)) is None
    reason = await left.why_not(graph("ask"))
    assert reason == "state key 'many' was kept as DeltaChannel, and is BinaryOperatorAggregate now"


class Typed(TypedDict, total=False):
    """A key with a narrower type."""

    many: list[int]
    value: Any


class Wider(TypedDict, total=False):
    """A key with a wider type."""

    many: list[str] | None
    value: Any


async def test_a_key_whose_new_type_does_not_take_its_value(left: Left) -> None:
    await left.by(graph("ask"), {})
    assert await left.why_not(graph("ask", schema=Wider)) is None
    reason = await left.why_not(graph("ask", schema=Typed))
    assert reason is not None
    assert reason.startswith("state key 'many' has a value that its type does not take any more: ")


class Less(TypedDict, total=False):
    """The state without one key."""

    value: Any


async def test_a_key_without_a_value_may_go(left: Left) -> None:
    await left.by(graph("ask", first=lambda _: {"many": []}), {})
    assert await left.why_not(graph("ask", schema=Less, first=lambda _: {})) is None


@tool
def pay(to: str) -> str:
    """Pay."""
    return to


def paying(*middleware: Any, **given: Any) -> Any:
    model = ScriptedModel(script=[Step(calls=[Call("pay", {"to": "ann"})]), "done"])
    return create_agent(model, tools=[pay], middleware=middleware, **given)


def gate(mode: Any = "batched", *decisions: Any) -> Any:
    config: Any = {"allowed_decisions": list(decisions)} if decisions else True
    return HumanInTheLoopMiddleware(interrupt_on={"pay": config}, interrupt_mode=mode)


HUMAN = {"messages": [{"role": "user", "content": "go"}]}


async def test_gates(left: Left) -> None:
    await left.by(paying(gate()), HUMAN)
    (asked,) = left.asked
    assert asked.mode == "batched"
    left.asked = [_decided(asked, "edit")]
    assert await left.why_not(paying(gate())) is None
    assert await left.why_not(paying(gate("batched", "edit", "approve"))) is None
    assert await left.why_not(paying(gate("batched", "approve"))) == (
        "the gate of tool 'pay' does not take the decision 'edit' any more"
    )
    flipped = "tool 'pay' was asked about in mode batched, and its gate is per_call now"
    assert await left.why_not(paying(gate("per_call"))) == flipped
    assert await left.why_not(paying(gate("per_call")), known=False) == flipped
    gone = "tool 'pay' waits for a decision (batched), and no gate asks about it any more"
    assert await left.why_not(paying()) == gone
    assert await left.why_not(paying(), known=False) == gone


async def test_a_gate_that_was_taken_for_a_question(left: Left) -> None:
    """Its answer goes to the same place: what was rejected there must not run either."""
    await left.by(paying(gate("per_call")), HUMAN)
    assert left.asked[0].mode == "raw"
    assert await left.why_not(paying(gate("per_call"))) is None
    gone = "tool 'pay' waits for a decision (per_call), and no gate asks about it any more"
    assert await left.why_not(paying()) == gone


async def test_an_answer_that_was_taken_half_way(left: Left) -> None:
    """A call that was rejected and whose result is not kept: resumed without its gate, it would run."""

    @tool
    def fail(to: str) -> str:
        """Fail the second time, as the other call's answer is being taken."""
        tried.append(to)
        if len(tried) > 1:
            raise RuntimeError(to)
        answer: str = interrupt("sure?")
        return answer

    tried: list[str] = []
    script = [Step(calls=[Call("pay", {"to": "ann"}), Call("fail", {"to": "bob"})]), "done"]

    def agent(*middleware: Any) -> Any:
        return create_agent(ScriptedModel(script=script), tools=[pay, fail], middleware=middleware)

    await left.by(agent(gate("per_call")), HUMAN)
    gated = next(one for one in left.asked if isinstance(one.value, dict))
    graph, config = left.attached(agent(gate("per_call")))
    answer: Any = Command(resume={gated.interrupt_id: {"type": "reject"}})
    with pytest.raises(RuntimeError):
        await graph.ainvoke(answer, config, durability="sync")
    assert await left.why_not(agent(gate("per_call"))) is None
    assert "no gate asks about it" in (await left.why_not(agent()) or "")


def _decided(asked: Any, kind: str) -> Any:
    class Decided:
        """A request with its decision."""

        interrupt_id, mode, tool, value = asked.interrupt_id, asked.mode, asked.tool, asked.value
        decision = {"type": kind}  # noqa: RUF012 - read alone

    return Decided()
