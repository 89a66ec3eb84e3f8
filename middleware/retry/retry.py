"""Retries of tool calls and model calls that survive the worker."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from langchain.agents import middleware as stock
from langchain.agents.middleware._retry import default_retry_on
from langchain_core.messages import AIMessage
from langchain_core.runnables.config import ensure_config

from placet.errors import InvalidInput

from ..ledger.attempt import call_id_of
from ..ledger.declared import declaration_of
from ..named_tools import named, tool_names
from ..shared import MODEL_FAILURE, current_run
from .retryable import model_may_retry, tool_may_retry
from .tries import GuardedCall, Tries, aretried, retried

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from langchain.agents.middleware._retry import OnFailure, RetryOn
    from langchain.agents.middleware.types import ModelRequest, ModelResponse, ToolCallRequest
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import BaseTool
    from langgraph.types import Command

    from ..named_tools import NamedTool
    from ..shared import RunContext

PARK_AFTER_SECONDS = 2.0
MAX_TOTAL_WAIT_SECONDS = 3600.0

another_model: ContextVar[bool] = ContextVar("placet_another_model", default=False)
"""Whether a model that fails is followed by another: then its failure is no answer."""


class ToolRetryMiddleware(stock.ToolRetryMiddleware[Any, Any]):
    """LangChain's, with attempts and waits that survive the worker and hold no slot while they are long.

    While a run is under way, a tool that is named in `tools`, or declared `idempotent`, is simply called
    again. Any other may have taken effect before it raised: what it declares for an unknown outcome counts,
    which is to ask a person unless it says otherwise. Without a run it is LangChain's.

    Args:
        max_retries, tools, on_failure, backoff_factor, initial_delay, max_delay, jitter: as LangChain's.
        retry_on: As LangChain's, and a class or a list of classes too. The default obeys `stamp_retryable`,
            then LangChain's `is_retryable`, and retries what is neither.
        park_after: Seconds; a longer wait is a timer, and the worker is free meanwhile.
        max_total_wait: Seconds that all waits of a call may come to; `Retry-After` is obeyed, whatever
            `max_delay` is, or the call is given up if this does not allow for it.
        name: For a second one in the same agent.

    Raises:
        ValueError: when an argument is none of these.
    """

    def __init__(
        self,
        *,
        max_retries: int = 2,
        tools: list[BaseTool | str] | None = None,
        retry_on: RetryOn | Sequence[type[Exception]] | type[Exception] = default_retry_on,
        on_failure: OnFailure = "continue",
        backoff_factor: float = 2.0,
        initial_delay: float = 1.0,
        max_delay: float = 60.0,
        jitter: bool = True,
        park_after: float = PARK_AFTER_SECONDS,
        max_total_wait: float = MAX_TOTAL_WAIT_SECONDS,
        name: str | None = None,
    ) -> None:
        names: Any = tool_names(tools)
        super().__init__(
            max_retries=max_retries,
            tools=names,
            retry_on=_retry_on(retry_on, tool_may_retry),
            on_failure=on_failure,
            backoff_factor=backoff_factor,
            initial_delay=initial_delay,
            max_delay=max_delay,
            jitter=jitter,
        )
        _check(self.on_failure, park_after=park_after, max_total_wait=max_total_wait)
        self.park_after = park_after
        self.max_total_wait = max_total_wait
        self._name = name

    @property
    def name(self) -> str:
        """What tells it from others in its agent."""
        return self._name or super().name

    @property
    def named_tools(self) -> list[NamedTool]:
        """The tools that it is for, if not for all."""
        return named("tools", self._tool_filter)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """Call the tool until it succeeds, or is not to be called again."""
        if (run := current_run()) is None or not self._should_retry_tool(_tool_name(request)):
            return await super().awrap_tool_call(request, handler)
        return await aretried(
            self._tries(run, request), lambda: handler(request), give_up=self._give_up(request)
        )

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """As `awrap_tool_call`."""
        if (run := current_run()) is None or not self._should_retry_tool(_tool_name(request)):
            return super().wrap_tool_call(request, handler)
        tries = self._tries(run, request)
        give_up = self._give_up(request)
        return retried(tries, lambda: handler(request), give_up=give_up, loop=run.shared.loop)

    def _tries(self, run: RunContext, request: ToolCallRequest) -> Tries:
        call = call_id_of(request, "messages")
        declared = None if request.tool is None else declaration_of(request.tool)
        may_run_again = self._tool_filter is not None or (
            declared is not None and declared.on_unknown == "rerun"
        )
        looked_up = declared is not None and declared.verify is not None
        guarded = GuardedCall(call.key, request.runtime, may_run_again, looked_up)
        return Tries(run, self, place=call.key, what=call.tool, tool=guarded)

    def _give_up(self, request: ToolCallRequest) -> Callable[[Exception, int], ToolMessage | Command[Any]]:
        name, call_id = _tool_name(request), request.tool_call["id"]
        return lambda error, attempts: self._handle_failure(name, call_id, error, attempts)


class ModelRetryMiddleware(stock.ModelRetryMiddleware[Any, Any]):
    """LangChain's, with attempts and waits that survive the worker and hold no slot while they are long.

    While a run is under way each attempt is counted before it is made, so one that dies with its worker
    counts. With the default `on_failure` the agent ends as if the error were the model's answer, as
    LangChain's does; the message's `response_metadata["placet_failure"]` and the run's `reason` say so.

    Args:
        max_retries, on_failure, backoff_factor, initial_delay, max_delay, jitter: as LangChain's.
        retry_on: As `ToolRetryMiddleware`'s. The default also takes for final what a client raises for HTTP
            status 400, 401, 402, 403, 404, 413 or 422, and an exhausted quota.
        park_after: Seconds; a longer wait is a timer, and the worker is free meanwhile.
        max_total_wait: Seconds that all waits of a call may come to; see `ToolRetryMiddleware`.
        name: For a second one in the same agent.

    Raises:
        ValueError: when an argument is none of these.
    """

    def __init__(
        self,
        *,
        max_retries: int = 2,
        retry_on: RetryOn | Sequence[type[Exception]] | type[Exception] = default_retry_on,
        on_failure: OnFailure = "continue",
        backoff_factor: float = 2.0,
        initial_delay: float = 1.0,
        max_delay: float = 60.0,
        jitter: bool = True,
        park_after: float = PARK_AFTER_SECONDS,
        max_total_wait: float = MAX_TOTAL_WAIT_SECONDS,
        name: str | None = None,
    ) -> None:
        super().__init__(
            max_retries=max_retries,
            retry_on=_retry_on(retry_on, model_may_retry),
            on_failure=on_failure,
            backoff_factor=backoff_factor,
            initial_delay=initial_delay,
            max_delay=max_delay,
            jitter=jitter,
        )
        _check(self.on_failure, park_after=park_after, max_total_wait=max_total_wait)
        self.park_after = park_after
        self.max_total_wait = max_total_wait
        self._name = name

    @property
    def name(self) -> str:
        """What tells it from others in its agent."""
        return self._name or super().name

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any] | AIMessage:
        """Call the model until it answers, or is not to be called again."""
        if (run := current_run()) is None:
            return await super().awrap_model_call(request, handler)
        return await aretried(self._tries(run), lambda: handler(request), give_up=self._handle_failure)

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any] | AIMessage:
        """As `awrap_model_call`."""
        if (run := current_run()) is None:
            return super().wrap_model_call(request, handler)
        tries, loop = self._tries(run), run.shared.loop
        return retried(tries, lambda: handler(request), give_up=self._handle_failure, loop=loop)

    def _tries(self, run: RunContext) -> Tries:
        # a node's namespace holds its task's id, which is the same whenever that is entered again
        place = ensure_config().get("configurable", {}).get("checkpoint_ns", "")
        return Tries(run, self, place=place, what="the model", tool=None)

    def _handle_failure(self, exc: Exception, attempts_made: int) -> ModelResponse[Any]:
        if another_model.get():
            raise exc
        response = super()._handle_failure(exc, attempts_made)
        about = {"type": type(exc).__name__, "attempts": attempts_made}
        for message in response.result:
            if isinstance(message, AIMessage):
                message.response_metadata[MODEL_FAILURE] = about
        return response


def _tool_name(request: ToolCallRequest) -> str:
    return request.tool.name if request.tool else request.tool_call["name"]


def _retry_on(
    given: RetryOn | Sequence[type[Exception]] | type[Exception], default: Callable[[Exception], bool]
) -> RetryOn:
    return default if given is default_retry_on else error_filter("retry_on", given)


def error_filter(field: str, given: RetryOn | Sequence[type[Exception]] | type[Exception]) -> RetryOn:
    """Make what LangChain takes of what is given: a class is a function too, and would be called.

    Raises:
        InvalidInput: when it is neither a class of exceptions, several of them, nor a function.
    """
    classes = (given,) if isinstance(given, type) else given
    if isinstance(classes, list | tuple) and all(map(_is_error, classes)):
        return tuple(classes)
    if callable(classes):
        return classes
    raise InvalidInput(field, "a class of exceptions, a list of them, or a function of one is wanted")


def _is_error(one: object) -> bool:
    return isinstance(one, type) and issubclass(one, BaseException)


def _check(on_failure: object, **seconds: float) -> None:
    if not callable(on_failure) and on_failure not in ("error", "continue"):
        raise InvalidInput("on_failure", f"{on_failure!r} is neither continue, error nor a function")
    for name, value in seconds.items():
        if not value >= 0:
            raise InvalidInput(name, "must be 0 or more seconds")
