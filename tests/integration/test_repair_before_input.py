"""A thread that an abnormal end left in disorder is repaired before the next input, whichever worker dies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from consistency import check_consistency
from core import new_run, open_core
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph import END, START, MessagesState, StateGraph

from placet.checkpoint import checkpointer
from placet.execution.segment import Finished, Segment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from core import Core

    from placet.state.leases import Claim

CALL = {"name": "pay", "args": {}, "id": "c1"}


@pytest.fixture(params=["placet", "langgraph-redis"])
async def core(redis_url: str, request: pytest.FixtureRequest) -> AsyncIterator[Core]:
    backend: str = request.param
    url = redis_url if backend == "placet" else request.getfixturevalue("stack_url")
    async with open_core(url, checkpointer=backend) as core:
        yield core
        await check_consistency(core.redis)


async def agent(core: Core) -> Any:
    def model(state: MessagesState) -> dict[str, Any]:
        messages = state["messages"]
        if messages[-1].content == "break":
            return {"messages": [AIMessage("", tool_calls=[CALL])]}
        asked = any(isinstance(message, AIMessage) and message.tool_calls for message in messages)
        answered = any(isinstance(message, ToolMessage) for message in messages)
        return {"messages": [AIMessage("fine" if asked == answered else "broken")]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_edge(START, "model")
    graph.add_edge("model", END)
    async with checkpointer(core.connection.reader, core.connection.settings) as saver:
        return graph.compile(checkpointer=saver)


async def segment(core: Core, claim: Claim) -> Segment:
    return Segment(claim=claim, graph=await agent(core), leases=core.leases, approvals=core.approvals)


async def begin(core: Core, run_id: str, text: str) -> Claim:
    await core.runs.enqueue(
        new_run(run_id, input=f'{{"messages": [{{"role": "user", "content": "{text}"}}]}}')
    )
    return await core.claim(run_id)


async def end(core: Core, claim: Claim) -> str:
    result = await (await segment(core, claim)).drive()
    assert isinstance(result, Finished)
    await core.finish(claim)
    return result.result


async def broken_thread(core: Core) -> None:
    claim = await begin(core, "r1", "break")
    await (await segment(core, claim)).drive()
    await core.finish(claim, "error", reason="its worker broke")


async def test_the_next_run_repairs_and_then_begins(core: Core) -> None:
    await broken_thread(core)

    result = await end(core, await begin(core, "r2", "hello"))
    assert "The call of `pay` did not finish: its worker broke." in result
    assert '"fine"' in result


async def test_a_worker_that_dies_before_the_repair_leaves_it_to_the_next(core: Core) -> None:
    await broken_thread(core)
    await begin(core, "r2", "hello")
    await core.expire_lease()

    assert '"fine"' in await end(core, await core.claim("r2"))


async def test_a_worker_that_dies_after_the_repair_does_not_lose_the_input(core: Core) -> None:
    await broken_thread(core)
    claim = await begin(core, "r2", "hello")
    await (await segment(core, claim))._begin()
    await core.expire_lease()

    result = await end(core, await core.claim("r2"))
    assert '"hello"' in result
    assert '"fine"' in result


async def test_a_failed_run_is_retried_on_a_repaired_thread(core: Core) -> None:
    await broken_thread(core)
    await core.fail(await begin(core, "r2", "hello"))
    await core.placet.retry("r2")

    assert '"fine"' in await end(core, await core.claim("r2"))
