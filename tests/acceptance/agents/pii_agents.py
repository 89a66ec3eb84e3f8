"""Agents whose conversations hold personal data and secrets.

| agent         | what it does and where it pauses                                                        |
|---------------|-----------------------------------------------------------------------------------------|
| writing       | one action: send(to=MAIL, token=TOKEN, header=HEADER), which streams MAIL piece by      |
|               | piece and blocks, when it has had its effect, at barrier send; the last message has all |
| failing       | no pause: fail(to=MAIL) raises an error that names MAIL, from another one               |
| failing_model | no pause: the model raises an error that names MAIL                                     |
| asking        | interrupt({"may I use": MAIL}) in tool ask(to=MAIL); "done: ANSWER"                     |
| blocked       | ends when the input has an e-mail address                                               |
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from acceptance_effects import barrier, logged
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.types import interrupt

from placet.middleware import HumanInTheLoopMiddleware, PIIMiddleware
from placet.middleware.testing import Call, ScriptedModel, Step

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

MAIL = "jane.roe.4711@example.com"
TOKEN = "xapp-1-A0PIITEST-4711081508-c0ffee"  # noqa: S105 - no one's
HEADER = "Authorization: Bearer pii.Test-4711.c0ffee"
_LENGTH = 3


class PiecemealModel(ScriptedModel):
    """Streams its answers, and the arguments of its calls, three characters at a time."""

    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        result = await self._agenerate(messages, stop, run_manager, **kwargs)
        for message in _pieces(result.generations[0].message):
            chunk = ChatGenerationChunk(message=message)
            if run_manager:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk


def _pieces(message: Any) -> Iterator[AIMessageChunk]:
    assert isinstance(message, AIMessage)
    for text in _cut(message.text):
        yield AIMessageChunk(content=text)
    for index, call in enumerate(message.tool_calls):
        for n, args in enumerate(_cut(json.dumps(call["args"]))):
            first = {"name": call["name"], "id": call["id"]} if n == 0 else {"name": None, "id": None}
            yield AIMessageChunk(
                content="", tool_call_chunks=[tool_call_chunk(**first, args=args, index=index)]
            )
    yield AIMessageChunk(content="", chunk_position="last")


def _cut(text: str) -> list[str]:
    return [text[n : n + _LENGTH] for n in range(0, len(text), _LENGTH)]


@tool
async def send(to: str, token: str, header: str) -> str:
    """Send something to somebody."""
    logging.getLogger("smtp").warning("sending to %s", to, extra={"token": token})
    with logged("send", to=to, token=token, header=header):
        pass
    write = get_stream_writer()
    for piece in _cut(f"writing to {to} "):
        write(piece)
    write({"to": to, "token": token})
    await barrier("send")
    return f"sent to {to} with {token}"


@tool
async def fail(to: str) -> str:
    """Fail to send."""
    try:
        return json.loads(to)  # type: ignore[no-any-return]
    except ValueError as error:
        raise ConnectionError(f"no route to {to}") from error


@tool
async def ask(to: str) -> str:
    """Ask a person."""
    return str(interrupt({"may I use": to}))


def _rules() -> list[PIIMiddleware]:
    everywhere: Any = {f"apply_to_{what}": True for what in ("input", "output", "tool_results", "tool_args")}
    return [
        PIIMiddleware("email", strategy="redact", **everywhere),
        PIIMiddleware("secret", strategy="mask", **everywhere),
    ]


def _agent(*script: Any, middleware: list[Any] | None = None) -> Any:
    chain = [*(middleware or ()), *_rules()]
    return create_agent(PiecemealModel(script=list(script)), [send, fail, ask], middleware=chain)


writing = _agent(
    Step(
        f"I write to {MAIL} with {TOKEN} now.",
        calls=[Call("send", {"to": MAIL, "token": TOKEN, "header": HEADER})],
    ),
    lambda messages: f"done: {messages[-1].text}; {MAIL}, {HEADER}",
    middleware=[HumanInTheLoopMiddleware({"send": True})],
)
failing = _agent(Step(calls=[Call("fail", {"to": MAIL})]))
failing_model = _agent(Step(error=ValueError(f"nobody called {MAIL}, or {TOKEN}")))
asking = _agent(Step(calls=[Call("ask", {"to": MAIL})]), lambda messages: f"done: {messages[-1].text}")
blocked = create_agent(
    PiecemealModel(script=["never"]), middleware=[PIIMiddleware("email", strategy="block")]
)
