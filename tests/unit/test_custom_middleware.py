"""Middleware of an author's own: order, jumps, overrides, sync methods under async, and clear errors."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from placet.middleware import (
    AgentMiddleware,
    after_agent,
    after_model,
    before_agent,
    before_model,
    hook_config,
    wrap_model_call,
    wrap_tool_call,
)
from placet.middleware.testing import Call, ScriptedModel, Step

if TYPE_CHECKING:
    from collections.abc import Callable

GO: Any = {"messages": [{"role": "user", "content": "go"}]}
MODEL = ScriptedModel(script=[Step(calls=[Call("look", {"key": "a"})]), lambda messages: messages[-1].text])


@tool
async def look(key: str) -> str:
    """Find something."""
    return f"found {key}"


async def run(*middleware: Any, tools: Any = (look,), model: Any = MODEL) -> list[Any]:
    out = await create_agent(model, tools=list(tools), middleware=middleware).ainvoke(GO)
    found: list[Any] = out["messages"]
    return found


class Noting(AgentMiddleware[Any, Any, Any]):
    """Notes its hooks; those that wrap are sync alone."""

    def __init__(self, name: str, noted: list[str]) -> None:
        super().__init__()
        self._called, self.noted = name, noted

    @property
    def name(self) -> str:
        return self._called

    def note(self, hook: str) -> None:
        self.noted.append(f"{self.name} {hook}")

    async def abefore_agent(self, state: Any, runtime: Any) -> None:  # noqa: ARG002 - LangGraph's names
        self.note("before_agent")

    def before_model(self, state: Any, runtime: Any) -> None:  # noqa: ARG002 - LangGraph's names
        self.note("before_model")

    def after_model(self, state: Any, runtime: Any) -> None:  # noqa: ARG002 - LangGraph's names
        self.note("after_model")

    async def aafter_agent(self, state: Any, runtime: Any) -> None:  # noqa: ARG002 - LangGraph's names
        self.note("after_agent")

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        self.note("model begins")
        answer = handler(request)
        self.note("model ends")
        return answer

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        self.note("tool begins")
        answer = handler(request)
        self.note("tool ends")
        return answer


async def test_order_of_all_hooks() -> None:
    noted: list[str] = []
    await run(Noting("a", noted), Noting("b", noted))
    turn = ["a before_model", "b before_model", "a model begins", "b model begins"]
    turn += ["b model ends", "a model ends", "b after_model", "a after_model"]
    tools = ["a tool begins", "b tool begins", "b tool ends", "a tool ends"]
    first, last = ["a before_agent", "b before_agent"], ["b after_agent", "a after_agent"]
    assert noted == [*first, *turn, *tools, *turn, *last]


async def test_order_of_all_decorators() -> None:
    noted: list[str] = []

    def wrap(name: str, decorator: Any) -> Any:
        def wrapped(request: Any, handler: Any) -> Any:
            noted.append(name)
            return handler(request)

        return decorator(name=name)(wrapped)

    await run(
        *(wrap(f"{kind.__name__} {n}", kind) for kind in (wrap_model_call, wrap_tool_call) for n in (1, 2)),
        *(before(name=name)(_noting(noted, name)) for name, before in NODES),
    )
    model = ["wrap_model_call 1", "wrap_model_call 2"]
    tools = ["wrap_tool_call 1", "wrap_tool_call 2"]
    turn = ["before model", *model, "after model"]
    assert noted == ["before agent", *turn, *tools, *turn, "after agent"]


NODES: list[tuple[str, Any]] = [
    ("before agent", before_agent),
    ("before model", before_model),
    ("after model", after_model),
    ("after agent", after_agent),
]


def _noting(noted: list[str], name: str) -> Any:
    def hook(state: Any, runtime: Any) -> None:
        noted.append(name)

    return hook


async def test_a_sync_wrap_runs_in_a_thread_and_may_call_again() -> None:
    threads, tries = [], []

    @tool
    async def flaky() -> str:
        """Fail once."""
        tries.append(threading.current_thread())
        if len(tries) == 1:
            raise ConnectionError
        return "found"

    @wrap_tool_call
    def again(request: Any, handler: Any) -> Any:
        threads.append(threading.current_thread())
        try:
            return handler(request)
        except ConnectionError:
            return handler(request)

    model = ScriptedModel(script=[Step(calls=[Call("flaky")]), lambda messages: messages[-1].text])
    assert (await run(again, tools=[flaky], model=model))[-1].text == "found"
    assert threads[0] is not threading.main_thread()
    assert tries == [threading.main_thread()] * 2


async def test_an_interrupt_passes_a_sync_wrap() -> None:
    @tool
    async def ask() -> str:
        """Ask."""
        return f"they said {interrupt('what?')}"

    model = ScriptedModel(script=[Step(calls=[Call("ask")]), lambda messages: messages[-1].text])
    agent = create_agent(model, tools=[ask], middleware=[Noting("a", [])], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    assert "__interrupt__" in await agent.ainvoke(GO, config)
    assert (await agent.ainvoke(Command(resume="yes"), config))["messages"][-1].text == "they said yes"


async def test_a_cancelled_sync_wrap_cancels_what_it_waits_for() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def handler(request: Any) -> Any:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    call: Any = Noting("a", []).awrap_tool_call({}, handler)  # type: ignore[arg-type]
    task = asyncio.create_task(call)
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(10):
        await cancelled.wait()


async def test_a_declared_jump_is_made() -> None:
    class Ends(AgentMiddleware[Any, Any, Any]):
        @hook_config(can_jump_to=["end"])
        async def abefore_model(self, state: Any, runtime: Any) -> Any:  # noqa: ARG002 - LangGraph's names
            return {"jump_to": "end", "messages": [AIMessage("not today")]}

    @before_model(can_jump_to=["end"])
    def ends(state: Any, runtime: Any) -> Any:
        return {"jump_to": "end", "messages": [AIMessage("not today")]}

    for middleware in (Ends(), ends):
        assert [message.text for message in await run(middleware)] == ["go", "not today"]


async def test_a_jump_that_is_not_declared_is_an_error() -> None:
    class Ends(AgentMiddleware[Any, Any, Any]):
        @hook_config(can_jump_to=["tools"])
        def after_model(self, state: Any, runtime: Any) -> Any:  # noqa: ARG002 - LangGraph's names
            return {"jump_to": "end"}

    @before_agent
    async def ends(state: Any, runtime: Any) -> Any:
        return {"jump_to": "end"}

    with pytest.raises(ValueError, match=r"Ends.after_model: it jumps to 'end', and does not declare that"):
        await run(Ends())
    with pytest.raises(ValueError, match=r"hook_config\(can_jump_to=\['end'\]\)"):
        await run(ends)


@pytest.mark.parametrize("decorator", [wrap_model_call, wrap_tool_call])
async def test_none_from_a_wrap_is_an_error(decorator: Any) -> None:
    async def forgets(request: Any, handler: Any) -> None:
        await handler(request)

    def forgets_too(request: Any, handler: Any) -> None:
        handler(request)

    for middleware in (decorator(forgets), decorator(forgets_too)):
        with pytest.raises(TypeError, match="it returned None; return what the handler returned"):
            await run(middleware)


async def test_requests_are_overridden_for_what_is_inside() -> None:
    seen: list[Any] = []

    @wrap_model_call
    async def outer(request: Any, handler: Any) -> Any:
        answer = await handler(request.override(system_message=SystemMessage("be brief")))
        seen.append(request.system_message)
        return answer

    @wrap_model_call
    def inner(request: Any, handler: Any) -> Any:
        seen.append(request.system_message.text)
        return handler(request)

    @wrap_tool_call
    def other(request: Any, handler: Any) -> Any:
        return handler(request.override(tool_call={**request.tool_call, "args": {"key": "b"}}))

    messages = await run(outer, inner, other)
    assert seen == ["be brief", None] * 2
    assert [message.text for message in messages if isinstance(message, ToolMessage)] == ["found b"]
