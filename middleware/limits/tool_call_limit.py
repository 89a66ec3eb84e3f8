"""Limits of tool calls, exact over decisions, pauses, kills, retries, subagents and workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import ModelResponse, hook_config
from langchain.agents.middleware import tool_call_limit as stock
from langchain_core.messages import AIMessage, ToolMessage
from typing_extensions import override

from placet.errors import NoRun

from ..named_tools import NamedTool
from ..shared import current_run
from ..waiting import wait
from .meter import Limit, alimited, counts_of, current_thread, limited
from .refused import LimitExceeded, last_word
from .windows import windows_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from langchain.agents.middleware import ExtendedModelResponse, ModelRequest
    from langchain_core.messages import ToolCall
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command

    from ..shared import RunContext
    from .refused import CallRefused
    from .windows import CallWindow

    Answer = ModelResponse[Any] | AIMessage | ExtendedModelResponse[Any]
    Result = ToolMessage | Command[Any]

_ENDED_BY = "placet_ended_by"
"""On a tool's message: the limiter that ends the agent, and what it says then."""


class ToolCallLimitExceededError(stock.ToolCallLimitExceededError, LimitExceeded):
    """Raised when there is no room for a tool call and `exit_behavior` is `error`; no retry swallows it."""

    def __init__(  # noqa: PLR0917 - LangChain's arguments
        self,
        thread_count: int,
        run_count: int,
        thread_limit: int | None,
        run_limit: int | None,
        tool_name: str | None = None,
        windows: Sequence[str] = (),
    ) -> None:
        super().__init__(thread_count, run_count, thread_limit, run_limit, tool_name)
        self.windows = tuple(windows)
        text = str(self).removesuffix(".")
        if windows:
            self.args = (text + (" and " if not text.endswith(": ") else "") + " and ".join(windows) + ".",)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it as what it was made of."""
        counts = (self.thread_count, self.run_count, self.thread_limit, self.run_limit)
        return type(self), (*counts, self.tool_name, self.windows)


class ToolCallLimitMiddleware(stock.ToolCallLimitMiddleware[Any, Any]):
    """LangChain's, with counts that every process shares.

    A call counts when its tool is about to be executed: a retry is a further one, one that was rejected,
    blocked or has its result in the ledger is none, and those of subagents count in their parent's run. What
    there is no room for is blocked as soon as the model has asked for it, before anybody is asked to approve
    it. Without a run (`run_context`) it does as LangChain's.

    Args:
        tool_name, thread_limit, run_limit, exit_behavior: as LangChain's.
        windows: further limits, over time.
        name: where an agent has several for the same tool; limiters of one name share their windows.

    Raises:
        ValueError: as LangChain's; `windows` are a limit too.
    """

    def __init__(
        self,
        *,
        tool_name: str | None = None,
        thread_limit: int | None = None,
        run_limit: int | None = None,
        exit_behavior: stock.ExitBehavior = "continue",
        windows: Sequence[CallWindow] = (),
        name: str | None = None,
    ) -> None:
        self.windows = windows_of(windows, thread_limit, run_limit)
        only_windows = thread_limit is None and run_limit is None
        # LangChain's wants one of its own two limits
        first = 0 if only_windows else run_limit
        given: dict[str, Any] = {"tool_name": tool_name, "thread_limit": thread_limit}
        super().__init__(run_limit=first, exit_behavior=exit_behavior, **given)
        self.run_limit = run_limit
        self._name = name

    @property
    def name(self) -> str:
        """What its counts are kept under."""
        return self._name or super().name

    @property
    def named_tools(self) -> list[NamedTool]:
        """The tool that it counts, if not all; agents inside the agent's tools count too."""
        return [] if self.tool_name is None else [NamedTool("tool_name", self.tool_name, inside=True)]

    @hook_config(can_jump_to=["end"])
    @override
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Block the calls that there is no room for."""
        if (run := current_run()) is None:
            return self._without_run(state, runtime)
        if not (calls := self._asked_for(state)):
            return None
        limit = self._limit(run)
        look = run.shared.call_counts(run.run_id, limit.counts, thread_id=current_thread(run))
        return self._blocked(state, calls, wait(look, run.shared.loop))

    @hook_config(can_jump_to=["end"])
    @override
    async def aafter_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """As `after_model`."""
        if (run := current_run()) is None:
            return self._without_run(state, runtime)
        if not (calls := self._asked_for(state)):
            return None
        limit = self._limit(run)
        values = await run.shared.call_counts(run.run_id, limit.counts, thread_id=current_thread(run))
        return self._blocked(state, calls, values)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        """Limit the call, and those inside its tool."""
        return await alimited(request, handler, limit_of=self._limit, instead=self._result)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]
    ) -> Result:
        """As `awrap_tool_call`."""
        return limited(request, handler, limit_of=self._limit, instead=self._result)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Answer]]
    ) -> Answer:
        """End the agent instead if a call was refused at its tool, and that is to end it."""
        text = self._ended(request.state)
        return await handler(request) if text is None else ModelResponse(result=[last_word(self.name, text)])

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Answer]
    ) -> Answer:
        """As `awrap_model_call`."""
        text = self._ended(request.state)
        return handler(request) if text is None else ModelResponse(result=[last_word(self.name, text)])

    def _without_run(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        if self.windows:
            raise NoRun(f"{self.name}: drive the agent within placet.middleware.run_context(…)")
        try:
            return super().after_model(state, runtime)
        except stock.ToolCallLimitExceededError as error:
            counts = (error.thread_count, error.run_count, error.thread_limit, error.run_limit)
            raise ToolCallLimitExceededError(*counts, error.tool_name) from None

    def _limit(self, run: RunContext) -> Limit:
        limits: dict[str, Any] = {"thread_limit": self.thread_limit, "run_limit": self.run_limit}
        counts = counts_of(self.name, run, windows=self.windows, **limits)
        return Limit(name=self.name, calls="tool", tool_name=self.tool_name, counts=counts)

    def _asked_for(self, state: Any) -> list[ToolCall]:
        """The calls it counts that the model has just asked for and nothing has answered."""
        return [call for call in _pending(state) if self._matches_tool_filter(call)]

    def _blocked(self, state: Any, calls: list[ToolCall], values: tuple[int, ...]) -> dict[str, Any] | None:
        of_run, of_thread, *of_windows = values
        refusing = [
            (window, value) for window, value in zip(self.windows, of_windows, strict=True) if not window.park
        ]
        limits = [(self.run_limit, of_run), (self.thread_limit, of_thread)]
        limits += [(window.limit, value) for window, value in refusing]
        rooms = [max(0, limit - value) for limit, value in limits if limit is not None]
        blocked = calls[min(rooms, default=len(calls)) :]
        if not blocked:
            return None
        more = len(calls)
        full = [window.shown(value + more) for window, value in refusing if value + more > window.limit]
        text = self._exceeded(of_thread + more, of_run + more, full)
        messages: list[ToolMessage | AIMessage] = [_refusal(call, self._instruction) for call in blocked]
        if self.exit_behavior != "end":
            return {"messages": messages}
        others = [call for call in _pending(state) if call not in blocked]
        messages += [_refusal(call, _STOPPED) for call in others]
        return {"jump_to": "end", "messages": [*messages, last_word(self.name, text)]}

    def _result(self, refused: CallRefused, request: ToolCallRequest) -> ToolMessage:
        """Answer a call that there was room for when the model asked for it, but no more."""
        of_run, of_thread, *of_windows = refused.reached
        full = [
            window.shown(one.value + 1)
            for window, one in zip(self.windows, of_windows, strict=True)
            if one.full and not window.park
        ]
        text = self._exceeded(of_thread.value + 1, of_run.value + 1, full)
        message = _refusal(request.tool_call, self._instruction)
        ns = request.runtime.config.get("configurable", {}).get("checkpoint_ns", "")
        if refused.is_of(ns, request.tool_call["id"]):
            message.additional_kwargs["placet_outcome"] = "not_run"
        if self.exit_behavior == "end":
            message.additional_kwargs[_ENDED_BY] = [self.name, text]
        return message

    def _exceeded(self, thread_count: int, run_count: int, full: list[str]) -> str:
        """What the user is told.

        Raises:
            ToolCallLimitExceededError: when `exit_behavior` is `error`.
        """
        limits = (self.thread_limit, self.run_limit, self.tool_name)
        error = ToolCallLimitExceededError(thread_count, run_count, *limits, full)
        if self.exit_behavior == "error":
            raise error from None
        return str(error)

    @property
    def _instruction(self) -> str:
        what = (
            f"Do not call '{self.tool_name}' again."
            if self.tool_name
            else "Do not make additional tool calls."
        )
        return f"Tool call limit exceeded. {what}"

    def _ended(self, state: Any) -> str | None:
        """What the agent ends with, if this limiter has ended it."""
        for message in reversed(state.get("messages", [])):
            if not isinstance(message, ToolMessage):
                break
            name, text = message.additional_kwargs.get(_ENDED_BY, (None, None))
            if name == self.name:
                return str(text)
        return None


_STOPPED = (
    "Execution stopped before this tool call could run because another tool call in the same batch exceeded"
    " the limit."
)


def _refusal(call: ToolCall, text: str) -> ToolMessage:
    return ToolMessage(text, tool_call_id=call["id"], name=call["name"], status="error")


def _pending(state: Any) -> list[ToolCall]:
    """The calls of the model's last message that have no answer."""
    answered = set()
    for message in reversed(state.get("messages", [])):
        if isinstance(message, AIMessage):
            return [call for call in message.tool_calls if call["id"] not in answered]
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
    return []
