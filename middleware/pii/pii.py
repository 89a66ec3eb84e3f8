"""PIIMiddleware: personal data masked before it is kept, streamed or shown, in all processes alike."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from langchain.agents.middleware import ExtendedModelResponse, ModelResponse, PIIMatch, hook_config
from langchain.agents.middleware import PIIMiddleware as StockPIIMiddleware
from langchain.agents.middleware.pii import _PIIStreamTransformer
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from placet.errors import InvalidSettings

from ..calling import with_distinct_ids
from ..shared import current_run
from . import masked_calls
from .detectors import detector_of
from .masked_messages import BLOCKED, masked_message
from .redaction import PIIDetectionError, Rule
from .sealed_calls import seal_here, sealed_message

if TYPE_CHECKING:
    import re
    from collections.abc import Awaitable, Callable

    from langchain.agents.middleware import AgentState, ModelRequest
    from langchain_core.messages import AnyMessage, BaseMessage
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.runtime import Runtime


class PIIMiddleware(StockPIIMiddleware[Any, Any]):
    """Finds personal data in conversations and masks it, or blocks.

    LangChain's, and: an answer and a tool's result are masked before the step that made them is written, a
    worker masks the input before anything is, and streams, approval requests, results, errors and logs by the
    same rules. Hashes are keyed where `PLACET_ENCRYPTION_KEY` is set; workers require it for them.

    Args:
        pii_type: `email`, `credit_card`, `ip` (IPv6 too), `mac_address`, `url`, `secret` (keys and tokens
            that can be told by their form), or a name of your own with a `detector`.
        strategy: `redact`, `mask`, `hash` or `block`.
        detector: a function, a pattern, or a pattern's text; None takes the type's own.
        apply_to_input: messages of the user.
        apply_to_output: the model's answers.
        apply_to_tool_results: what tools return.
        apply_to_tool_args: the arguments of tool calls. They are sealed under `PLACET_ENCRYPTION_KEY`: people
            are asked about the masked ones, the tool gets the raw ones.

    Raises:
        ValueError: when the type has no detector, or there is no such strategy.
        InvalidSettings: when arguments are to be sealed and there is no key.
    """

    def __init__(
        self,
        pii_type: Literal["email", "credit_card", "ip", "mac_address", "url", "secret"] | str,  # noqa: PYI051
        *,
        strategy: Literal["block", "redact", "mask", "hash"] = "redact",
        detector: Callable[[str], list[PIIMatch]] | str | re.Pattern[str] | None = None,
        apply_to_input: bool = True,
        apply_to_output: bool = False,
        apply_to_tool_results: bool = False,
        apply_to_tool_args: bool = False,
    ) -> None:
        if strategy not in ("block", "redact", "mask", "hash"):
            raise ValueError(f"strategy: must be block, redact, mask or hash, not {strategy!r}")
        found = detector_of(pii_type, detector)
        super().__init__(
            pii_type,
            strategy=strategy,
            detector=found,
            apply_to_input=apply_to_input,
            apply_to_output=apply_to_output,
            apply_to_tool_results=apply_to_tool_results,
        )
        self.apply_to_tool_args = apply_to_tool_args
        self._seal = seal_here()
        if apply_to_tool_args and self._seal is None:
            raise InvalidSettings(
                "PLACET_ENCRYPTION_KEY: must be set, for PIIMiddleware seals tool arguments under it"
            )
        if apply_to_tool_args and not self.transformers:
            self.transformers = (partial(_PIIStreamTransformer, rule=self._resolved_rule),)
        self.rule = Rule(pii_type=pii_type, strategy=strategy, detector=found, seal=self._seal)

    def _process_content(self, content: Any) -> tuple[Any, bool]:
        message = masked_message(HumanMessage(content), self.rule, self.rule.apply)
        return message.content, message.content != content

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Mask what came in since: all of the user's messages, and tools' results.

        Raises:
            PIIDetectionError: when something was found and the rule blocks.
        """
        return self._changed(state, self._masked_before)

    @hook_config(can_jump_to=["end"])
    async def abefore_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """As `before_model`."""
        return self.before_model(state, runtime)

    def after_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Mask the model's answer where it was not when it was made.

        Raises:
            PIIDetectionError: when something was found and the rule blocks.
        """
        return self._changed(state, self._masked_after)

    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """As `after_model`."""
        return self.after_model(state, runtime)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> Any:
        """Mask the answer before the step that asked for it is written."""
        return self._masked_response(handler(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> Any:
        """As `wrap_model_call`."""
        return self._masked_response(await handler(request))

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """Give the tool its raw arguments and mask what it returns: a worker does, inside all middleware."""
        with masked_calls.results_masked(self.rule if self.apply_to_tool_results else None):
            run = current_run()
            if run is not None and run.guarded:
                return handler(request)
            return masked_calls.execute(request, handler)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """As `wrap_tool_call`."""
        with masked_calls.results_masked(self.rule if self.apply_to_tool_results else None):
            run = current_run()
            if run is not None and run.guarded:
                return await handler(request)
            return await masked_calls.aexecute(request, handler)

    def masked_input(self, message: AnyMessage) -> BaseMessage:
        """A message of a run's input, before it is written anywhere.

        Raises:
            PIIDetectionError: when something was found and the rule blocks.
        """
        if isinstance(message, AIMessage):
            return self._masked_answer(message)
        made: BaseMessage = self._masked_before([message])[0]
        return made

    def _changed(
        self, state: AgentState[Any], mask: Callable[[list[Any]], list[Any]]
    ) -> dict[str, Any] | None:
        messages = state["messages"]
        made = mask(messages)
        return None if all(a is b for a, b in zip(made, messages, strict=True)) else {"messages": made}

    def _masked_before(self, messages: list[Any]) -> list[Any]:
        answers = [n for n, message in enumerate(messages) if isinstance(message, AIMessage)]
        made = list(messages)
        for n, message in enumerate(messages):
            if self.apply_to_input and isinstance(message, HumanMessage):
                made[n] = masked_message(message, self.rule, self.rule.apply)
            elif (
                self.apply_to_tool_results
                and isinstance(message, ToolMessage)
                and answers
                and n > answers[-1]
            ):
                made[n] = self._masked_tool(message)
        return made

    def _masked_tool(self, message: ToolMessage) -> BaseMessage:
        if not self.apply_to_tool_results:
            return message
        if self.pii_type in message.additional_kwargs.get(BLOCKED, ()):
            raise PIIDetectionError(
                self.pii_type, [{"type": self.pii_type, "value": "", "start": 0, "end": 0}]
            )
        return masked_message(message, self.rule, self.rule.apply)

    def _masked_after(self, messages: list[Any]) -> list[Any]:
        made = list(messages)
        last = next((n for n in reversed(range(len(made))) if isinstance(made[n], AIMessage)), None)
        if last is not None:
            made[last] = self._masked_answer(made[last])
        return made

    def _masked_answer(self, message: AIMessage) -> AIMessage:
        made: Any = message
        if self.apply_to_output:
            made = masked_message(made, self.rule, self.rule.apply)
        if self.apply_to_tool_args and self._seal is not None:
            made = sealed_message(with_distinct_ids(made), self.rule, self._seal)
        answer: AIMessage = made
        return answer

    def _masked_response(self, response: Any) -> Any:
        if isinstance(response, AIMessage):
            return self._masked_answer(response)
        if isinstance(response, ExtendedModelResponse):
            return replace(response, model_response=self._masked_response(response.model_response))
        if isinstance(response, ModelResponse):
            made = [self._masked_answer(m) if isinstance(m, AIMessage) else m for m in response.result]
            return replace(response, result=made)
        return response


def is_wide(middleware: StockPIIMiddleware[Any, Any]) -> bool:
    """Whether a rule is for more than what users write: then it is for all that leaves the agent."""
    return bool(
        middleware.apply_to_output
        or middleware.apply_to_tool_results
        or getattr(middleware, "apply_to_tool_args", False)
    )
