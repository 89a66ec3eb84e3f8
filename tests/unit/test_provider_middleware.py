"""Middleware of providers' packages beside ours, with their real clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware, StateClaudeMemoryMiddleware
from langchain_aws import ChatBedrockConverse
from langchain_aws.middleware import BedrockPromptCachingMiddleware
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from wire import Reply, WireServer

from placet.middleware import (
    HumanInTheLoopMiddleware,
    InMemorySharedState,
    ModelCallLimitMiddleware,
    RunContext,
    run_context,
    stack,
)
from placet.middleware.testing import Call

if TYPE_CHECKING:
    from collections.abc import Iterator

GO: Any = {"messages": [{"role": "user", "content": "go"}]}


@tool
def pay(to: str) -> str:
    """Pay someone."""
    return f"paid {to}"


async def paid(model: Any, *middleware: Any) -> Any:
    """The last message of an agent that pays, approved in the middle."""
    parts = [*middleware, ModelCallLimitMiddleware(run_limit=2)]
    parts.append(HumanInTheLoopMiddleware(interrupt_on={"pay": True}))
    agent = create_agent(model, tools=[pay], middleware=stack(*parts), checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    with run_context(RunContext(run_id="r", shared=InMemorySharedState())):
        out = await agent.ainvoke(GO, config, durability="sync")
        assert "__interrupt__" in out
        out = await agent.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
    assert [message.text for message in out["messages"][-2:]] == ["paid ann", "done"]
    return out


@pytest.fixture
def wire() -> Iterator[WireServer]:
    with WireServer([Reply(calls=[Call("pay", {"to": "ann"})]), Reply("done")]) as server:
        yield server


async def test_anthropics(wire: WireServer) -> None:
    await paid(wire.anthropic(), AnthropicPromptCachingMiddleware(), StateClaudeMemoryMiddleware())
    for request in wire.asked():
        assert {one["name"] for one in request.body["tools"]} == {"pay", "memory"}
        assert "cache_control" in str(request.body)


class Bedrock:
    """Stands in for boto3's client of Bedrock."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    def converse(self, **request: Any) -> Any:
        self.requests.append(request)
        use = {"toolUseId": "1", "name": "pay", "input": {"to": "ann"}}
        content = [{"toolUse": use}] if len(self.requests) == 1 else [{"text": "done"}]
        return {
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": "tool_use" if len(self.requests) == 1 else "end_turn",
            "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
            "metrics": {"latencyMs": [1]},
            "ResponseMetadata": {},
        }


async def test_bedrocks() -> None:
    client = Bedrock()
    options: Any = {"model": "anthropic.claude-sonnet-4-5-20250929-v1:0", "provider": "anthropic"}
    model = ChatBedrockConverse(client=client, bedrock_client=client, **options)
    await paid(model, BedrockPromptCachingMiddleware())
    assert len(client.requests) == 2
    assert all("cachePoint" in str(request) for request in client.requests)
