"""Limits of calls in one process: each drive stands for another that goes on where the last one stopped."""

from __future__ import annotations

import asyncio
import inspect
import json
import pickle
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain.agents import middleware as stock
from langchain.agents.middleware import model_call_limit, tool_call_limit
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from placet.errors import InvalidInput, NoRun
from placet.execution.run_error import run_error
from placet.execution.tool_guard import guard_tools
from placet.middleware import (
    CallWindow,
    HumanInTheLoopMiddleware,
    InMemorySharedState,
    ModelCallLimitExceededError,
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    RunContext,
    ToolCallLimitExceededError,
    ToolCallLimitMiddleware,
    ToolLedgerMiddleware,
    ToolRetryMiddleware,
    run_context,
)
from placet.middleware.testing import Call, ScriptedModel, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HELLO: Any = {"messages": [{"role": "user", "content": "hello"}]}


class World:
    """What was called, and an agent on one thread."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.fails = 0
        self.saver = InMemorySaver()
        self.shared = InMemorySharedState()
        self.config: Any = {"configurable": {"thread_id": "t", "__pregel_strict_resume": True}}
        self.interrupts: list[Any] = []

        @tool
        async def search(query: str) -> str:
            """Search."""
            self.calls.append(f"search {query}")
            if self.fails:
                self.fails -= 1
                raise ConnectionError("no line")
            return f"found {query}"

        @tool
        async def mail(to: str) -> str:
            """Mail."""
            self.calls.append(f"mail {to}")
            return f"mailed {to}"

        self.tools: list[Any] = [search, mail]

    def model(self, *steps: Any) -> ScriptedModel:
        """Write each call down; the last step is repeated for ever."""

        def told(step: Any) -> Callable[[Sequence[Any]], Any]:
            def tell(messages: Sequence[Any]) -> Any:
                self.calls.append("model")
                return step(messages) if callable(step) else step

            return tell

        return ScriptedModel(script=[told(step) for step in (*steps, *[steps[-1]] * 20)])

    def agent(self, *middleware: Any, model: Any = None, tools: Any = None) -> Any:
        chat = model or self.model(searching())
        return create_agent(chat, tools or self.tools, middleware=list(middleware), checkpointer=self.saver)

    async def go(self, graph: Any, given: Any = None, *, run: str = "r", **context: Any) -> list[Any]:
        """Drive to a pause or the end in what stands for a new process; the thread's messages."""
        with run_context(RunContext(run_id=run, shared=self.shared, **context)):
            out = await graph.ainvoke(given, self.config, version="v2", durability="sync")
        self.interrupts = list(out.interrupts)
        messages: list[Any] = out.value["messages"]
        return messages

    def count(self, what: str) -> int:
        return sum(call.split()[0] == what for call in self.calls)


def searching(*queries: str, more: Sequence[Call] = ()) -> Step:
    return Step(calls=[*(Call("search", {"query": query}) for query in queries or ("a",)), *more])


@pytest.fixture
def world() -> World:
    return World()


def answers(messages: list[Any]) -> list[tuple[str, str]]:
    """Of the last model message that had calls: what each was answered."""
    return [(one.tool_call_id, one.text) for one in messages if isinstance(one, ToolMessage)]


def paired(messages: list[Any]) -> bool:
    """Whether every call has exactly one answer."""
    called = [str(call["id"]) for one in messages if isinstance(one, AIMessage) for call in one.tool_calls]
    answered = [one.tool_call_id for one in messages if isinstance(one, ToolMessage)]
    return sorted(called) == sorted(answered)


def pickled(error: Exception) -> Any:
    return pickle.loads(pickle.dumps(error))  # noqa: S301 - written right here


def test_they_are_langchains_with_more() -> None:
    for ours, theirs in (
        (ModelCallLimitMiddleware, model_call_limit.ModelCallLimitMiddleware),
        (ToolCallLimitMiddleware, tool_call_limit.ToolCallLimitMiddleware),
    ):
        assert issubclass(ours, theirs)
        own, stock = inspect.signature(ours).parameters, inspect.signature(theirs).parameters
        for name, parameter in stock.items():
            assert (own[name].kind, own[name].default) == (parameter.kind, parameter.default)
        assert set(own) - set(stock) == {"windows", "name"}


@pytest.mark.parametrize("middleware", [ModelCallLimitMiddleware, ToolCallLimitMiddleware])
def test_arguments_are_checked(middleware: Any) -> None:
    with pytest.raises(ValueError, match=r"At least one limit .* \(thread_limit, run_limit or windows\)"):
        middleware()
    for windows in (CallWindow(limit=1, per=60, by="all"), [{"limit": 1}], None):
        with pytest.raises(InvalidInput, match=r"^windows: must be a list, \[CallWindow\(limit"):
            middleware(windows=windows)
    with pytest.raises(ValueError, match="exit_behavior"):
        middleware(run_limit=1, exit_behavior="stop")
    with pytest.raises(ValueError, match="cannot exceed thread_limit"):
        ToolCallLimitMiddleware(run_limit=2, thread_limit=1)
    only = middleware(windows=[CallWindow(limit=1, per=60, by="all")])
    assert (only.run_limit, only.thread_limit) == (None, None)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [({"limit": 0}, "limit"), ({"limit": True}, "limit"), ({"per": 0}, "per"), ({"by": "day"}, "by")],
)
def test_a_window_is_checked(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        CallWindow(**{"limit": 1, "per": timedelta(hours=1), "by": "all", **wrong})
    assert caught.value.field == field


def test_a_window_that_does_not_say_whose_it_is_is_told_the_words() -> None:
    with pytest.raises(InvalidInput, match="by: must be one of principal, tenant, agent, all"):
        CallWindow(limit=1, per=60)


def test_what_they_raise_is_langchains_and_data() -> None:
    model = ModelCallLimitExceededError(3, 2, 5, 2, ["tenant limit (4/4 in 60 s)"])
    tools = ToolCallLimitExceededError(3, 2, 5, 1, "search")
    assert isinstance(model, model_call_limit.ModelCallLimitExceededError)
    assert isinstance(tools, tool_call_limit.ToolCallLimitExceededError)
    assert str(model) == "Model call limits exceeded: run limit (2/2), tenant limit (4/4 in 60 s)"
    assert str(tools) == str(tool_call_limit.ToolCallLimitExceededError(3, 2, 5, 1, "search"))
    for error in (model, tools):
        again = pickled(error)
        assert (str(again), vars(again)) == (str(error), vars(error))
        assert json.loads(json.dumps(run_error(error)))["type"] == type(error).__name__


@pytest.mark.parametrize("make", [ModelCallLimitMiddleware, ToolCallLimitMiddleware])
async def test_without_a_run_it_does_as_langchains(world: World, make: Any) -> None:
    agent = world.agent(make(run_limit=2, exit_behavior="end"))
    out = await agent.ainvoke(HELLO, world.config)
    assert "limit" in out["messages"][-1].text
    assert world.count("model" if make is ModelCallLimitMiddleware else "search") == 2
    windowed = world.agent(make(windows=[CallWindow(limit=1, per=60, by="all")]))
    with pytest.raises(NoRun, match=make.__name__):
        await windowed.ainvoke(HELLO, world.config)


@pytest.mark.parametrize("make", [ModelCallLimitMiddleware, ToolCallLimitMiddleware])
async def test_without_a_run_the_error_is_ours_too(world: World, make: Any) -> None:
    agent = world.agent(make(run_limit=2, exit_behavior="error"))
    with pytest.raises((ModelCallLimitExceededError, ToolCallLimitExceededError)) as caught:
        await agent.ainvoke(HELLO, world.config)
    assert str(pickled(caught.value)) == str(caught.value)


async def test_a_run_ends_at_its_limit(world: World) -> None:
    agent = world.agent(ModelCallLimitMiddleware(run_limit=3))
    messages = await world.go(agent, HELLO)
    assert messages[-1].text == "Model call limits exceeded: run limit (3/3)"
    assert world.count("model") == 3
    assert paired(messages)


async def test_a_new_message_gets_a_fresh_run_limit_and_the_thread_goes_on_counting(world: World) -> None:
    agent = world.agent(ModelCallLimitMiddleware(run_limit=2, thread_limit=3))
    await world.go(agent, HELLO)
    messages = await world.go(agent, HELLO, run="r2")
    assert messages[-1].text == "Model call limits exceeded: thread limit (3/3)"
    assert world.count("model") == 3


@pytest.mark.parametrize("retrying", [stock.ModelRetryMiddleware, ModelRetryMiddleware])
@pytest.mark.parametrize("first", ["retry", "limit"])
async def test_an_error_passes_every_retry(world: World, first: str, retrying: Any) -> None:
    """Each attempt is a call; the limit's error is not tried again, wherever the retry stands."""

    def fail(_: object) -> Step:
        return Step(error=ConnectionError("no line"))

    retry = retrying(max_retries=5, initial_delay=0)
    limit = ModelCallLimitMiddleware(run_limit=3, exit_behavior="error")
    middleware = [retry, limit] if first == "retry" else [limit, retry]
    agent = world.agent(*middleware, model=world.model(fail))
    with pytest.raises(ModelCallLimitExceededError, match=r"run limit \(3/3\)"):
        await world.go(agent, HELLO)
    assert world.count("model") == 3


@pytest.mark.parametrize("fallback", [stock.ModelFallbackMiddleware, ModelFallbackMiddleware])
@pytest.mark.parametrize("first", ["fallback", "limit"])
async def test_each_model_of_a_fallback_counts(world: World, first: str, fallback: Any) -> None:
    def fail(_: object) -> Step:
        return Step(error=ConnectionError("no line"))

    chain = fallback(world.model(fail), world.model("done"))
    limit = ModelCallLimitMiddleware(run_limit=2)
    middleware = [chain, limit] if first == "fallback" else [limit, chain]
    messages = await world.go(world.agent(*middleware, model=world.model(fail)), HELLO)
    assert messages[-1].text == "Model call limits exceeded: run limit (2/2)"
    assert world.count("model") == 2


async def test_a_run_with_pauses_is_one_run(world: World) -> None:
    """LangChain's starts to count anew at each pause: limit 2, five calls."""
    gate = HumanInTheLoopMiddleware(interrupt_on={"search": True})
    agent = world.agent(gate, ModelCallLimitMiddleware(run_limit=2))
    await world.go(agent, HELLO)
    for _ in range(2):
        (asked,) = world.interrupts
        approve = {asked.id: {"decisions": [{"type": "approve"}]}}
        messages = await world.go(agent, Command(resume=approve))
    assert (world.interrupts, world.count("model")) == ([], 2)
    assert messages[-1].text == "Model call limits exceeded: run limit (2/2)"


async def test_a_call_that_was_cut_off_was_made(world: World) -> None:
    """LangChain's count is written with the answer: six calls, count three."""
    hangs = asyncio.Event()
    blocked = asyncio.Event()

    async def hang(_: object) -> str:
        if world.count("model") < 3:
            hangs.set()
            await blocked.wait()
        return "done"

    agent = world.agent(ModelCallLimitMiddleware(run_limit=3), model=world.model(hang))
    for given in (HELLO, None):
        hangs.clear()
        task = asyncio.create_task(world.go(agent, given))
        await asyncio.wait_for(hangs.wait(), 10)
        task.cancel()
        await asyncio.wait([task])
    messages = await world.go(agent)
    assert (messages[-1].text, world.count("model")) == ("done", 3)
    messages = await world.go(world.agent(ModelCallLimitMiddleware(run_limit=3)), HELLO)
    assert (messages[-1].text, world.count("model")) == ("Model call limits exceeded: run limit (3/3)", 3)


async def test_a_command_from_outside_resets_nothing(world: World) -> None:
    agent = world.agent(ModelCallLimitMiddleware(thread_limit=2))
    await world.go(agent, HELLO)
    update = {"thread_model_call_count": 0, "run_model_call_count": 0, **HELLO}
    messages = await world.go(agent, Command(update=update, goto="model"), run="r2")
    assert messages[-1].text == "Model call limits exceeded: thread limit (2/2)"
    assert world.count("model") == 2


def delegating(world: World, *middleware: Any, sync: bool = False, steps: int = 4) -> Any:
    """A tool that hands over to an agent of its own, which calls its model `steps` times."""
    model = world.model(*[searching(str(n)) for n in range(steps - 1)], "found it")

    if sync:

        @tool
        def look(query: str) -> str:
            """Look."""
            world.calls.append(f"look {query}")
            return f"looked {query}"

        plain = create_agent(
            world.model(*[Step(calls=[Call("look", {"query": str(n)})]) for n in range(steps - 1)], "found"),
            [look],
            middleware=list(middleware),
        )

        @tool("delegate")
        def delegate_sync() -> str:
            """Delegate."""
            return str(plain.invoke(HELLO)["messages"][-1].text)

        return delegate_sync
    inner = create_agent(model, world.tools, middleware=list(middleware))

    @tool
    async def delegate() -> str:
        """Delegate."""
        return str((await inner.ainvoke(HELLO))["messages"][-1].text)

    return delegate


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("guarded", [False, True])
async def test_calls_of_a_subagent_count_in_its_parents_run(
    world: World, *, sync: bool, guarded: bool
) -> None:
    guard_tools()
    model = world.model(Step(calls=[Call("delegate")]))
    limit = ModelCallLimitMiddleware(run_limit=4)
    agent = world.agent(limit, model=model, tools=[delegating(world, sync=sync)])
    messages = await world.go(agent, HELLO, guarded=guarded)
    assert world.count("model") == 4
    assert [text for _, text in answers(messages)] == ["Model call limits exceeded: run limit (4/4)"]
    assert messages[-1].text == "Model call limits exceeded: run limit (4/4)"
    assert paired(messages)


async def test_a_subagents_own_limit_is_for_each_time_it_is_invoked(world: World) -> None:
    model = world.model(Step(calls=[Call("delegate")]), Step(calls=[Call("delegate")]), "done")
    inner = delegating(world, ModelCallLimitMiddleware(run_limit=2))
    agent = world.agent(ModelCallLimitMiddleware(run_limit=20), model=model, tools=[inner])
    messages = await world.go(agent, HELLO)
    assert [text for _, text in answers(messages)] == ["Model call limits exceeded: run limit (2/2)"] * 2
    assert (messages[-1].text, world.count("model")) == ("done", 3 + 2 * 2)


async def test_a_subagents_error_ends_the_run(world: World) -> None:
    inner = delegating(world, ModelCallLimitMiddleware(run_limit=2, exit_behavior="error"))
    agent = world.agent(
        ToolRetryMiddleware(initial_delay=0), model=world.model(Step(calls=[Call("delegate")])), tools=[inner]
    )
    with pytest.raises(ModelCallLimitExceededError):
        await world.go(agent, HELLO)


async def test_tools_of_a_subagent_count_in_its_parents_run(world: World) -> None:
    guard_tools()
    model = world.model(Step(calls=[Call("delegate")]), "done")
    limit = ToolCallLimitMiddleware(tool_name="search", run_limit=2)
    agent = world.agent(limit, model=model, tools=[delegating(world)])
    messages = await world.go(agent, HELLO, guarded=True)
    assert world.count("search") == 2
    assert answers(messages)[0][1] == "Tool call limit exceeded. Do not call 'search' again."
    assert messages[-1].text == "done"


async def test_subagents_at_once_get_what_is_left(world: World) -> None:
    guard_tools()
    three = Step(calls=[Call("delegate"), Call("delegate"), Call("delegate")])
    limit = ModelCallLimitMiddleware(run_limit=6)
    agent = world.agent(limit, model=world.model(three), tools=[delegating(world)])
    messages = await world.go(agent, HELLO, guarded=True)
    assert (world.count("model"), paired(messages)) == (6, True)
    assert [
        record[0].note for record in world.shared._calls["r"].values() if record[0].state == "unknown"
    ] == ["it was cut off, ModelCallLimitMiddleware had no room for a call"] * sum(
        "limit" in text for _, text in answers(messages)
    )


async def test_limit_end_parallel(world: World) -> None:
    """LC#39258: limit 1, three calls, "end": three ToolMessages, zero executions, thread count unchanged."""
    agent = world.agent(
        ToolCallLimitMiddleware(thread_limit=1, exit_behavior="end"),
        model=world.model(searching("a", "b", "c")),
    )
    messages = await world.go(agent, HELLO)
    assert (world.count("search"), len(answers(messages)), paired(messages)) == (0, 3, True)
    assert messages[-1].text == "Tool call limit reached: thread limit exceeded (3/1 calls)."
    one = world.agent(
        ToolCallLimitMiddleware(thread_limit=1, exit_behavior="end"),
        model=world.model(searching("a"), "done"),
    )
    assert (await world.go(one, HELLO, run="r2"))[-1].text == "done"
    assert world.count("search") == 1


async def test_limit_after_resume(world: World) -> None:
    """agno#7962: tool limit 1; approve, the model calls again: the second is blocked, nobody is asked."""
    gate = HumanInTheLoopMiddleware(interrupt_on={"search": True}, interrupt_mode="per_call")
    agent = world.agent(
        gate, ToolCallLimitMiddleware(run_limit=1), model=world.model(searching("a"), searching("b"), "done")
    )
    await world.go(agent, HELLO)
    (asked,) = world.interrupts
    messages = await world.go(agent, Command(resume={asked.id: {"type": "approve"}}))
    assert (world.interrupts, world.calls.count("search b")) == ([], 0)
    assert answers(messages)[1][1] == "Tool call limit exceeded. Do not make additional tool calls."
    assert (messages[-1].text, paired(messages)) == ("done", True)


@pytest.mark.parametrize("mode", ["batched", "per_call"])
async def test_nobody_is_asked_about_a_blocked_call(world: World, mode: Any) -> None:
    gate = HumanInTheLoopMiddleware(interrupt_on={"search": True}, interrupt_mode=mode)
    agent = world.agent(
        gate, ToolCallLimitMiddleware(run_limit=1), model=world.model(searching("a", "b", "c"), "done")
    )
    await world.go(agent, HELLO)
    (asked,) = world.interrupts
    if mode == "batched":
        assert [one["args"] for one in asked.value["action_requests"]] == [{"query": "a"}]
    approve: Any = {"type": "approve"}
    resume = {asked.id: {"decisions": [approve]} if mode == "batched" else approve}
    messages = await world.go(agent, Command(resume=resume))
    assert (messages[-1].text, world.count("search"), paired(messages)) == ("done", 1, True)


async def test_a_rejected_call_does_not_count(world: World) -> None:
    gate = HumanInTheLoopMiddleware(interrupt_on={"search": True}, interrupt_mode="per_call")
    agent = world.agent(
        gate, ToolCallLimitMiddleware(run_limit=1), model=world.model(searching("a"), searching("b"), "done")
    )
    await world.go(agent, HELLO)
    await world.go(agent, Command(resume={world.interrupts[0].id: {"type": "reject"}}))
    await world.go(agent, Command(resume={world.interrupts[0].id: {"type": "approve"}}))
    assert world.calls.count("search b") == 1


async def test_parallel_calls_of_one_answer(world: World) -> None:
    """LangChain's: run limit 1, three ran."""
    agent = world.agent(
        ToolCallLimitMiddleware(run_limit=1), model=world.model(searching("a", "b", "c"), "done")
    )
    messages = await world.go(agent, HELLO)
    assert (world.count("search"), paired(messages), messages[-1].text) == (1, True, "done")


@pytest.mark.parametrize("retrying", [stock.ToolRetryMiddleware, ToolRetryMiddleware])
@pytest.mark.parametrize("first", ["retry", "limit"])
async def test_a_retry_of_a_tool_is_a_further_call(world: World, first: str, retrying: Any) -> None:
    world.fails = 5
    retry = retrying(max_retries=5, initial_delay=0)
    limit = ToolCallLimitMiddleware(run_limit=2)
    middleware = [retry, limit] if first == "retry" else [limit, retry]
    agent = world.agent(*middleware, model=world.model(searching("a"), "done"))
    messages = await world.go(agent, HELLO)
    assert world.count("search") == 2
    assert answers(messages)[0][1] == "Tool call limit exceeded. Do not make additional tool calls."


@pytest.mark.parametrize("behavior", ["continue", "end", "error"])
async def test_what_happens_when_it_is_a_tools_retry_that_is_refused(world: World, behavior: Any) -> None:
    world.fails = 5
    agent = world.agent(
        ToolRetryMiddleware(max_retries=5, initial_delay=0),
        ToolCallLimitMiddleware(run_limit=2, exit_behavior=behavior),
        model=world.model(searching("a", more=[Call("mail", {"to": "b"})]), "done"),
    )
    if behavior == "error":
        with pytest.raises(ToolCallLimitExceededError, match=r"run limit exceeded \(3/2 calls\)"):
            await world.go(agent, HELLO)
        return
    messages = await world.go(agent, HELLO)
    assert paired(messages)
    assert world.count("model") == (2 if behavior == "continue" else 1)
    assert messages[-1].text == (
        "done" if behavior == "continue" else "Tool call limit reached: run limit exceeded (3/2 calls)."
    )


async def test_error_tells_what_was_asked_for(world: World) -> None:
    limit = ToolCallLimitMiddleware(tool_name="search", run_limit=1, exit_behavior="error")
    agent = world.agent(limit, model=world.model(searching("a", "b")))
    with pytest.raises(ToolCallLimitExceededError, match=r"'search' tool.*run limit exceeded \(2/1 calls\)"):
        await world.go(agent, HELLO)
    assert world.count("search") == 0


async def test_a_call_whose_result_is_in_the_ledger_is_not_made(world: World) -> None:
    guard_tools()
    dies = asyncio.Event()

    @tool
    async def slow() -> str:
        """Slow."""
        world.calls.append("slow")
        dies.set()
        await asyncio.Event().wait()
        return ""

    model = world.model(searching("a", more=[Call("slow")]), "done")
    limit = ToolCallLimitMiddleware(tool_name="search", run_limit=1)

    def agent(tools: Any) -> Any:
        return create_agent(
            model,
            tools,
            middleware=[limit, ToolLedgerMiddleware(on_unknown="rerun")],
            checkpointer=world.saver,
        )

    task = asyncio.create_task(world.go(agent([*world.tools, slow]), HELLO, guarded=True))
    async with asyncio.timeout(10):
        await dies.wait()
        while all(one[0].state != "done" for one in world.shared._calls["r"].values()):  # noqa: ASYNC110
            await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])

    @tool("slow")
    async def quick() -> str:
        """Slow."""
        return "quick"

    messages = await world.go(agent([*world.tools, quick]), guarded=True)
    assert world.count("search") == 1
    assert sorted(text for _, text in answers(messages)) == ["found a", "quick"]


async def test_several_limiters_in_one_agent(world: World) -> None:
    """Of a call that one of them refuses none counts anything; none answers what another has answered."""
    limiters = [
        ToolCallLimitMiddleware(run_limit=3),
        ToolCallLimitMiddleware(tool_name="search", run_limit=1),
        ToolCallLimitMiddleware(tool_name="search", thread_limit=5, name="in the thread"),
        ModelCallLimitMiddleware(run_limit=9),
        ModelCallLimitMiddleware(run_limit=8, name="models"),
    ]
    mails = [Call("mail", {"to": to}) for to in "xyz"]
    agent = world.agent(*limiters, model=world.model(searching("a", "b", more=mails), "done"))
    messages = await world.go(agent, HELLO)
    assert (world.count("search"), world.count("mail")) == (1, 2)
    assert (paired(messages), messages[-1].text) == (True, "done")
    again = world.agent(*limiters, model=world.model(searching("c"), "done"))
    await world.go(again, HELLO, run="r2")
    assert world.count("search") == 2
    with pytest.raises(AssertionError, match="duplicate"):
        world.agent(ToolCallLimitMiddleware(run_limit=1), ToolCallLimitMiddleware(run_limit=2))


async def test_the_outer_limiter_does_not_count_what_the_inner_one_refuses(world: World) -> None:
    outer = ModelCallLimitMiddleware(thread_limit=5, name="outer")
    agent = world.agent(outer, ModelCallLimitMiddleware(run_limit=1))
    for run in ("r1", "r2", "r3"):
        await world.go(agent, HELLO, run=run)
    messages = await world.go(world.agent(outer), HELLO, run="r4")
    assert messages[-1].text == "Model call limits exceeded: thread limit (5/5)"
    assert world.count("model") == 5


def hourly(limit: int, by: Any, **more: Any) -> CallWindow:
    return CallWindow(limit=limit, per=timedelta(hours=1), by=by, **more)


@pytest.mark.parametrize("by", ["principal", "tenant", "agent", "all"])
async def test_a_window_is_shared_by_all_runs_of_whom_it_is_for(world: World, by: str) -> None:
    agent = world.agent(ModelCallLimitMiddleware(windows=[hourly(2, by)]), model=world.model("done"))
    said = []
    for number, who in enumerate(("a", "a", "b", "a")):
        world.config = {"configurable": {"thread_id": f"t{number}", "tenant": who, "principal": who}}
        messages = await world.go(agent, HELLO, run=f"r{number}", agent=f"agent of {who}")
        said.append(messages[-1].text)
    refused = f"Model call limits exceeded: {by} limit (2/2 in 3600 s)"
    third = refused if by == "all" else "done"
    assert said == ["done", "done", third, refused]


@pytest.mark.parametrize("value", [None, "", 7])
async def test_a_run_that_does_not_say_whose_calls_it_makes_makes_none(world: World, value: Any) -> None:
    world.config["configurable"]["tenant"] = value
    agent = world.agent(
        ModelRetryMiddleware(),
        ModelCallLimitMiddleware(windows=[hourly(2, "tenant")]),
        model=world.model("done"),
    )
    with pytest.raises(InvalidInput, match=r"config\.configurable\.tenant"):
        await world.go(agent, HELLO)
    assert world.calls == []


@pytest.mark.parametrize("behavior", ["continue", "end", "error"])
async def test_a_window_of_tools_refuses(world: World, behavior: Any) -> None:
    limit = ToolCallLimitMiddleware(windows=[hourly(1, "all")], exit_behavior=behavior)
    agent = world.agent(limit, model=world.model(searching("a", "b"), "done"))
    if behavior == "error":
        with pytest.raises(ToolCallLimitExceededError, match=r"all limit \(2/1 in 3600 s\)"):
            await world.go(agent, HELLO)
        return
    messages = await world.go(agent, HELLO)
    assert paired(messages)
    expected = "done" if behavior == "continue" else "Tool call limit reached: all limit (2/1 in 3600 s)."
    assert (messages[-1].text, world.count("search")) == (expected, int(behavior == "continue"))


async def test_a_window_parks_the_run(world: World) -> None:
    """Entered too early it parks again, as before; when there is room it goes on."""
    limit = ModelCallLimitMiddleware(windows=[hourly(1, "all", park=True)])
    agent = world.agent(ModelRetryMiddleware(), limit, model=world.model(searching("a"), "done"))
    await world.go(agent, HELLO)
    (timer,) = world.interrupts
    assert (timer.value["type"], world.count("model")) == ("placet.timer", 1)
    await world.go(agent)
    assert world.interrupts == [timer]
    world.shared = InMemorySharedState()
    assert (await world.go(agent))[-1].text == "done"
    assert world.count("model") == 2


async def test_a_window_parks_a_subagent_where_it_is(world: World) -> None:
    guard_tools()
    model = world.model(Step(calls=[Call("delegate")]), "done")
    limit = ModelCallLimitMiddleware(windows=[hourly(3, "all", park=True)])
    agent = world.agent(limit, model=model, tools=[delegating(world)])
    await world.go(agent, HELLO, guarded=True)
    (timer,) = world.interrupts
    assert (timer.value["type"], world.count("model"), world.count("search")) == ("placet.timer", 3, 2)
    world.shared._windows.clear()
    messages = await world.go(agent, guarded=True)
    assert (messages[-1].text, world.count("model"), world.count("search")) == ("done", 6, 3)
    assert paired(messages)


async def test_a_window_parks_a_tool(world: World) -> None:
    guard_tools()
    limit = ToolCallLimitMiddleware(windows=[hourly(1, "all", park=True)])
    agent = world.agent(limit, model=world.model(searching("a", "b"), "done"))
    await world.go(agent, HELLO, guarded=True)
    assert ([one.value["type"] for one in world.interrupts], world.count("search")) == (["placet.timer"], 1)
    world.shared._windows.clear()
    messages = await world.go(agent, guarded=True)
    assert (messages[-1].text, sorted(world.calls)[2:]) == ("done", ["search a", "search b"])
    assert paired(messages)
