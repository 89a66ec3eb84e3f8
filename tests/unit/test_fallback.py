"""Model fallback in a run: breakers, what a run stays with, whose fault it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from driver import HELLO, Clock, Driver, InThread
from langchain.agents import create_agent
from langchain_core.exceptions import ModelInvalidRequestError, ModelRefusalError
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from wire import Reply, WireServer

from placet.errors import InvalidInput
from placet.middleware import InMemorySharedState, ModelFallbackMiddleware, ModelRetryMiddleware
from placet.middleware.testing import Call, ScriptedModel, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wire import WireRequest

FAULT = [
    Reply(status=400),
    Reply("prompt is too long", status=400),
    Reply("not that", status=400, code="content_filter"),
    Reply(status=413),
    Reply(status=422),
]


@pytest.fixture
def wire() -> Iterator[WireServer]:
    with WireServer() as server:
        yield server


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def dead(*models: str) -> Callable[[WireRequest], Reply]:
    """Answer with the model's name, or not at all."""
    return lambda request: Reply(status=500) if request.model in models else Reply(request.model)


def calls(wire: WireServer) -> list[str]:
    return [request.model for request in wire.asked()]


class Runs:
    """Runs of one agent, which share what they learn."""

    def __init__(
        self, wire: WireServer, *around: Any, tools: Any = (), inside: Any = (), **options: Any
    ) -> None:
        self.shared = InMemorySharedState()
        fallback = ModelFallbackMiddleware(wire.anthropic("second"), wire.openai("third"), **options)
        chain = [*around, fallback, *inside]
        self.agent: Any = create_agent(
            wire.openai("first"), tools, middleware=chain, checkpointer=InMemorySaver()
        )
        self.count = 0

    def new(self) -> Driver:
        self.count += 1
        return Driver(self.agent, shared=self.shared, run_id=f"run {self.count}")

    async def go(self) -> Any:
        return (await self.new().go(HELLO))[-1]


async def test_the_answer_says_which_model_it_is_from(wire: WireServer) -> None:
    runs = Runs(wire)
    wire.script = dead()
    assert (await runs.go()).response_metadata["placet_model"] == {"model": "openai-chat:first", "place": 0}
    wire.script = dead("first")
    answer = await runs.go()
    assert answer.text == "second"
    assert answer.response_metadata["placet_model"] == {"model": "anthropic-chat:second", "place": 1}


async def test_a_dead_model_costs_some_calls_in_all_and_not_in_each_run(
    wire: WireServer, clock: Clock
) -> None:
    runs = Runs(wire, failure_threshold=3, cool_down=60)
    wire.script = dead("first")
    assert [(await runs.go()).text for _ in range(10)] == ["second"] * 10
    assert calls(wire).count("first") == 3
    clock.move(60)
    for _ in range(5):
        await runs.go()
    assert calls(wire).count("first") == 4  # half-open: one looks, and it is open again
    clock.move(60)
    wire.script = dead()
    assert [(await runs.go()).text for _ in range(3)] == ["first"] * 3


async def test_failures_that_lie_apart_are_not_in_a_row(wire: WireServer, clock: Clock) -> None:
    runs = Runs(wire, failure_threshold=2, cool_down=60)
    wire.script = dead("first")
    for _ in range(5):
        await runs.go()
        clock.move(61)
    assert calls(wire).count("first") == 5
    wire.script = dead()
    await runs.go()
    wire.script = dead("first")
    await runs.go()
    assert calls(wire).count("first") == 7


@pytest.mark.parametrize("reply", FAULT, ids=lambda reply: f"{reply.status} {reply.text}")
async def test_a_request_at_fault_does_not_fall_back_unless_told(wire: WireServer, reply: Reply) -> None:
    wire.script = lambda request: reply if request.model == "first" else Reply(request.model)
    runs = Runs(wire, failure_threshold=1)
    for _ in range(2):
        with pytest.raises(Exception, match=reply.text or str(reply.status)):
            await runs.go()
    assert calls(wire) == ["first", "first"]
    told = Runs(wire, failure_threshold=1, fall_back_on=[Exception])
    assert [(await told.go()).text for _ in range(2)] == ["second", "second"]
    assert calls(wire)[2:] == ["first", "second"] * 2  # the model is not to blame: its breaker stays closed


async def test_only_what_it_is_told_leads_to_the_next_model(wire: WireServer) -> None:
    wire.script = dead("first")
    with pytest.raises(Exception, match="500"):
        await Runs(wire, fall_back_on=ModelInvalidRequestError).go()
    assert calls(wire) == ["first"]


async def test_a_run_stays_with_what_it_has_fallen_back_to(wire: WireServer) -> None:
    def ask() -> str:
        """Ask."""
        return str(interrupt("sure?"))

    def script(request: WireRequest) -> Reply:
        if request.model == "first":
            return Reply(status=500)
        asked = any(message["role"] != "user" for message in request.body["messages"])
        return Reply(f"done by {request.model}") if asked else Reply(calls=[Call("ask")])

    runs = Runs(wire, tools=[ask], failure_threshold=100)
    wire.script = script
    driver = runs.new()
    await driver.go(HELLO)
    (question,) = driver.waiting
    messages = await driver.go(Command(resume={question.id: "yes"}))
    assert (messages[-1].text, calls(wire)) == ("done by second", ["first", "second", "second"])
    wire.script = dead()
    assert (await runs.go()).text == "first"  # another run begins with the first


async def test_the_first_comes_last_in_a_run_that_has_left_it(wire: WireServer) -> None:
    def go_on() -> str:
        """Go on."""
        return "on"

    def script(request: WireRequest) -> Reply:
        first_turn = len(request.body["messages"]) == 1
        if request.model == "first":
            return Reply(status=500) if first_turn else Reply("back")
        return Reply(calls=[Call("go_on")]) if first_turn else Reply(status=500)

    wire.script = script
    messages = await Runs(wire, tools=[go_on]).new().go(HELLO)
    assert (messages[-1].text, calls(wire)) == ("back", ["first", "second", "second", "third", "first"])


async def test_the_last_model_is_called_whatever_is_known_of_it(wire: WireServer) -> None:
    runs = Runs(wire, failure_threshold=1)
    wire.script = dead("first", "second", "third")
    for _ in range(2):
        with pytest.raises(Exception, match="500"):
            await runs.go()
    assert calls(wire) == ["first", "second", "third", "third"]
    wire.script = dead("first", "second")
    assert (await runs.go()).text == "third"


async def test_inside_a_retry_all_models_are_called_before_it_waits(wire: WireServer, clock: Clock) -> None:
    runs = Runs(wire, ModelRetryMiddleware(initial_delay=10))
    wire.script = dead("first", "second", "third")
    driver = runs.new()
    await driver.go(HELLO)
    assert (len(driver.waiting), calls(wire)) == (1, ["first", "second", "third"])
    wire.script = dead("first", "second")
    clock.move(13)
    assert (await driver.go())[-1].text == "third"


async def test_outside_a_retry_each_model_has_its_attempts_and_only_the_last_gives_up(
    wire: WireServer,
) -> None:
    runs = Runs(wire, inside=[ModelRetryMiddleware(max_retries=1, initial_delay=0)])
    wire.script = dead("first", "second")
    assert (await runs.go()).text == "third"
    assert calls(wire) == ["first", "first", "second", "second", "third"]
    wire.script = dead("first", "second", "third")
    assert "failed after 2 attempts" in (await runs.go()).text


async def test_a_pause_says_nothing_of_the_model(wire: WireServer, clock: Clock) -> None:
    """A retry inside that waits off the worker: the call goes on with the same model."""
    inside = [ModelRetryMiddleware(max_retries=1, initial_delay=10)]
    runs = Runs(wire, inside=inside, failure_threshold=1)
    wire.script = dead("first")
    driver = runs.new()
    await driver.go(HELLO)
    wire.script = dead()
    clock.move(13)
    assert (await driver.go())[-1].text == "first"
    assert calls(wire) == ["first", "first"]


async def test_a_sync_agent_falls_back_in_its_thread(wire: WireServer) -> None:
    runs = Runs(wire, failure_threshold=1)
    runs.agent = InThread(runs.agent)
    wire.script = dead("first")
    assert [(await runs.go()).text for _ in range(2)] == ["second", "second"]
    assert calls(wire) == ["first", "second", "second"]


async def test_a_refusal_falls_back_and_is_no_failure_of_the_model() -> None:
    refusing = ScriptedModel(script=[Step(error=ModelRefusalError())], name="refusing")
    fallback = ModelFallbackMiddleware(ScriptedModel(script=["here"]), failure_threshold=1)
    agent = create_agent(refusing, middleware=[fallback], checkpointer=InMemorySaver())
    shared = InMemorySharedState()
    for number in range(2):
        messages = await Driver(agent, shared=shared, run_id=str(number)).go(HELLO)
        assert messages[-1].text == "here"
    assert shared._circuits == {}


async def test_models_without_a_name_have_breakers_of_their_own() -> None:
    asked: list[int] = []

    def scripted(number: int) -> ScriptedModel:
        def answer(_: Any) -> Step:
            asked.append(number)
            return Step("here") if number == 2 else Step(error=ConnectionError("down"))

        return ScriptedModel(script=[answer])

    fallback = ModelFallbackMiddleware(scripted(1), scripted(2), failure_threshold=2)
    agent = create_agent(scripted(0), middleware=[fallback], checkpointer=InMemorySaver())
    shared = InMemorySharedState()
    for number in range(3):
        await Driver(agent, shared=shared, run_id=str(number)).go(HELLO)
    assert asked == [0, 1, 2, 0, 1, 2, 2]


def test_wrong_arguments_are_named(wire: WireServer) -> None:
    for wrong in ({"failure_threshold": 0}, {"cool_down": 0}, {"fall_back_on": "error"}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            ModelFallbackMiddleware(wire.openai(), **wrong)
