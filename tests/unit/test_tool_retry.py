"""Tool retry in a run: each drive stands for another process that goes on where the last one stopped."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from driver import HELLO, Clock, Driver, InThread
from langchain.agents import create_agent
from langchain_core.exceptions import ModelAuthenticationError, ModelRateLimitError
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import NodeCancelledError
from langgraph.types import Command, interrupt

from placet.errors import InvalidInput, LeaseLost, OutcomeUnknown, StoreUnavailable, UnstorableType
from placet.middleware import (
    NOT_DONE,
    HumanInTheLoopMiddleware,
    InMemorySharedState,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    RunContext,
    ToolRetryMiddleware,
    idempotent,
    run_context,
    side_effect,
    stamp_retryable,
)
from placet.middleware.shared import TIMER, UNKNOWN_CALL
from placet.middleware.testing import Call, ScriptedModel, Step

if TYPE_CHECKING:
    from collections.abc import Callable


class World:
    """What the tool did, and what it raises in turn."""

    def __init__(self, *errors: Exception) -> None:
        self.done = 0
        self.errors = list(errors)

    def tool(self, declare: Callable[[Any], Any] = lambda made: made) -> Any:
        async def charge() -> str:
            """Charge."""
            self.done += 1
            if self.errors:
                raise self.errors.pop(0)
            return "charged"

        return tool(declare(charge))


def drive(*tools: Any, middleware: list[Any], shared: InMemorySharedState | None = None) -> Driver:
    model = ScriptedModel(script=[Step(calls=[Call(one.name) for one in tools]), "end"])
    agent = create_agent(model, list(tools), middleware=middleware, checkpointer=InMemorySaver())
    return Driver(agent, shared=shared)


def retry(**options: Any) -> ToolRetryMiddleware:
    return ToolRetryMiddleware(**{"tools": ["charge"], "initial_delay": 0, **options})


def result(messages: list[Any]) -> ToolMessage:
    (found,) = [message for message in messages if isinstance(message, ToolMessage)]
    return found


def down(times: int) -> list[Exception]:
    return [ConnectionError(f"down {n + 1}") for n in range(times)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


async def test_a_named_tool_is_called_until_it_succeeds() -> None:
    world = World(*down(2))
    assert result(await drive(world.tool(), middleware=[retry()]).go(HELLO)).text == "charged"
    assert world.done == 3


async def test_attempts_end_at_the_maximum_and_the_model_is_told() -> None:
    world = World(*down(9))
    message = result(await drive(world.tool(), middleware=[retry()]).go(HELLO))
    assert (message.status, world.done) == ("error", 3)
    assert "failed after 3 attempts with ConnectionError: down 3" in message.text
    world = World(*down(9))
    options = retry(on_failure=lambda error: f"sorry, {error}")
    assert result(await drive(world.tool(), middleware=[options]).go(HELLO)).text == "sorry, down 3"
    with pytest.raises(ConnectionError, match="down 6"):
        await drive(world.tool(), middleware=[retry(on_failure="error")]).go(HELLO)


async def test_a_long_wait_is_a_timer_that_counts_nothing_when_it_is_entered_early(clock: Clock) -> None:
    world = World(*down(9))
    driver = drive(world.tool(), middleware=[retry(initial_delay=10, jitter=False)])
    await driver.go(HELLO)
    (timer,) = driver.waiting
    assert (timer.value["type"], timer.value["due"]) == (TIMER, clock.ms + 10_000)
    for seconds in (0, 7.9):
        clock.move(seconds)
        await driver.go()
        assert driver.waiting == (timer,)
    assert world.done == 1
    clock.move(2.1)
    await driver.go()
    assert driver.waiting[0].value["due"] == clock.ms + 20_000
    assert driver.waiting[0].id != timer.id
    clock.move(20)
    message = result(await driver.go())
    assert (message.status, world.done) == ("error", 3)
    assert "after 3 attempts" in message.text


async def test_a_short_wait_is_made_on_the_worker_and_survives_it() -> None:
    world = World(*down(9))
    driver = drive(world.tool(), middleware=[retry(initial_delay=0.3, jitter=False, backoff_factor=0.0)])
    await driver.die(HELLO, when=lambda: driver.backs_off_after(1))
    await driver.die(None, when=lambda: driver.backs_off_after(2))
    message = result(await driver.go())
    assert (driver.waiting, message.status, world.done) == ((), "error", 3)


@pytest.mark.parametrize("named", [True, False])
async def test_an_interrupt_inside_every_retry_and_fallback_is_one_request(*, named: bool) -> None:
    asked = 0

    async def charge() -> str:
        """Charge."""
        nonlocal asked
        asked += 1
        return str(interrupt("sure?"))

    fallback = ModelFallbackMiddleware(ScriptedModel(script=[]), ScriptedModel(script=[]))
    tools = ["charge"] if named else None
    chain = [ModelRetryMiddleware(max_retries=3), fallback, retry(max_retries=3, tools=tools)]
    driver = drive(tool(charge), middleware=chain)
    await driver.go(HELLO)
    (question,) = driver.waiting
    assert (question.value, asked) == ("sure?", 1)
    messages = await driver.go(Command(resume={question.id: "yes"}))
    assert (result(messages).text, messages[-1].text, asked) == ("yes", "end", 2)


READ_TIMEOUT = "the charge was sent, and nothing came back"


async def test_a_tool_that_nobody_said_may_run_again_is_asked_about() -> None:
    world = World(TimeoutError(READ_TIMEOUT))
    driver = drive(world.tool(), middleware=[retry(tools=None)])
    await driver.go(HELLO)
    (question,) = driver.waiting
    assert world.done == 1
    assert (
        f"charge failed with TimeoutError, and may have taken effect all the same: {READ_TIMEOUT}"
        in (question.value["description"])
    )
    await driver.go()
    assert (driver.waiting, world.done) == ((question,), 1)
    messages = await driver.go(**{question.id: {"type": "approve"}})
    assert (result(messages).text, world.done) == ("charged", 2)


@pytest.mark.parametrize(
    ("decision", "text", "status"),
    [
        ({"type": "respond", "message": "it is on the statement"}, "it is on the statement", "success"),
        ({"type": "reject", "message": "leave it"}, "leave it", "error"),
    ],
)
async def test_what_is_answered_then_is_its_result(decision: Any, text: str, status: str) -> None:
    world = World(TimeoutError(READ_TIMEOUT))
    driver = drive(world.tool(), middleware=[retry(tools=None)])
    await driver.go(HELLO)
    message = result(await driver.go(**{driver.waiting[0].id: decision}))
    assert (message.status, world.done) == (status, 1)
    assert message.text.endswith(text)


async def test_each_failure_is_asked_about_up_to_the_maximum() -> None:
    world = World(*[TimeoutError(READ_TIMEOUT)] * 9)
    driver = drive(world.tool(), middleware=[retry(tools=None)])
    await driver.go(HELLO)
    asked = set()
    for _ in range(2):
        asked.add(driver.waiting[0].id)
        messages = await driver.go(**{driver.waiting[0].id: {"type": "approve"}})
    assert len(asked) == 2
    assert (driver.waiting, world.done) == ((), 3)
    assert "after 3 attempts with TimeoutError" in result(messages).text


@pytest.mark.parametrize(
    ("declare", "effects"),
    [
        (idempotent, 2),
        (side_effect(on_unknown="rerun"), 2),
        (side_effect(verify=lambda _: NOT_DONE), 2),
        (side_effect(verify=lambda _: "charged"), 1),
    ],
)
async def test_a_tool_that_declares_what_holds_asks_nobody(declare: Any, effects: int) -> None:
    world = World(TimeoutError(READ_TIMEOUT))
    message = result(await drive(world.tool(declare), middleware=[retry(tools=None)]).go(HELLO))
    assert (message.text, world.done) == ("charged", effects)


@pytest.mark.usefixtures("clock")
async def test_a_person_is_asked_at_once_and_a_lookup_after_the_backoff() -> None:
    world = World(TimeoutError(READ_TIMEOUT))
    driver = drive(world.tool(), middleware=[retry(tools=None, initial_delay=9)])
    await driver.go(HELLO)
    assert [one.value["type"] for one in driver.waiting] == [UNKNOWN_CALL]
    # without a ledger nobody is asked, and the backoff stays
    by_hand = World(TimeoutError(READ_TIMEOUT))
    agent = drive(by_hand.tool(), middleware=[retry(tools=None, initial_delay=9)])
    with run_context(RunContext(run_id="r", shared=InMemorySharedState())):
        out = await agent.agent.ainvoke(HELLO, agent.config, version="v2", durability="sync")
    assert [one.value["type"] for one in out.interrupts] == [TIMER]
    world = World(TimeoutError(READ_TIMEOUT))
    looked_up = world.tool(side_effect(verify=lambda _: NOT_DONE))
    driver = drive(looked_up, middleware=[retry(tools=None, initial_delay=9)])
    await driver.go(HELLO)
    assert [one.value["type"] for one in driver.waiting] == [TIMER]


async def test_a_tool_that_is_to_fail_when_unknown_ends_the_run() -> None:
    world = World(TimeoutError(READ_TIMEOUT))
    driver = drive(world.tool(side_effect(on_unknown="fail")), middleware=[retry(tools=None)])
    with pytest.raises(OutcomeUnknown):
        await driver.go(HELLO)
    assert world.done == 1


@pytest.mark.parametrize(
    "error",
    [
        stamp_retryable(ConnectionError("no"), False),
        stamp_retryable(ModelRateLimitError("no"), False),
        ModelAuthenticationError("no"),
        UnstorableType("X", "no"),
        asyncio.CancelledError,
    ],
)
@pytest.mark.parametrize("named", [True, False])
async def test_final_errors_are_neither_retried_nor_asked_about(error: Any, *, named: bool) -> None:
    world = World(error)
    driver = drive(world.tool(), middleware=[retry(tools=["charge"] if named else None)])
    with pytest.raises(NodeCancelledError if isinstance(error, type) else type(error)):
        await driver.go(HELLO)
    assert world.done == 1


async def test_a_mark_outweighs_the_class() -> None:
    world = World(stamp_retryable(ModelAuthenticationError("a hiccup"), True))
    assert result(await drive(world.tool(), middleware=[retry()]).go(HELLO)).text == "charged"


@pytest.mark.parametrize(
    "retry_on",
    [ConnectionError, [ConnectionError, KeyError], (OSError,), lambda error: "down" in str(error)],
)
async def test_what_is_retried_is_a_class_a_list_or_a_function(retry_on: Any) -> None:
    world = World(*down(1), ValueError("up"))
    with pytest.raises(ValueError, match="up"):
        await drive(world.tool(), middleware=[retry(retry_on=retry_on)]).go(HELLO)
    assert world.done == 2


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"retry_on": "ConnectionError"}, "retry_on"),
        ({"retry_on": ["ConnectionError"]}, "retry_on"),
        ({"retry_on": str}, "retry_on"),
        ({"on_failure": "explode"}, "on_failure"),
        ({"park_after": -1}, "park_after"),
        ({"max_total_wait": float("nan")}, "max_total_wait"),
        ({"max_retries": -1}, "max_retries"),
        ({"max_delay": -1}, "max_delay"),
    ],
)
@pytest.mark.parametrize("kind", [ToolRetryMiddleware, ModelRetryMiddleware])
def test_wrong_arguments_are_named(kind: Any, wrong: Any, field: str) -> None:
    with pytest.raises(ValueError, match=field) as raised:
        kind(**wrong)
    assert field.startswith("max_") or isinstance(raised.value, InvalidInput)


async def test_two_in_one_agent_count_apart(clock: Clock) -> None:
    """Three attempts at what fails within one of two, and each wait outlives its process."""
    world = World(*down(9))
    outer = retry(max_retries=1, initial_delay=100, max_delay=100, name="outer", jitter=False)
    inner = retry(max_retries=2, initial_delay=10, jitter=False, backoff_factor=0.0, on_failure="error")
    driver = drive(world.tool(), middleware=[outer, inner])
    messages = await driver.go(HELLO)
    waits = []
    while driver.waiting:
        waits.append((driver.waiting[0].value["due"] - clock.ms) // 1000)
        clock.move(waits[-1])
        messages = await driver.go()
    assert waits == [10, 10, 100, 10, 10]
    assert world.done == 6
    assert "after 2 attempts with ConnectionError: down 6" in result(messages).text


async def test_parallel_calls_wait_and_fail_apart(clock: Clock) -> None:
    one, other = World(*down(1)), World(*down(2))
    refund = other.tool()
    refund.name = "refund"
    chain = [retry(tools=["charge", refund], initial_delay=10, jitter=False)]
    driver = drive(one.tool(), refund, middleware=chain)
    await driver.go(HELLO)
    assert len(driver.waiting) == 2
    clock.move(10)
    await driver.go()
    assert (len(driver.waiting), one.done, other.done) == (1, 2, 2)
    clock.move(20)
    messages = await driver.go()
    assert [m.text for m in messages if isinstance(m, ToolMessage)] == ["charged", "charged"]
    assert (one.done, other.done) == (2, 3)


async def test_a_persons_answer_wakes_no_timer(clock: Clock) -> None:
    """A gate beside it is answered before the wait is over: the tool is entered early, and waits on."""
    world, gated = World(*down(1)), World()
    refund = gated.tool()
    refund.name = "refund"
    gate = HumanInTheLoopMiddleware({"refund": True}, interrupt_mode="per_call")
    driver = drive(world.tool(), refund, middleware=[gate, retry(initial_delay=10, jitter=False)])
    await driver.go(HELLO)
    timer, question = sorted(driver.waiting, key=lambda one: one.value["type"])
    assert timer.value["type"] == TIMER
    await driver.go(Command(resume={question.id: {"type": "approve"}}))
    assert (driver.waiting, world.done, gated.done) == ((timer,), 1, 1)
    clock.move(10)
    messages = await driver.go()
    assert [m.text for m in messages if isinstance(m, ToolMessage)] == ["charged", "charged"]
    assert (driver.waiting, world.done, gated.done) == ((), 2, 1)


async def test_a_subagents_model_waits_off_the_worker_too(clock: Clock) -> None:
    asked = 0

    def answer(_: Any) -> Step | str:
        nonlocal asked
        asked += 1
        return Step(error=ConnectionError("down")) if asked < 3 else "found"

    inner: Any = create_agent(
        ScriptedModel(script=[answer]), middleware=[ModelRetryMiddleware(initial_delay=10, jitter=False)]
    )

    @tool
    @idempotent
    async def charge() -> str:
        """Have it done."""
        return str((await inner.ainvoke(HELLO))["messages"][-1].text)

    driver = drive(charge, middleware=[retry()])
    await driver.go(HELLO)
    for seconds in (10, 20):
        (timer,) = driver.waiting
        assert timer.value["type"] == TIMER
        await driver.go()
        assert driver.waiting == (timer,)
        clock.move(seconds)
        messages = await driver.go()
    assert (driver.waiting, result(messages).text, asked) == ((), "found", 3)


async def test_a_run_that_is_retried_begins_to_count_again() -> None:
    world = World(*down(4))
    driver = drive(world.tool(), middleware=[retry(on_failure="error")])
    with pytest.raises(ConnectionError):
        await driver.go(HELLO)
    await driver.shared.forget_failures("r")
    assert result(await driver.go()).text == "charged"
    assert world.done == 5


async def test_a_sync_agent_retries_in_its_thread() -> None:
    calls = 0

    def charge() -> str:
        """Charge."""
        nonlocal calls
        calls += 1
        if calls < 3:
            raise ConnectionError("down")
        return "charged"

    model = ScriptedModel(script=[Step(calls=[Call("charge")]), "end"])
    agent = create_agent(model, [tool(charge)], middleware=[retry()], checkpointer=InMemorySaver())
    assert result(await Driver(InThread(agent)).go(HELLO)).text == "charged"
    assert calls == 3


@pytest.mark.parametrize("refusal", [LeaseLost("t"), StoreUnavailable("away")])
async def test_a_store_that_refuses_is_no_failure_of_the_tool(refusal: Exception) -> None:
    class Refusing(InMemorySharedState):
        async def start_try(self, *_: Any, **__: Any) -> Any:
            raise refusal

    world = World()
    outer = retry(name="outer", retry_on=Exception)
    driver = drive(world.tool(), middleware=[outer, retry()], shared=Refusing())
    with pytest.raises(type(refusal)):
        await driver.go(HELLO)
    assert world.done == 0


@pytest.mark.parametrize("seconds", [0, 10])
async def test_each_attempt_has_its_own_question_and_its_own_subagent(clock: Clock, seconds: int) -> None:
    """LangGraph tells both by their position: attempts before the pause count, wherever they were made."""
    asked: list[Any] = []
    prompts: list[str] = []
    attempt = 0
    model = ScriptedModel(script=[lambda messages: f"did {messages[-1].text}"])
    helper = create_agent(model, [])

    @tool
    @idempotent
    async def charge() -> str:
        """Charge."""
        nonlocal attempt
        number = attempt
        out = await helper.ainvoke({"messages": [{"role": "user", "content": f"attempt {number}"}]})
        prompts.append(out["messages"][-1].text)
        asked.append((number, interrupt(f"charge {number}?")))
        attempt += 1
        if attempt < 3:
            raise ConnectionError("down")
        return "charged"

    driver = drive(charge, middleware=[retry(initial_delay=seconds, backoff_factor=1, jitter=False)])
    messages = await driver.go(HELLO)
    for number in range(3):
        (question,) = driver.waiting
        assert question.value == f"charge {number}?"
        messages = await driver.go(Command(resume={question.id: f"answer {number}"}))
        while driver.waiting and isinstance(driver.waiting[0].value, dict):
            clock.move(seconds)
            messages = await driver.go()
    assert result(messages).text == "charged"
    assert asked == [(number, f"answer {number}") for number in range(3)]
    assert set(prompts) == {f"did attempt {number}" for number in range(3)}
