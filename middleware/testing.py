"""A chat model that follows a script, for tests and demos without an API key.

    model = ScriptedModel(
        script=[
            Step("Let me look.", calls=[Call("lookup_order", {"order_id": "A-17"})]),
            Step(calls=[Call("refund", {"order_id": "A-17", "amount": 42})], delay_seconds=0.2),
            lambda messages: f"Done: {messages[-1].content}",
        ]
    )
    agent = create_agent(model, tools=[lookup_order, refund])

Which step is next is read from the messages alone: the number of AI messages since the last human
one. So a run that pauses in one process goes on in another, a model call that is retried gets the
same step again, and a new human message starts the script over. A step with an `error` therefore
raises each time; for an error that passes, give a function that counts where your test can see it.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolCall
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call the model makes; without an `id` it gets one that is unique in its thread."""

    name: str
    args: dict[str, Any] = field(default_factory=dict)
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One answer: waits `delay_seconds`, then raises `error` or says `text` and makes the `calls`."""

    text: str = ""
    calls: Sequence[Call] = ()
    error: BaseException | None = None
    delay_seconds: float = 0.0


ScriptedStep = Step | str | Callable[[Sequence[BaseMessage]], Step | str | Awaitable[Step | str]]
"""A step, a text alone, or a function of the messages that gives either; an async one serves async calls."""


class ScriptedModel(BaseChatModel):
    """Answers by its script, the same in every process; streams word by word, ignores the tools it is given.

    Raises:
        ValueError: when it is asked for more steps than the script has.
    """

    script: Sequence[Any]
    """The steps of one turn, each a `ScriptedStep`."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: Any = None, **kwargs: Any) -> ScriptedModel:  # noqa: ARG002
        """Take any tools; the script says what is called."""
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> ChatResult:
        return _result(self._answer(messages))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> ChatResult:
        return _result(await self._aanswer(messages))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in _chunks(self._answer(messages)):
            if run_manager:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in _chunks(await self._aanswer(messages)):
            if run_manager:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    def _answer(self, messages: list[BaseMessage]) -> AIMessage:
        step = self._next(messages)
        if inspect.isawaitable(step):
            if inspect.iscoroutine(step):
                step.close()
            raise TypeError("an async function in the script serves async calls only")
        if isinstance(step, Step) and step.delay_seconds:
            time.sleep(step.delay_seconds)
        return _message(step, messages)

    async def _aanswer(self, messages: list[BaseMessage]) -> AIMessage:
        step = self._next(messages)
        if inspect.isawaitable(step):
            step = await step
        if isinstance(step, Step) and step.delay_seconds:
            await asyncio.sleep(step.delay_seconds)
        return _message(step, messages)

    def _next(self, messages: list[BaseMessage]) -> Step | str | Awaitable[Step | str]:
        index = _position(messages)
        if index >= len(self.script):
            raise ValueError(f"the script has {len(self.script)} steps, asked for number {index + 1}")
        step = cast("ScriptedStep", self.script[index])
        return step if isinstance(step, Step | str) else step(messages)


def _position(messages: Sequence[BaseMessage]) -> int:
    """Count the AI messages since the last human one."""
    count = 0
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            break
        count += isinstance(message, AIMessage)
    return count


def _message(step: Step | str, messages: Sequence[BaseMessage]) -> AIMessage:
    if isinstance(step, str):
        return AIMessage(step)
    if step.error is not None:
        raise step.error
    turn = sum(isinstance(message, HumanMessage) for message in messages)
    place = f"call_{turn}_{_position(messages)}"
    calls = [
        ToolCall(name=call.name, args=call.args, id=call.id or f"{place}_{index}", type="tool_call")
        for index, call in enumerate(step.calls)
    ]
    return AIMessage(step.text, tool_calls=calls)


def _result(message: AIMessage) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=message)])


def _chunks(message: AIMessage) -> Iterator[ChatGenerationChunk]:
    """Cut a message into words, then tool calls; the last chunk says that it is the last."""
    parts = [AIMessageChunk(content=word) for word in re.findall(r"\s*\S+|\s+", message.text)]
    parts += [
        AIMessageChunk(
            content="",
            tool_call_chunks=[
                tool_call_chunk(name=call["name"], args=json.dumps(call["args"]), id=call["id"], index=index)
            ],
        )
        for index, call in enumerate(message.tool_calls)
    ]
    parts.append(AIMessageChunk(content="", chunk_position="last"))
    for part in parts:
        yield ChatGenerationChunk(message=part)
