"""The gate: a person decides about tool calls before they run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypeVar, cast
from uuid import uuid4

from langchain.agents.middleware import AgentState
from langchain.agents.middleware import human_in_the_loop as stock
from langchain.agents.middleware.human_in_the_loop import Action
from langchain.agents.middleware.types import (
    ContextT,
    ExtendedModelResponse,
    ModelResponse,
    PrivateStateAttr,
    ResponseT,
    StateT,
)
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.runtime import get_runtime
from langgraph.types import Command

from ..calling import with_distinct_ids
from ..named_tools import NamedTool
from ..pii.sealed_calls import raw_args
from ..shared import current_run
from .approved import CallChanged, permitted
from .interrupt_on import check_interrupt_on
from .questions import Asked, ask_batched, ask_one, first_decision
from .reviews import Review, Reviews, merged, open_calls, reviews_in, seal
from .tool_arguments import arguments_of, fitted, names_alone
from .verdicts import described, wants_review

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
    from contextlib import AbstractContextManager

    from langchain.agents.middleware.human_in_the_loop import Decision, InterruptMode
    from langchain.agents.middleware.types import ModelRequest
    from langchain_core.messages import ToolCall
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.runtime import Runtime

    from .interrupt_on import InterruptOnConfig
    from .tool_arguments import ToolArguments

T = TypeVar("T")


class _GateState(AgentState[ResponseT]):
    """What a gate keeps in the graph's state."""

    hitl_edited_tool_calls: NotRequired[Annotated[dict[str, Action], PrivateStateAttr]]
    """LangChain's own: a run that paused under its gate has it, and goes on under ours."""
    hitl_reviews: NotRequired[Annotated[Reviews, PrivateStateAttr, merged]]


class HumanInTheLoopMiddleware(stock.HumanInTheLoopMiddleware[StateT, ContextT, ResponseT]):
    """Asks a person about tool calls before they run; LangChain's, made to hold over processes.

    What is asked, `when`, descriptions and all, is decided once, when the model has answered, and kept beside
    its message; a call without such a record is asked about. An answer that does not fit is refused before it
    is saved, in both modes. A call runs as it was approved, or not at all (`CallChanged`). In Placet's
    workers `per_call` asks before any middleware is entered.

    Args:
        interrupt_on: For each tool's name True, False or an `InterruptOnConfig`.
        description_prefix: Begins the description of calls that have none of their own.
        edit_notice: Put before the result of an edited call; None adds nothing.
        interrupt_mode: `batched`, one pause for all calls of a message, or `per_call`, one for each.

    Raises:
        InvalidInput: when `interrupt_on` has a key or a decision that is none, naming tool and key.
    """

    state_schema = _GateState

    def __init__(
        self,
        interrupt_on: Mapping[str, bool | InterruptOnConfig | stock.InterruptOnConfig],
        *,
        description_prefix: str = "Tool execution requires approval",
        edit_notice: str | None = stock._EDIT_NOTICE,  # noqa: SLF001 - LangChain's default, whatever it says
        interrupt_mode: InterruptMode = "batched",
    ) -> None:
        check_interrupt_on(interrupt_on)
        super().__init__(
            dict(interrupt_on),  # type: ignore[arg-type]
            description_prefix=description_prefix,
            edit_notice=edit_notice,
            interrupt_mode=interrupt_mode,
        )

    @property
    def named_tools(self) -> list[NamedTool]:
        """The tools that it asks about, but for those that are to come."""
        return [
            NamedTool(f"interrupt_on[{name!r}]", name)
            for name, config in self.interrupt_on.items()
            if not config.get("dynamic")
        ]

    def wrap_model_call(
        self,
        request: ModelRequest[ContextT],
        handler: Callable[[ModelRequest[ContextT]], ModelResponse[ResponseT]],
    ) -> Any:
        """Decide about the calls of the model's answer."""
        return _at_once(self._judged(handler(request), request))

    async def awrap_model_call(
        self,
        request: ModelRequest[ContextT],
        handler: Callable[[ModelRequest[ContextT]], Awaitable[ModelResponse[ResponseT]]],
    ) -> Any:
        """As `wrap_model_call`."""
        return await self._judged(await handler(request), request)

    def after_model(self, state: AgentState[Any], runtime: Runtime[ContextT]) -> dict[str, Any] | None:
        """Ask in one pause about all calls that are to be asked about in a batch."""
        if not _in_graph():
            return super().after_model(state, runtime)
        return _at_once(self._decided(state, runtime))

    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[ContextT]) -> dict[str, Any] | None:
        """As `after_model`."""
        if not _in_graph():
            return await super().aafter_model(state, runtime)
        return await self._decided(state, runtime)

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """Run the call as it was approved; ask about it if nobody has been asked and somebody should be.

        Raises:
            CallChanged: when it is not the one that was approved.
        """
        if not _in_graph():
            return super().wrap_tool_call(request, handler)
        resolved = _at_once(self._resolved(request))
        if isinstance(resolved, ToolMessage):
            return resolved
        to_run, executed, permit = resolved
        with permit:
            result = handler(to_run)
        return self._annotate_edited_result(result, to_run, executed)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """As `wrap_tool_call`."""
        if not _in_graph():
            return await super().awrap_tool_call(request, handler)
        resolved = await self._resolved(request)
        if isinstance(resolved, ToolMessage):
            return resolved
        to_run, executed, permit = resolved
        with permit:
            result = await handler(to_run)
        return self._annotate_edited_result(result, to_run, executed)

    async def _judged(self, response: Any, request: ModelRequest[ContextT]) -> Any:
        """Add the reviews of the calls to what the model node writes."""
        given = _answer(response)
        if given is None:
            return response
        message = with_distinct_ids(given)
        if message is not given:
            result = [message if one is given else one for one in response.result]
            response = replace(response, result=result)
        if not any(call["name"] in self.interrupt_on for call in message.tool_calls):
            return response
        if message.id is None:
            message.id = f"placet-{uuid4()}"
        tools = {tool.name: tool for tool in request.tools if isinstance(tool, BaseTool)}
        state: Any = {**request.state, "messages": [*request.state["messages"], *response.result]}
        calls: dict[str, Review] = {}
        for call in message.tool_calls:
            if (config := self.interrupt_on.get(call["name"])) is not None:
                raw = cast("ToolCall", {**call, "args": raw_args(message, call["args"])})
                ask = await wants_review(config, raw, tools, state, request.runtime)
                name = seal(self.name, call)
                calls[name] = await self._review(call, tools, state, request.runtime, ask=ask)
        # a batch is asked about where no tool is at hand
        batch = [one for one in calls.values() if one["mode"] == "batched" and "edit" in one["allowed"]]
        named = {name for review in batch for name in review["tools"]}
        arguments = {name: arguments_of(tools[name]) for name in sorted(named & tools.keys())}
        if (run := current_run()) is not None and run.guarded:
            # `decide` has checked an edit by then, and a run that waits is to be small
            arguments = {name: names_alone(one) for name, one in arguments.items()}
        reviews = Reviews(message_id=message.id, calls=calls, tools=arguments)
        return ExtendedModelResponse(
            model_response=response, command=Command(update={"hitl_reviews": reviews})
        )

    async def _review(
        self,
        call: ToolCall,
        tools: Iterable[str],
        state: AgentState[Any],
        runtime: Runtime[ContextT],
        *,
        ask: bool = True,
    ) -> Review:
        """Say how a call of a gated tool is to be reviewed."""
        config: Any = self.interrupt_on[call["name"]]
        others = tools if config.get("allow_tool_change") else ()
        prefix = self.description_prefix
        text = await described(config, call, state, runtime, prefix=prefix) if ask else ""
        review = Review(
            gate=self.name,
            tool_call_id=call["id"],
            mode=self.interrupt_mode,
            ask=ask,
            description=text,
            allowed=list(config["allowed_decisions"]),
            tools=[call["name"], *(name for name in others if name != call["name"])],
        )
        if "policy" in config:
            review["policy"] = config["policy"]
        return review

    async def _decided(self, state: AgentState[Any], runtime: Runtime[ContextT]) -> dict[str, Any] | None:
        """Ask about a batch, and write what was decided."""
        kept = reviews_in(state)
        asked = [
            Asked(call, call, review)
            for call in open_calls(state)
            if (review := await self._review_of(call, kept, (), state, runtime)) is not None
            and (review["mode"], review["ask"], "runs" in review) == ("batched", True, False)
        ]
        if not asked:
            return None
        messages: list[ToolMessage] = []
        decided: dict[str, Review] = {}
        while asked:
            decisions = ask_batched(asked, kept["tools"])
            further: list[Asked] = []
            for one, decision in zip(asked, decisions, strict=True):
                call = self._after(one.call, decision, kept["tools"])
                if call is None:
                    messages.append(self._refusal(one.original, one.review, decision))
                elif self._is_asked_again(one.call, call):
                    review = await self._review(call, kept["tools"], state, runtime)
                    further.append(Asked(one.original, call, review))
                else:
                    runs = Action(name=call["name"], args=call["args"])
                    edited = call is not one.original
                    decided[seal(self.name, one.original)] = one.review | {"runs": runs, "edited": edited}
            asked = further
        reviews = Reviews(message_id=kept["message_id"], calls=decided, tools={})
        return {"messages": messages, "hitl_reviews": reviews}

    async def _resolved(
        self, request: ToolCallRequest
    ) -> ToolMessage | tuple[ToolCallRequest, Action | None, AbstractContextManager[None]]:
        """Find out what runs of a call: the request, what replaced the call, what may be executed."""
        call, kept = request.tool_call, reviews_in(request.state)
        tools = {tool.name: tool for tool in request.runtime.tools}
        decision, changed = first_decision(self.name, call, request.runtime)
        if changed or self._was_changed(call, kept):
            raise CallChanged(call["name"], call["id"] or "")
        review = await self._review_of(call, kept, tools, request.state, get_runtime())
        executed: Action | None = None
        if review is not None and "runs" in review:
            executed = review["runs"] if review["edited"] else None
        elif review is not None and review["ask"]:
            arguments = {name: arguments_of(tool) for name, tool in tools.items()}
            asked: ToolCall | None = call
            while asked is not None:
                decision = decision or ask_one(asked, review, tools)
                after = self._after(asked, decision, arguments)
                if after is None:
                    return self._refusal(call, review, decision)
                if after is not call:
                    executed = Action(name=after["name"], args=after["args"])
                decision, again = None, self._is_asked_again(asked, after)
                if again:
                    review = await self._review(after, tools, request.state, get_runtime())
                asked = after if again else None
        to_run = request if executed is None else self._apply_edit(request, executed)
        permit = permitted(to_run, gated=frozenset(self.interrupt_on), asked=review is not None)
        return to_run, executed, permit

    async def _review_of(
        self,
        call: ToolCall,
        kept: Reviews,
        tools: Iterable[str],
        state: AgentState[Any],
        runtime: Runtime[ContextT],
    ) -> Review | None:
        """The review that was kept; where none was, a gated tool's call is asked about."""
        review = kept["calls"].get(seal(self.name, call))
        if review is None and call["name"] in self.interrupt_on:
            return await self._review(call, tools, state, runtime)
        return review

    def _was_changed(self, call: ToolCall, kept: Reviews) -> bool:
        """Whether a person has let this call run, and it was another one then."""
        if seal(self.name, call) in kept["calls"]:
            return False
        decided = (one for one in kept["calls"].values() if one["gate"] == self.name and "runs" in one)
        return any(one["tool_call_id"] == call["id"] for one in decided)

    def _after(
        self, call: ToolCall, decision: Decision, tools: Mapping[str, ToolArguments]
    ) -> ToolCall | None:
        """What runs after a decision: the call, an edited one, or nothing."""
        if decision["type"] == "approve":
            return call
        if decision["type"] != "edit":
            return None
        action = decision["edited_action"]
        args = fitted(action["args"], tools.get(action["name"]))
        return {**call, "name": action["name"], "args": args}

    def _is_asked_again(self, before: ToolCall, after: ToolCall) -> bool:
        """Whether an edit has made it the call of another tool that has a gate of its own."""
        return after["name"] != before["name"] and after["name"] in self.interrupt_on

    def _refusal(self, call: ToolCall, review: Review, decision: Decision) -> ToolMessage:
        """What the model reads in place of the tool's result."""
        _, message = self._process_decision(decision, call, {"allowed_decisions": review["allowed"]})
        assert message is not None  # noqa: S101 - a reject or a respond has one
        return message


def _answer(response: Any) -> AIMessage | None:
    """The message of a model's answer, inside a graph."""
    if not isinstance(response, ModelResponse) or not _in_graph():
        return None
    return next((one for one in reversed(response.result) if isinstance(one, AIMessage)), None)


def _in_graph() -> bool:
    """Whether a graph is under way: called by hand, a gate does as LangChain's."""
    try:
        get_config()
    except RuntimeError:
        return False
    return True


def _at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run what waits for nothing, in a synchronous run."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise RuntimeError("an async `when` or `description` serves async runs only: use ainvoke or astream")
