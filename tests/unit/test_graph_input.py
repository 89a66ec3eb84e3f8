"""An input that the graph would take nothing of is refused, and what it takes is told."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langgraph.func import entrypoint
from langgraph.graph import START, StateGraph
from pydantic import BaseModel
from typing_extensions import TypedDict

from placet.agents.graph_input import check_input
from placet.errors import InvalidInput
from placet.middleware.testing import ScriptedModel


class Given(TypedDict):
    order: str


class State(Given):
    found: str


class Model(BaseModel):
    order: str = ""


@entrypoint()
async def function(given: Any) -> Any:
    return given


def graph(state: Any, given: Any = None) -> Any:
    nodes = StateGraph(state, input_schema=given or state).add_node("a", lambda _: None)
    return nodes.add_edge(START, "a").compile()


AGENT = create_agent(ScriptedModel(script=[]))


@pytest.mark.parametrize(
    ("taking", "given", "message"),
    [
        (
            AGENT,
            {"messges": []},
            "input.messges: is no key of the agent's input, did you mean 'messages'? it",
        ),
        (AGENT, {"question": "hi"}, "input.question: is no key of the agent's input; it has messages"),
        (AGENT, ["hi"], "input: must be an object; the agent's keys are messages"),
        (AGENT, 5, "input: must be an object; the agent's keys are messages"),
        # of the state, but not of the input
        (graph(State, Given), {"found": "x"}, "input.found: is no key of the agent's input; it has order"),
        (graph(Model), {"oder": "x"}, "input.oder: is no key of the agent's input, did you mean 'order'?"),
    ],
)
def test_what_it_would_drop_is_refused(taking: Any, given: Any, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_input(taking, given)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("taking", "given"),
    [
        (AGENT, {}),
        (AGENT, {"messages": []}),
        (AGENT, {"messages": [], "more": 1}),
        (graph(State), {"found": "x"}),
        (graph(Model), {"order": "x"}),
        (graph(int), 5),
        (function, {"messges": 1}),
        (function, 5),
    ],
)
def test_what_it_takes_or_may_take_is_taken(taking: Any, given: Any) -> None:
    check_input(taking, given)
