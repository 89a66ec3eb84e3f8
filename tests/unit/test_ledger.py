"""The ledger in one process: each drive stands for another that goes on where the last one stopped."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ToolRetryMiddleware
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, RetryPolicy, interrupt

from placet.errors import EarlierToolError, InvalidInput, NoRun, NoToolCall, OutcomeUnknown
from placet.execution.tool_guard import guard_tools
from placet.middleware import (
    NOT_DONE,
    InMemorySharedState,
    RunContext,
    ToolLedgerMiddleware,
    UnknownCall,
    current_idempotency_key,
    idempotent,
    run_context,
    side_effect,
)
from placet.middleware.testing import Call, ScriptedModel, Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from langgraph.types import Interrupt


class World:
    """What tools did, and where they die."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.keys: list[str] = []
        self.dies: set[str] = set()
        self.fails: list[type[Exception]] = []

    async def effect(self, name: str) -> str:
        """Have an effect; then, if the test says so, never come back."""
        self.done.append(name)
        self.keys.append(current_idempotency_key())
        if name in self.dies:
            await asyncio.Event().wait()
        if self.fails:
            raise self.fails.pop(0)(f"{name} failed")
        return f"{name} done"


class Driver:
    """An agent on one thread of one run."""

    def __init__(self, make: Callable[[InMemorySaver], Any], *, world: World, **context: Any) -> None:
        self.make, self.world, self.context = make, world, context
        self.saver = InMemorySaver()
        self.shared = InMemorySharedState()
        self.config: Any = {"configurable": {"thread_id": "t", "__pregel_strict_resume": True}}
        self.interrupts: list[Interrupt] = []

    async def go(self, given: object = None, **answers: dict[str, Any]) -> list[Any]:
        """Drive to a pause or the end in what stands for a new process; the thread's messages."""
        context = RunContext(run_id="r", shared=self.shared, answers=answers, **self.context)
        with run_context(context):
            out = await self.make(self.saver).ainvoke(given, self.config, version="v2", durability="sync")
            await context.settled()
        self.interrupts = list(out.interrupts)
        messages: list[Any] = out.value["messages"]
        return messages

    async def die(self, given: object, *where: str) -> None:
        """Drive until tools are in their effect, and go away there."""
        self.world.dies = set(where)
        before = len(self.world.done)
        task = asyncio.create_task(self.go(given))
        async with asyncio.timeout(10):
            while not set(where) <= set(self.world.done[before:]):  # noqa: ASYNC110 - a list has no event
                await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        self.world.dies = set()

    @property
    def question(self) -> Interrupt:
        (found,) = self.interrupts
        assert found.value["type"] == "placet.unknown"
        return found


HELLO: Any = {"messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(params=["guard", "by hand"])
def drive(request: pytest.FixtureRequest, world: World) -> Callable[..., Driver]:
    """Makes a driver of an agent with these tools and calls: guarded as by a worker, or by the middleware."""
    if request.param == "guard":
        guard_tools()

    def made(*tools: Any, calls: Any = None, middleware: tuple[Any, ...] = (), **options: Any) -> Driver:
        script = calls or [Step(calls=[Call(one.name, {}) for one in tools]), "end"]
        ledger = ToolLedgerMiddleware(**options)
        chain = [*middleware, ledger]

        def agent(saver: InMemorySaver) -> Any:
            return create_agent(
                ScriptedModel(script=script), list(tools), middleware=chain, checkpointer=saver
            )

        return Driver(agent, world=world, guarded=request.param == "guard")

    return made


def texts(messages: list[Any]) -> list[str]:
    return [message.text for message in messages if isinstance(message, ToolMessage)]


def tool_of(world: World, name: str = "pay") -> Any:
    async def effect() -> str:
        return await world.effect(name)

    effect.__name__ = name
    effect.__doc__ = name
    return effect


async def test_a_call_is_asked_about_and_run_again(drive: Any, world: World) -> None:
    driver = drive(tool(tool_of(world)))
    await driver.die(HELLO, "pay")
    await driver.go()
    question = driver.question
    assert question.value["tool"] == "pay"
    assert "may have taken effect" in question.value["description"]
    assert await driver.go() is not None  # entered again without an answer: the same question
    assert driver.question.id == question.id
    messages = await driver.go(**{question.id: {"type": "approve"}})
    assert (texts(messages), world.done) == (["pay done"], ["pay", "pay"])
    assert len(set(world.keys)) == 1


async def test_a_second_death_is_a_new_question(drive: Any, world: World) -> None:
    driver = drive(tool(tool_of(world)))
    await driver.die(HELLO, "pay")
    await driver.go()
    first = driver.question
    driver.world.dies = {"pay"}
    task = asyncio.create_task(driver.go(**{first.id: {"type": "approve"}}))
    async with asyncio.timeout(10):
        while len(world.done) < 2:  # noqa: ASYNC110 - a list has no event
            await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    await driver.go(**{first.id: {"type": "approve"}})
    assert driver.question.id != first.id
    assert world.done == ["pay", "pay"]


async def test_a_call_is_taken_as_done(drive: Any, world: World) -> None:
    driver = drive(tool(tool_of(world)))
    await driver.die(HELLO, "pay")
    await driver.go()
    messages = await driver.go(**{driver.question.id: {"type": "respond", "message": "paid, I looked"}})
    assert (texts(messages), world.done) == (["paid, I looked"], ["pay"])


async def test_a_call_is_given_up(drive: Any, world: World) -> None:
    driver = drive(tool(tool_of(world)))
    await driver.die(HELLO, "pay")
    await driver.go()
    messages = await driver.go(**{driver.question.id: {"type": "reject", "message": "leave it"}})
    (message,) = [one for one in messages if isinstance(one, ToolMessage)]
    assert (message.status, world.done) == ("error", ["pay"])
    assert message.text.endswith("leave it")


@pytest.mark.parametrize("above", [True, False])
async def test_idempotent_tools_run_again(drive: Any, world: World, *, above: bool) -> None:
    function = tool_of(world)
    declared = idempotent(tool(function)) if above else tool(idempotent(function))
    driver = drive(declared)
    await driver.die(HELLO, "pay")
    messages = await driver.go()
    assert (texts(messages), world.done) == (["pay done"], ["pay", "pay"])


async def test_a_tool_that_fails_when_unknown_ends_the_run_whatever_retries_it(
    drive: Any, world: World
) -> None:
    driver = drive(
        tool(side_effect(on_unknown="fail")(tool_of(world))),
        middleware=(ToolRetryMiddleware(initial_delay=0),),
    )
    await driver.die(HELLO, "pay")
    with pytest.raises(OutcomeUnknown, match="'pay'"):
        await driver.go()
    assert world.done == ["pay"]


@pytest.mark.parametrize("asynchronous", [True, False])
@pytest.mark.parametrize(
    ("found", "done", "text"),
    [
        ("receipt 7", 1, "receipt 7"),
        ({"receipt": 7}, 1, '{"receipt": 7}'),
        (NOT_DONE, 2, "pay done"),
        (ToolMessage("as it was", tool_call_id="call_1_0_0", name="pay"), 1, "as it was"),
    ],
)
async def test_a_tool_is_looked_up(
    drive: Any, world: World, *, found: Any, done: int, text: str, asynchronous: bool
) -> None:
    asked: list[UnknownCall] = []

    async def verify_async(call: UnknownCall) -> Any:
        return verify(call)

    def verify(call: UnknownCall) -> Any:
        asked.append(call)
        return found

    declared = side_effect(verify=verify_async if asynchronous else verify)
    driver = drive(tool(declared(tool_of(world))))
    await driver.die(HELLO, "pay")
    messages = await driver.go()
    assert (texts(messages), len(world.done)) == ([text], done)
    assert [(one.tool, one.args, one.tool_call_id) for one in asked] == [("pay", {}, "call_1_0_0")]
    assert asked[0].idempotency_key == world.keys[0]


@pytest.mark.parametrize("raises", [True, False])
async def test_a_look_up_that_cannot_tell_asks(drive: Any, world: World, *, raises: bool) -> None:
    def verify(_: UnknownCall) -> None:
        if raises:
            raise ConnectionError("down")

    driver = drive(tool(side_effect(verify=verify)(tool_of(world))))
    await driver.die(HELLO, "pay")
    await driver.go()
    question = driver.question
    assert question.value["tool"] == "pay"
    assert f"Its idempotency key is {world.keys[0]}." in question.value["description"]
    assert re.search(r"started at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", question.value["description"])
    told = "Its verify function failed with ConnectionError." if raises else ""
    assert question.value["told"] == told
    assert world.done == ["pay"]
    # an answer counts, whatever the look-up says by then
    raises = not raises
    messages = await driver.go(**{question.id: {"type": "respond", "message": "it is paid"}})
    assert texts(messages) == ["it is paid"]


async def test_the_middleware_says_what_holds_for_tools_by_name(drive: Any, world: World) -> None:
    options = {"on_unknown": {"pay": "rerun", "mail": "fail"}}
    driver = drive(tool(tool_of(world)), **options)
    await driver.die(HELLO, "pay")
    assert texts(await driver.go()) == ["pay done"]
    driver = drive(tool(idempotent(tool_of(world, "mail"))), **options)
    await driver.die(HELLO, "mail")
    with pytest.raises(OutcomeUnknown):
        await driver.go()


async def test_the_middleware_says_what_holds_for_tools_that_declare_nothing(
    drive: Any, world: World
) -> None:
    driver = drive(tool(tool_of(world)), tool(side_effect()(tool_of(world, "mail"))), on_unknown="rerun")
    await driver.die(HELLO, "pay", "mail")
    await driver.go()
    assert driver.question.value["tool"] == "mail"
    assert world.done.count("pay") == 2


def test_wrong_options_are_refused() -> None:
    with pytest.raises(InvalidInput, match="'again' is neither rerun, fail nor ask"):
        side_effect(on_unknown="again")  # type: ignore[arg-type]
    wrong: Any
    for wrong, message in (
        ({"on_unknown": {"look_up": "rerun", "pay": "again"}}, r"on_unknown\['pay'\]: 'again' is neither"),
        ({"on_unknown": ["pay"]}, "on_unknown: must be a dict by tools' names, not a list"),
        ({"on_unknown": "again"}, "on_unknown: 'again' is neither rerun, fail nor ask"),
        ({"verify": {"pay": "look"}}, r"verify\['pay'\]: a function is wanted, not a str"),
        ({"verify": "look"}, "verify: must be a dict by tools' names, not a str"),
    ):
        with pytest.raises(InvalidInput, match=f"^{message}"):
            ToolLedgerMiddleware(**wrong)


async def test_the_middleware_needs_a_run() -> None:
    async def pay() -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel(script=[Step(calls=[Call("pay")]), "end"])
    with pytest.raises(NoRun, match="run_context"):
        await create_agent(model, [pay], middleware=[ToolLedgerMiddleware()]).ainvoke(HELLO)
    with pytest.raises(NoToolCall):
        current_idempotency_key()


async def test_retries_are_attempts_of_their_own_and_are_counted_over_a_death(
    drive: Any, world: World
) -> None:
    """Killed in the third of three attempts: the failed two are not made again, the third is asked about."""
    world.fails = [ConnectionError, ConnectionError]
    driver = drive(
        tool(tool_of(world)),
        middleware=(ToolRetryMiddleware(max_retries=2, initial_delay=0, retry_on=(ConnectionError,)),),
    )
    world.dies = set()
    dying = asyncio.create_task(driver.go(HELLO))

    async def stop_at_third() -> None:
        async with asyncio.timeout(10):
            while len(world.done) < 2:  # noqa: ASYNC110 - a list has no event
                await asyncio.sleep(0)
            world.dies = {"pay"}
            while len(world.done) < 3:  # noqa: ASYNC110 - same
                await asyncio.sleep(0)

    await stop_at_third()
    dying.cancel()
    await asyncio.wait([dying])
    world.dies = set()
    await driver.go()
    assert "attempt 3" in driver.question.value["description"]
    assert len(world.done) == 3
    assert len(set(world.keys)) == 1
    messages = await driver.go(**{driver.question.id: {"type": "approve"}})
    assert (texts(messages), len(world.done)) == (["pay done"], 4)


async def test_a_failed_attempt_is_not_made_again_until_the_run_is_retried(drive: Any, world: World) -> None:
    world.fails = [ConnectionError]
    driver = drive(tool(tool_of(world)))
    with pytest.raises(ConnectionError, match="pay failed"):
        await driver.go(HELLO)
    with pytest.raises(EarlierToolError, match="pay failed") as failed:
        await driver.go()
    assert isinstance(failed.value, ConnectionError)
    assert failed.value.type_name == "ConnectionError"
    assert world.done == ["pay"]
    await driver.shared.forget_failures("r")
    assert texts(await driver.go()) == ["pay done"]


async def test_a_retry_of_the_run_keeps_what_is_unknown(drive: Any, world: World) -> None:
    """The first attempt failed, the second was under way: that one is still asked about."""
    world.fails = [ConnectionError]
    driver = drive(tool(tool_of(world)), middleware=(ToolRetryMiddleware(initial_delay=0),))
    task = asyncio.create_task(driver.go(HELLO))
    async with asyncio.timeout(10):
        while not world.done:  # noqa: ASYNC110 - a list has no event
            await asyncio.sleep(0)
        world.dies = {"pay"}
        while len(world.done) < 2:  # noqa: ASYNC110 - same
            await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    world.dies = set()
    await driver.shared.forget_failures("r")
    await driver.go()
    assert driver.question.value["tool"] == "pay"
    assert len(world.done) == 2


async def test_a_result_that_was_not_checkpointed_comes_from_the_ledger(drive: Any, world: World) -> None:
    """A sibling's error ends the step: what the other call returned is in no checkpoint."""
    boom = tool_of(world, "boom")

    class NoWrites(InMemorySaver):
        async def aput_writes(self, *args: Any, **kwargs: Any) -> None:
            """Lose what tasks return."""

    driver = drive(tool(tool_of(world)), tool(boom))
    driver.saver = NoWrites()
    await driver.die(HELLO, "boom")
    await driver.go()
    assert (driver.question.value["tool"], world.done.count("pay")) == ("boom", 1)
    messages = await driver.go(**{driver.question.id: {"type": "respond", "message": "ok"}})
    assert (texts(messages), world.done.count("pay")) == (["pay done", "ok"], 1)


async def test_artifacts_and_commands_come_back(drive: Any, world: World) -> None:
    @tool(response_format="content_and_artifact")
    async def report() -> tuple[str, dict[str, Any]]:
        """Report."""
        return await world.effect("report"), {"rows": [1, 2]}

    @tool
    async def move() -> Command[Any]:
        """Move."""
        await world.effect("move")
        message = ToolMessage("moved", tool_call_id="call_1_0_1", name="move")
        return Command(update={"messages": [message]})

    class NoWrites(InMemorySaver):
        async def aput_writes(self, *args: Any, **kwargs: Any) -> None:
            """Lose what tasks return."""

    driver = drive(report, move, tool(tool_of(world, "late")))
    driver.saver = NoWrites()
    await driver.die(HELLO, "late")
    await driver.go()
    messages = await driver.go(**{driver.question.id: {"type": "respond", "message": "ok"}})
    assert texts(messages) == ["report done", "moved", "ok"]
    assert next(one for one in messages if isinstance(one, ToolMessage)).artifact == {"rows": [1, 2]}
    assert sorted(world.done) == ["late", "move", "report"]


@pytest.mark.parametrize("artifact", [object(), "x" * (5 * 1024 * 1024)], ids=["unserializable", "large"])
async def test_a_result_that_cannot_be_kept_is_unknown(drive: Any, world: World, artifact: Any) -> None:
    @tool(response_format="content_and_artifact")
    async def report() -> tuple[str, Any]:
        """Report."""
        return await world.effect("report"), artifact

    class NoWrites(InMemorySaver):
        async def aput_writes(self, *args: Any, **kwargs: Any) -> None:
            """Lose what tasks return."""

    driver = drive(report, tool(tool_of(world, "late")))
    driver.saver = NoWrites()
    await driver.die(HELLO, "late")
    await driver.go()
    asked = {one.value["tool"]: one.value["description"] for one in driver.interrupts}
    assert set(asked) == {"report", "late"}
    assert "ran to its end" in asked["report"]
    assert world.done.count("report") == 1


async def test_call_ids_that_are_used_again_in_the_next_turn(drive: Any, world: World) -> None:
    step = Step(calls=[Call("pay", {}, id="call_0")])
    driver = drive(tool(tool_of(world)), calls=[step, step, "end"])
    messages = await driver.go(HELLO)
    assert (texts(messages), world.done) == (["pay done", "pay done"], ["pay", "pay"])
    assert len(set(world.keys)) == 2


async def test_call_ids_that_are_used_twice_in_one_message(drive: Any, world: World) -> None:
    @tool
    async def pay(to: str) -> str:
        """Pay."""
        return await world.effect(to)

    step = Step(calls=[Call("pay", {"to": "ann"}, id="call_0"), Call("pay", {"to": "bob"}, id="call_0")])
    driver = drive(pay, calls=[step, "end"])
    await driver.go(HELLO)
    assert sorted(world.done) == ["ann", "bob"]


async def test_an_interrupt_in_a_tool_is_neither_a_result_nor_an_error(drive: Any, world: World) -> None:
    @tool
    async def paint() -> str:
        """Paint."""
        colour = interrupt("colour?")
        return f"{await world.effect('paint')}: {colour}"

    driver = drive(paint, middleware=(ToolRetryMiddleware(initial_delay=0),))
    await driver.go(HELLO)
    (pause,) = driver.interrupts
    assert pause.value == "colour?"
    messages = await driver.go(Command(resume={pause.id: "red"}))
    assert (texts(messages), world.done) == (["paint done: red"], ["paint"])


@pytest.mark.parametrize("first", ["gate", "question"])
async def test_beside_a_gate_in_any_order(drive: Any, world: World, first: str) -> None:
    gate = HumanInTheLoopMiddleware(interrupt_on={"mail": True, "pay": True}, interrupt_mode="per_call")
    driver = drive(tool(tool_of(world)), tool(tool_of(world, "mail")), middleware=(gate,))
    await driver.go(HELLO)
    gates = {one.value["name"]: one.id for one in driver.interrupts}
    await driver.die(Command(resume={gates["pay"]: {"type": "approve"}}), "pay")
    await driver.go(Command(resume={gates["pay"]: {"type": "approve"}}))
    (question,) = [one for one in driver.interrupts if one.value["type"] == "placet.unknown"]
    assert len(driver.interrupts) == 2
    answer = {question.id: {"type": "respond", "message": "was paid"}}
    approved: Command[Any] = Command(resume={gates["mail"]: {"type": "approve"}})
    if first == "gate":
        await driver.go(approved)
        assert [one.id for one in driver.interrupts] == [question.id]
        messages = await driver.go(None, **answer)
    else:
        await driver.go(None, **answer)
        assert [one.id for one in driver.interrupts] == [gates["mail"]]
        messages = await driver.go(approved)
    assert (texts(messages), world.done) == (["was paid", "mail done"], ["pay", "mail"])


async def test_behind_a_batched_gate(drive: Any, world: World) -> None:
    gate = HumanInTheLoopMiddleware(interrupt_on={"mail": True, "pay": True})
    driver = drive(tool(tool_of(world)), tool(tool_of(world, "mail")), middleware=(gate,))
    await driver.go(HELLO)
    (asked,) = driver.interrupts
    await driver.die(
        Command(resume={asked.id: {"decisions": [{"type": "approve"}, {"type": "approve"}]}}), "pay"
    )
    await driver.go()
    messages = await driver.go(**{driver.question.id: {"type": "approve"}})
    assert texts(messages) == ["pay done", "mail done"]
    assert sorted(world.done) == ["mail", "pay", "pay"]


def single_node(tools: list[Any], calls: list[Any], **options: Any) -> Callable[[InMemorySaver], Any]:
    """A graph whose one node executes all calls, as older agents have it."""

    def graph(saver: InMemorySaver) -> Any:
        async def model(state: MessagesState) -> Any:
            if any(isinstance(message, ToolMessage) for message in state["messages"]):
                return {"messages": [AIMessage("end")]}
            return {"messages": [AIMessage("", tool_calls=calls)]}

        def route(state: MessagesState) -> str:
            last = state["messages"][-1]
            return "tools" if isinstance(last, AIMessage) and last.tool_calls else "__end__"

        return (
            StateGraph(MessagesState)
            .add_node("model", model)
            .add_node("tools", ToolNode(tools), **options)
            .add_edge(START, "model")
            .add_conditional_edges("model", route)
            .add_edge("tools", "model")
            .compile(checkpointer=saver)
        )

    return graph


def called(*names: str) -> list[Any]:
    return [{"name": name, "args": {}, "id": f"c{n}", "type": "tool_call"} for n, name in enumerate(names)]


async def test_answers_keep_their_questions_when_calls_share_a_node(world: World) -> None:
    """LangGraph tells interrupts by position: a call that is not executed again must take its own."""
    guard_tools()

    def asking(name: str) -> Any:
        async def ask() -> str:
            answer = interrupt(f"{name}?")
            return f"{await world.effect(name)}: {answer}"

        ask.__name__, ask.__doc__ = name, name
        return tool(ask)

    graph = single_node([asking("left"), asking("right")], called("left", "right"))
    driver = Driver(graph, world=world, guarded=True)
    await driver.go(HELLO)
    asked = []
    while driver.interrupts:
        (pause,) = driver.interrupts
        asked.append(pause.value)
        messages = await driver.go(Command(resume={pause.id: f"answer to {pause.value}"}))
    assert texts(messages) == ["left done: answer to left?", "right done: answer to right?"]
    assert (asked, world.done) == (["left?", "right?"], ["left", "right"])


async def test_a_call_beside_one_that_pauses_is_waited_for(world: World) -> None:
    """LangGraph does not: whoever gives the run away while the call still runs loses its result."""
    guard_tools()
    leave = asyncio.Event()

    @tool
    async def slow() -> str:
        """Take long."""
        done = await world.effect("slow")
        await leave.wait()
        return done

    @tool
    async def ask() -> str:
        """Ask."""
        return str(interrupt("go on?"))

    driver = Driver(single_node([slow, ask], called("slow", "ask")), world=world, guarded=True)
    context = RunContext(run_id="r", shared=driver.shared, guarded=True)
    with run_context(context):
        out = await driver.make(driver.saver).ainvoke(HELLO, driver.config, version="v2", durability="sync")
    settled = asyncio.create_task(context.settled())
    await asyncio.sleep(0)
    assert not settled.done()
    leave.set()
    await settled
    messages = await driver.go(Command(resume={out.interrupts[0].id: "yes"}))
    assert (texts(messages), world.done) == (["slow done", "yes"], ["slow"])


async def test_a_nodes_retry_makes_new_attempts_and_keeps_results(world: World) -> None:
    guard_tools()
    world.fails = []

    @tool
    async def flaky() -> str:
        """Fail once."""
        await world.effect("flaky")
        if world.done.count("flaky") == 1:
            await asyncio.sleep(0)
            raise ConnectionError("down")
        return "flaky done"

    policy = RetryPolicy(initial_interval=0, jitter=False)
    graph = single_node([tool(tool_of(world)), flaky], called("pay", "flaky"), retry_policy=policy)
    messages = await Driver(graph, world=world, guarded=True).go(HELLO)
    assert texts(messages) == ["pay done", "flaky done"]
    assert sorted(world.done) == ["flaky", "flaky", "pay"]


async def test_a_synchronous_wrapper_of_a_tool_node_is_guarded(world: World) -> None:
    guard_tools()

    @tool
    def count() -> str:
        """Count."""
        world.done.append("count")
        world.keys.append(current_idempotency_key())
        return "counted"

    def graph(saver: InMemorySaver) -> Any:
        node = ToolNode([count], wrap_tool_call=lambda request, execute: execute(request))
        return (
            StateGraph(MessagesState)
            .add_node("tools", node)
            .add_edge(START, "tools")
            .compile(checkpointer=saver)
        )

    driver = Driver(graph, world=world, guarded=True)
    message = AIMessage("", tool_calls=called("count"))
    assert texts(await driver.go({"messages": [message]})) == ["counted"]
    assert len(world.keys) == 1


@pytest.mark.parametrize("invoke", ["ainvoke", "invoke"])
async def test_tools_of_a_subagent_in_a_tool(world: World, invoke: str) -> None:
    """Its own calls are guarded one by one; the tool that holds it is declared."""
    guard_tools()
    inner = create_agent(
        ScriptedModel(script=[Step(calls=[Call("pay", {}, id="call_0")]), "inner end"]),
        [tool(tool_of(world))],
    )
    sync_tool = tool_of(world)

    def counting() -> str:
        """Count."""
        world.done.append("pay")
        world.keys.append(current_idempotency_key())
        return "pay done"

    sync_inner = create_agent(
        ScriptedModel(script=[Step(calls=[Call("counting", {}, id="call_0")]), "inner end"]), [counting]
    )

    @tool
    @idempotent
    async def delegate() -> str:
        """Delegate."""
        out = await inner.ainvoke(HELLO)
        return str(out["messages"][-1].text)

    @tool
    def delegate_sync() -> str:
        """Delegate in a thread."""
        out = sync_inner.invoke(HELLO)
        return str(out["messages"][-1].text)

    outer_tool = delegate if invoke == "ainvoke" else delegate_sync

    def outer(saver: InMemorySaver) -> Any:
        script = [Step(calls=[Call(outer_tool.name, {}, id="call_0")]), "end"]
        return create_agent(ScriptedModel(script=script), [outer_tool], checkpointer=saver)

    driver = Driver(outer, world=world, guarded=True)
    if invoke == "invoke":
        driver.saver = InMemorySaver()
        assert texts(await driver.go(HELLO)) == ["inner end"]
    else:
        await driver.die(HELLO, "pay")
        await driver.go()
        assert driver.question.value["tool"] == "pay"
        messages = await driver.go(**{driver.question.id: {"type": "respond", "message": "was paid"}})
        assert texts(messages) == ["inner end"]
    assert world.done == ["pay"]
    assert sync_tool is not None


async def test_sync_tools_in_a_thread_know_their_key(drive: Any, world: World) -> None:
    @tool
    def count() -> str:
        """Count."""
        return current_idempotency_key()

    messages = await drive(count).go(HELLO)
    assert len(texts(messages)[0]) == 32


async def test_an_agent_that_blocks_the_event_loop_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An async tool that invokes an agent synchronously: it blocks the loop that the ledger needs."""
    guard_tools()
    monkeypatch.setattr("placet.middleware.waiting.LOOP_SECONDS", 0.1)

    @tool
    def pay() -> str:
        """Pay."""
        world.done.append("pay")
        return "paid"

    model = ScriptedModel(script=[Step(calls=[Call("pay")]), "end"])
    agent = create_agent(model, [pay])
    shared = InMemorySharedState()
    shared.loop = asyncio.get_running_loop()
    with (
        run_context(RunContext(run_id="r", shared=shared, guarded=True)),
        pytest.raises(RuntimeError, match="use ainvoke"),
    ):
        agent.invoke(HELLO)
    assert world.done == []


def test_a_synchronous_app_uses_it_by_hand(world: World) -> None:
    @tool
    def count() -> str:
        """Count."""
        world.done.append("count")
        return current_idempotency_key()

    model = ScriptedModel(script=[Step(calls=[Call("count")]), "end"])
    agent = create_agent(model, [count], middleware=[ToolLedgerMiddleware()], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    with run_context(RunContext(run_id="r", shared=InMemorySharedState())):
        messages = agent.invoke(HELLO, config)["messages"]
    assert len(texts(messages)[0]) == 32
    assert world.done == ["count"]


async def test_unknown_tools_start_nothing(drive: Any, world: World) -> None:
    driver = drive(tool(tool_of(world)), calls=[Step(calls=[Call("nobody")]), "end"])
    (text,) = texts(await driver.go(HELLO))
    assert "nobody is not a valid tool" in text
    assert driver.shared._calls == {}


@pytest.mark.parametrize("second", [{"n": 1}, {"n": 2}])
async def test_calls_that_share_an_id_each_run_once_and_have_a_result(second: dict[str, int]) -> None:
    """Without a gate or a mask too: a worker's agents get an id for each call."""
    ran: list[int] = []

    @tool
    async def count(n: int) -> str:
        """Count."""
        ran.append(n)
        return str(n)

    calls = [Call("count", {"n": 1}, id="same"), Call("count", second, id="same")]
    agent = create_agent(
        ScriptedModel(script=[Step(calls=calls), "end"]), [count], checkpointer=InMemorySaver()
    )
    guard_tools()
    run = RunContext(run_id="r", shared=InMemorySharedState(), guarded=True)
    with run_context(run):
        out = await agent.ainvoke(HELLO, {"configurable": {"thread_id": "t"}}, version="v2")
        await run.settled()
    results = [one.tool_call_id for one in out.value["messages"] if isinstance(one, ToolMessage)]
    assert out.interrupts == ()
    assert sorted(ran) == sorted([1, second["n"]])
    assert (len(results), len(set(results)), results[0]) == (2, 2, "same")
