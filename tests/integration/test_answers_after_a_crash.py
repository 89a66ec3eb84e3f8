"""An answer that a dead worker was handed reaches the question it was given for, and no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

from placet.checkpoint.saver import RedisSaver
from placet.execution.segment import Finished, Paused, Segment

if TYPE_CHECKING:
    from core import Core

    from placet.state.leases import Claim


class State(TypedDict, total=False):
    x: int
    told: list[Any]


def agent(core: Core) -> Any:
    def ask(state: State) -> State:
        return {"told": [interrupt("Ship it?"), interrupt("Refund it?")]}

    graph = StateGraph(State)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    return graph.compile(checkpointer=RedisSaver(core.redis))


async def drive(core: Core, claim: Claim) -> Finished | Paused:
    graph = agent(core)
    return await Segment(claim=claim, graph=graph, leases=core.leases, approvals=core.approvals).drive()


async def pause(core: Core, claim: Claim) -> str:
    end = await drive(core, claim)
    assert isinstance(end, Paused)
    await core.pause(claim, *end.requests, checkpoint_id=end.checkpoint_id)
    (asked,) = await core.placet.approvals(run_id="r1")
    assert asked.id == end.requests[0].id
    return asked.id


async def answer(core: Core, approval_id: str, value: Any) -> None:
    await core.placet.decide(approval_id, {"type": "answer", "value": value}, reviewer="alice")


async def test_an_answer_is_not_handed_to_the_next_question_of_the_same_node(core: Core) -> None:
    await core.enqueue()
    first = await pause(core, await core.claim())
    await answer(core, first, "yes")
    assert isinstance(await drive(core, await core.claim()), Paused)
    await core.expire_lease()  # the graph asks the second question, and that was not committed

    second = await pause(core, await core.claim())
    assert second != first
    assert (await core.placet.approval(second)).value == "Refund it?"
    await answer(core, second, "no")
    claim = await core.claim()
    end = await drive(core, claim)
    assert isinstance(end, Finished)
    assert '"told":["yes","no"]' in end.result
    await core.finish(claim)


async def test_an_answer_is_handed_over_again_if_it_was_not_taken(core: Core) -> None:
    await core.enqueue()
    await answer(core, await pause(core, await core.claim()), "yes")
    await core.claim()
    await core.expire_lease()

    second = await pause(core, await core.claim())
    assert (await core.placet.approval(second)).value == "Refund it?"
