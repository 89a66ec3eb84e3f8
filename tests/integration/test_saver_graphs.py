from __future__ import annotations

import asyncio
import sys
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt
from pydantic import BaseModel
from typing_extensions import TypedDict

from placet.agents.allowed_types import allowed_types
from placet.checkpoint.saver import RedisSaver
from placet.errors import UnstorableType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_core.runnables import RunnableConfig
    from langgraph.graph.state import CompiledStateGraph
    from redis.asyncio import Redis

CONSTRUCTOR = {"lc": 2, "type": "constructor", "id": ["this", "x"], "kwargs": {}}


def thread(thread_id: str = "t") -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id}}


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


async def test_a_message_changed_in_place_is_stored_as_it_is_now(redis: Redis) -> None:
    def call(state: Chat) -> dict[str, Any]:
        return {"messages": [AIMessage("", id="m", tool_calls=[{"name": "t", "args": {"n": 1}, "id": "c"}])]}

    def edit(state: Chat) -> dict[str, Any]:
        message = state["messages"][-1]
        assert isinstance(message, AIMessage)
        message.tool_calls[0]["args"]["n"] = 2
        message.content = "edited"
        return {"messages": [message]}

    graph = (
        StateGraph(Chat)
        .add_sequence([("call", call), ("edit", edit)])
        .add_edge(START, "call")
        .compile(checkpointer=RedisSaver(redis))
    )
    await graph.ainvoke({"messages": [HumanMessage("go")]}, thread())

    saved = await RedisSaver(redis).aget_tuple(thread())
    assert saved is not None
    stored = saved.checkpoint["channel_values"]["messages"][-1]
    assert (stored.content, stored.tool_calls[0]["args"]) == ("edited", {"n": 2})


class Scripted(GenericFakeChatModel):
    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self


sent: list[Any] = []


@tool
def send(to: str, payload: dict[str, Any]) -> str:
    """Send."""
    sent.append((to, payload))
    return "sent"


def agent(redis: Redis, answers: Iterator[AIMessage]) -> CompiledStateGraph[Any, Any, Any, Any]:
    gate = HumanInTheLoopMiddleware(interrupt_on={"send": True})
    return create_agent(Scripted(messages=answers), [send], middleware=[gate], checkpointer=RedisSaver(redis))


async def test_agent_pauses_in_one_saver_and_resumes_edited_in_another(redis: Redis) -> None:
    sent.clear()
    call = {"name": "send", "args": {"to": "bob", "payload": CONSTRUCTOR}, "id": "1"}
    first = agent(redis, iter([AIMessage("", tool_calls=[call])]))
    await first.ainvoke({"messages": [HumanMessage("go")]}, thread())

    second = agent(redis, iter([AIMessage("done")]))
    state = await second.aget_state(thread())
    assert state.interrupts[0].value["action_requests"][0]["args"]["payload"] == CONSTRUCTOR
    edited = {"name": "send", "args": {"to": "eve", "payload": CONSTRUCTOR}}
    answer = {"decisions": [{"type": "edit", "edited_action": edited}]}
    await second.ainvoke(Command(resume={state.interrupts[0].id: answer}), thread())

    assert sent == [("eve", CONSTRUCTOR)]
    assert "this" not in sys.modules
    messages = (await agent(redis, iter([])).aget_state(thread())).values["messages"]
    assert messages[1].tool_calls[0]["args"]["payload"] == CONSTRUCTOR
    assert "send with arguments" in messages[2].content
    assert messages[-1].content == "done"


class Mood(Enum):
    CALM = "calm"


class Order(BaseModel):
    amount: Decimal
    mood: Mood


class Typed(TypedDict):
    order: Order
    mood: Mood
    other: Any


class Outsider(BaseModel):
    n: int


@pytest.mark.parametrize("key", [None, "k" * 16])
async def test_types_in_the_schemas_are_allowed_by_themselves_and_others_refused(
    redis: Redis, key: str | None
) -> None:
    saver = RedisSaver(redis, encryption_key=key)

    def graph(other: Any) -> CompiledStateGraph[Any, Any, Any, Any]:
        def node(state: Typed) -> dict[str, Any]:
            return {"mood": Mood.CALM, "other": other}

        return StateGraph(Typed).add_node("node", node).add_edge(START, "node").compile(checkpointer=saver)

    order = Order(amount=Decimal("1.10"), mood=Mood.CALM)
    await graph({"k": (1, 2)}).ainvoke({"order": order}, thread())
    values = (await graph(None).aget_state(thread())).values
    assert values == {"order": order, "mood": Mood.CALM, "other": {"k": (1, 2)}}
    assert type(values["order"]) is Order

    with pytest.raises(UnstorableType, match=r"Outsider.*PLACET_ALLOWED_TYPES"):
        await graph(Outsider(n=1)).ainvoke({"order": order}, thread("refused"))


async def test_response_schema_survives_a_reload(redis: Redis) -> None:
    def ask(state: Chat) -> dict[str, Any]:
        answer = interrupt("how much?", response_schema=Order)
        return {"messages": [AIMessage(f"{type(answer).__name__} {answer.amount}")]}

    def graph() -> CompiledStateGraph[Any, Any, Any, Any]:
        return (
            StateGraph(Chat)
            .add_node("ask", ask)
            .add_edge(START, "ask")
            .compile(checkpointer=RedisSaver(redis))
        )

    await graph().ainvoke({"messages": []}, thread())
    pause = (await graph().aget_state(thread())).interrupts[0]
    assert pause.response_schema is not None
    assert "amount" in pause.response_schema["properties"]
    answer = {"amount": "2.50", "mood": "calm"}
    result = await graph().ainvoke(Command(resume={pause.id: answer}), thread())
    assert result["messages"][-1].content == "Order 2.50"


@pytest.mark.parametrize("answer", [False, 0, "", [], {}])
async def test_falsy_answers_arrive_as_they_are(redis: Redis, answer: Any) -> None:
    got = []

    def ask(state: Chat) -> dict[str, Any]:
        got.append(interrupt("?"))
        return {"messages": []}

    graph = (
        StateGraph(Chat).add_node("ask", ask).add_edge(START, "ask").compile(checkpointer=RedisSaver(redis))
    )
    await graph.ainvoke({"messages": []}, thread())
    pause = (await graph.aget_state(thread())).interrupts[0]
    await graph.ainvoke(Command(resume={pause.id: answer}), thread())
    assert got == [answer]


async def test_an_error_in_a_node_is_stored_and_the_run_can_go_on(redis: Redis) -> None:
    fail = [True]

    def node(state: Chat) -> dict[str, Any]:
        if fail:
            raise ArithmeticError("no luck")
        return {"messages": [AIMessage("done")]}

    graph = (
        StateGraph(Chat)
        .add_node("node", node)
        .add_edge(START, "node")
        .compile(checkpointer=RedisSaver(redis))
    )
    with pytest.raises(ArithmeticError):
        await graph.ainvoke({"messages": [HumanMessage("go")]}, thread())
    stored: Any = (await graph.aget_state(thread())).tasks[0].error
    assert stored == "ArithmeticError('no luck')"
    fail.clear()
    assert (await graph.ainvoke(None, thread()))["messages"][-1].content == "done"


def reply(state: Chat) -> dict[str, Any]:
    return {"messages": [AIMessage("child")]}


async def test_a_sync_node_invokes_a_subgraph_and_reads_state_from_its_thread(redis: Redis) -> None:
    saver = RedisSaver(redis)
    child = StateGraph(Chat).add_node("say", reply).add_edge(START, "say")
    inner = child.compile()
    history: list[Any] = []

    def node(state: Chat) -> dict[str, Any]:
        result = inner.invoke({"messages": state["messages"]})
        history.extend(saver.list({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}))
        return {"messages": result["messages"]}

    graph = StateGraph(Chat).add_node("node", node).add_edge(START, "node").compile(checkpointer=saver)
    result = await graph.ainvoke({"messages": [HumanMessage("go")]}, thread())
    assert [m.content for m in result["messages"]] == ["go", "child"]
    assert len(history) == 2
    await asyncio.to_thread(graph.update_state, thread(), {"messages": [AIMessage("more")]})
    assert len((await asyncio.to_thread(graph.get_state, thread())).values["messages"]) == 3
    with pytest.raises(RuntimeError, match="block its own event loop"):
        graph.get_state(thread())


async def test_hundreds_of_threads_on_one_loop(redis_url: str) -> None:
    async with RedisSaver.from_url(redis_url) as saver:
        graph = (
            StateGraph(Chat)
            .add_node("say", lambda state: {"messages": [AIMessage(f"to {state['messages'][0].content}")]})
            .add_edge(START, "say")
            .compile(checkpointer=saver)
        )

        async def one(number: int) -> list[str]:
            result = await graph.ainvoke({"messages": [HumanMessage(f"{number} " * 40)]}, thread(str(number)))
            return [message.content for message in result["messages"]]

        await asyncio.gather(*(one(number) for number in range(300)))
        results = await asyncio.gather(*(one(number) for number in range(300)))
    text = [f"{number} " * 40 for number in range(300)]
    assert results == [[t, f"to {t}", t, f"to {t}"] for t in text]


class Verdict(BaseModel):
    order: Order
    ok: bool


@pytest.mark.parametrize(
    "response_format", [Verdict, ToolStrategy(Verdict), ToolStrategy(Verdict | Outsider)]
)
async def test_structured_answers_are_allowed_with_the_agents_response_types(
    redis: Redis, response_format: Any
) -> None:
    args = {"order": {"amount": "1.5", "mood": "calm"}, "ok": True}
    answers = iter([AIMessage("", tool_calls=[{"name": "Verdict", "args": args, "id": "1"}])])
    graph = create_agent(Scripted(messages=answers), [send], response_format=response_format)
    graph.checkpointer = RedisSaver(redis).with_allowlist(allowed_types(graph))
    result = await graph.ainvoke({"messages": [HumanMessage("judge")]}, thread())
    stored = (await graph.aget_state(thread())).values["structured_response"]
    assert stored == result["structured_response"] == Verdict.model_validate(args)


async def test_functional_api_resumes_without_running_finished_tasks_again(redis: Redis) -> None:
    calls: list[int] = []

    @task
    def double(n: int) -> dict[str, Any]:
        calls.append(n)
        return {"pair": (n, n * 2)}

    def flow() -> Any:
        @entrypoint(checkpointer=RedisSaver(redis))
        async def run(n: int, *, previous: Any = None) -> Any:
            doubled = await double(n)
            answer = interrupt("go on?")
            return entrypoint.final(value=(doubled, answer, previous), save={"last": n})

        return run

    await flow().ainvoke(4, thread())
    result = await flow().ainvoke(Command(resume="yes"), thread())
    assert result == ({"pair": (4, 8)}, "yes", None)
    assert calls == [4]
    await flow().ainvoke(5, thread())
    assert (await flow().ainvoke(Command(resume="no"), thread()))[2] == {"last": 4}
