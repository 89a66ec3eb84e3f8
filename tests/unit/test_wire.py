"""The local server of OpenAI's and Anthropic's wire format, asked by the real clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.exceptions import (
    ContextOverflowError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelRateLimitError,
    ModelTimeoutError,
)
from wire import Reply, WireServer

from placet.middleware.testing import Call

if TYPE_CHECKING:
    from collections.abc import Iterator

PROVIDERS = pytest.mark.parametrize("provider", ["openai", "anthropic"])


@pytest.fixture
def wire() -> Iterator[WireServer]:
    with WireServer() as server:
        yield server


def model_of(wire: WireServer, provider: str, **options: Any) -> Any:
    return getattr(wire, provider)(**options)


@PROVIDERS
@pytest.mark.parametrize("streaming", [True, False])
async def test_an_agent_calls_its_tools(wire: WireServer, provider: str, *, streaming: bool) -> None:
    def look_up(key: str) -> str:
        """Look up."""
        return f"found {key}"

    wire.script = [Reply("let me look", calls=[Call("look_up", {"key": "ä 🚀"})]), Reply("it is there")]
    agent = create_agent(model_of(wire, provider, streaming=streaming), [look_up])
    out = await agent.ainvoke({"messages": [{"role": "user", "content": "go"}]})
    assert [message.text for message in out["messages"]] == ["go", "let me look", "found ä 🚀", "it is there"]
    assert [request.provider for request in wire.asked()] == [provider, provider]
    assert all(bool(request.body.get("stream")) == streaming for request in wire.asked())
    if provider == "anthropic" or not streaming:  # OpenAI's client asks other servers for no usage in streams
        assert out["messages"][-1].usage_metadata["input_tokens"] == 7


@PROVIDERS
async def test_words_are_streamed(wire: WireServer, provider: str) -> None:
    wire.script = [Reply("one two three")]
    chunks = [chunk.text async for chunk in model_of(wire, provider).astream("hi")]
    assert [text for text in chunks if text] == ["one", " two", " three"]


@PROVIDERS
@pytest.mark.parametrize(
    ("reply", "raised"),
    [
        (Reply(status=429, headers={"retry-after": "120"}), ModelRateLimitError),
        (Reply(status=500), ModelAPIError),
        (Reply(status=401), ModelAuthenticationError),
        (Reply("prompt is too long", status=400), ContextOverflowError),
        (Reply(breaks=True), ModelConnectionError),
    ],
)
async def test_errors_are_the_clients_own(
    wire: WireServer, provider: str, reply: Reply, raised: type[Exception]
) -> None:
    wire.script = [reply]
    with pytest.raises(raised) as error:
        await model_of(wire, provider).ainvoke("hi")
    if reply.headers:
        assert error.value.response.headers["retry-after"] == "120"  # type: ignore[attr-defined]
    assert len(wire.asked()) == 1


@PROVIDERS
async def test_silence_times_out(wire: WireServer, provider: str) -> None:
    wire.script = [Reply(silent=True)]
    with pytest.raises(ModelTimeoutError):
        await model_of(wire, provider, timeout=0.2).ainvoke("hi")


@PROVIDERS
async def test_a_stream_breaks(wire: WireServer, provider: str) -> None:
    wire.script = [Reply("one two three four", breaks=True)]
    with pytest.raises(Exception, match=r"peer closed|Connection error"):
        _ = [chunk async for chunk in model_of(wire, provider).astream("hi")]


def test_a_script_of_what_is_asked(wire: WireServer) -> None:
    wire.script = lambda request: Reply(f"I am {request.model}")
    assert wire.openai("a").invoke("hi").text == "I am a"
    assert wire.anthropic("b").invoke("hi").text == "I am b"
    assert [len(wire.asked(name)) for name in ("a", "b", "c")] == [1, 1, 0]
