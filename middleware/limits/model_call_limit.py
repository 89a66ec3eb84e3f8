"""Limits of model calls, exact over pauses, kills, retries, subagents and workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from langchain.agents.middleware import ModelResponse, hook_config
from langchain.agents.middleware import model_call_limit as stock
from langchain_core.messages import AIMessage, ToolMessage
from typing_extensions import override

from placet.errors import NoRun

from ..shared import current_run
from .meter import Limit, alimited, counts_of, limited
from .refused import LimitExceeded, last_word
from .windows import windows_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from langchain.agents.middleware import ExtendedModelResponse, ModelRequest
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command

    from ..shared import RunContext
    from .refused import CallRefused
    from .windows import CallWindow

    Answer = ModelResponse[Any] | AIMessage | ExtendedModelResponse[Any]
    Result = ToolMessage | Command[Any]


class ModelCallLimitExceededError(stock.ModelCallLimitExceededError, LimitExceeded):
    """Raised when there is no room for a model call and `exit_behavior` is `error`; no retry swallows it."""

    def __init__(
        self,
        thread_count: int,
        run_count: int,
        thread_limit: int | None,
        run_limit: int | None,
        windows: Sequence[str] = (),
    ) -> None:
        super().__init__(thread_count, run_count, thread_limit, run_limit)
        self.windows = tuple(windows)
        text = str(self)
        if windows:
            self.args = (text + (", " if not text.endswith(": ") else "") + ", ".join(windows),)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it as what it was made of."""
        counts = (self.thread_count, self.run_count, self.thread_limit, self.run_limit)
        return type(self), (*counts, self.windows)


class ModelCallLimitMiddleware(stock.ModelCallLimitMiddleware[Any, Any]):
    """LangChain's, with counts that every process shares.

    Each call that is made counts, a retry too, and those of subagents count in their parent's run. A run is
    one request with all its pauses. Without a run (`run_context`) it does as LangChain's.

    Args:
        thread_limit, run_limit, exit_behavior: as LangChain's.
        windows: further limits, over time.
        name: where an agent has several; limiters of one name share their windows.

    Raises:
        ValueError: as LangChain's; `windows` are a limit too.
    """

    def __init__(
        self,
        *,
        thread_limit: int | None = None,
        run_limit: int | None = None,
        exit_behavior: Literal["end", "error"] = "end",
        windows: Sequence[CallWindow] = (),
        name: str | None = None,
    ) -> None:
        self.windows = windows_of(windows, thread_limit, run_limit)
        only_windows = thread_limit is None and run_limit is None
        # LangChain's wants one of its own two limits
        first = 0 if only_windows else run_limit
        super().__init__(thread_limit=thread_limit, run_limit=first, exit_behavior=exit_behavior)
        self.run_limit = run_limit
        self._name = name

    @property
    def name(self) -> str:
        """What its counts are kept under."""
        return self._name or super().name

    @hook_config(can_jump_to=["end"])
    @override
    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Without a run, as LangChain's."""
        if current_run() is not None:
            return None
        if self.windows:
            raise NoRun(f"{self.name}: drive the agent within placet.middleware.run_context(…)")
        try:
            return super().before_model(state, runtime)
        except stock.ModelCallLimitExceededError as error:
            counts = (error.thread_count, error.run_count, error.thread_limit, error.run_limit)
            raise ModelCallLimitExceededError(*counts) from None

    @override
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Without a run, as LangChain's."""
        return super().after_model(state, runtime) if current_run() is None else None

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Answer]]
    ) -> Answer:
        """Limit the calls of the agent's model."""
        return await alimited(request, handler, limit_of=self._limit, instead=self._answer)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Answer]
    ) -> Answer:
        """As `awrap_model_call`."""
        return limited(request, handler, limit_of=self._limit, instead=self._answer)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        """Limit the calls of models inside a tool."""
        return await alimited(request, handler, limit_of=self._limit, instead=self._result)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]
    ) -> Result:
        """As `awrap_tool_call`."""
        return limited(request, handler, limit_of=self._limit, instead=self._result)

    def _limit(self, run: RunContext) -> Limit:
        limits: dict[str, Any] = {"thread_limit": self.thread_limit, "run_limit": self.run_limit}
        counts = counts_of(self.name, run, windows=self.windows, **limits)
        return Limit(name=self.name, calls="model", counts=counts)

    def _answer(self, refused: CallRefused, _: object) -> Answer:
        """End the agent with a message."""
        return ModelResponse(result=[last_word(self.name, self._text(refused))])

    def _result(self, refused: CallRefused, request: ToolCallRequest) -> ToolMessage:
        """Tell the model; its next call is refused too."""
        call = request.tool_call
        text = self._text(refused)
        return ToolMessage(text, tool_call_id=call["id"], name=call["name"], status="error")

    def _text(self, refused: CallRefused) -> str:
        of_run, of_thread, *of_windows = refused.reached
        full = [
            window.shown(one.value)
            for window, one in zip(self.windows, of_windows, strict=True)
            if one.full and not window.park
        ]
        error = ModelCallLimitExceededError(
            of_thread.value, of_run.value, self.thread_limit, self.run_limit, full
        )
        if self.exit_behavior == "error":
            raise error from None
        return str(error)
