"""The ledger of side effects: a tool call that was executed once is not executed again unasked."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from langchain.agents.middleware import AgentMiddleware

from placet.errors import InvalidInput, NoRun

from ..gate.approved import check_permitted
from ..named_tools import NamedTool
from ..shared import current_run
from ..waiting import wait
from .attempt import Attempt
from .declared import UNDECLARED, Declaration, declaration_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain_core.messages import ToolMessage
    from langchain_core.tools import BaseTool
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command

    from ..shared import RunContext
    from .declared import OnUnknown, UnknownCall

T = TypeVar("T")


class ToolLedgerMiddleware(AgentMiddleware[Any, Any, Any]):
    """Executes each tool call once, over retries, resumes and processes that die.

    Placet's workers do so for every tool without it; there it only says what holds for tools that declare
    nothing. In another LangGraph app put it last, so that it is next to the tools, and drive the agent within
    `run_context`.

    Args:
        on_unknown: for tools that declare nothing, or by the tool's name, where it counts for declared ones
            too: what happens to a call that was started and has no result. `rerun`, `fail` or `ask`.
        verify: by the tool's name, the function that finds out what became of a call; see `side_effect`.

    Raises:
        InvalidInput: when an argument is none of these.
    """

    def __init__(
        self,
        *,
        on_unknown: OnUnknown | Mapping[str, OnUnknown] = "ask",
        verify: Mapping[str, Callable[[UnknownCall], Any]] | None = None,
    ) -> None:
        super().__init__()
        for_all = on_unknown if isinstance(on_unknown, str) else None
        self._undeclared = UNDECLARED if for_all is None else Declaration(on_unknown=for_all)
        self._on_unknown = _by_tool("on_unknown", {} if for_all is not None else on_unknown)
        self._verify = _by_tool("verify", {} if verify is None else verify)

    @property
    def named_tools(self) -> list[NamedTool]:
        """The tools of which it says something by name."""
        given = (("on_unknown", self._on_unknown), ("verify", self._verify))
        return [NamedTool(f"{field}[{name!r}]", name) for field, names in given for name in names]

    def declaration(self, tool: BaseTool) -> Declaration:
        """What holds for a tool."""
        found = declaration_of(tool) or self._undeclared
        if (on_unknown := self._on_unknown.get(tool.name)) is not None:
            found = replace(found, on_unknown=on_unknown)
        if (verify := self._verify.get(tool.name)) is not None:
            found = replace(found, verify=verify)
        return found

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """Put the call through the ledger.

        Raises:
            NoRun: outside of `run_context`.
        """
        run = self._run()
        if run.guarded:
            token = _options.set(self)
            try:
                return await handler(request)
            finally:
                _options.reset(token)
        return await acall(run, request, handler, options=self)

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """As `awrap_tool_call`."""
        run = self._run()
        if run.guarded:
            token = _options.set(self)
            try:
                return handler(request)
            finally:
                _options.reset(token)
        return call(run, request, handler, options=self)

    def _run(self) -> RunContext:
        run = current_run()
        if run is None:
            raise NoRun("ToolLedgerMiddleware: drive the agent within placet.middleware.run_context(…)")
        return run


def _by_tool(field: str, given: object) -> dict[str, Any]:
    """Read what is given for tools by their names.

    Raises:
        InvalidInput: naming the tool.
    """
    if not isinstance(given, Mapping):
        raise InvalidInput(field, f"must be a dict by tools' names, not a {type(given).__name__}")
    for name, value in given.items():
        try:
            Declaration(**{field: value})
        except InvalidInput as error:
            raise InvalidInput(f"{field}[{name!r}]", str(error).removeprefix(f"{field}: ")) from None
    return dict(given)


_options: ContextVar[ToolLedgerMiddleware | None] = ContextVar("placet_ledger_options", default=None)
_NONE = ToolLedgerMiddleware()


async def acall(
    run: RunContext,
    request: ToolCallRequest,
    execute: Callable[[ToolCallRequest], Awaitable[T]],
    *,
    options: ToolLedgerMiddleware | None = None,
    messages_key: str = "messages",
) -> T:
    """Execute a call, unless the ledger has its result; a call of no known tool executes nothing anyway.

    Raises:
        CallChanged: when it is not the call that a gate let through.
        GraphInterrupt: when a person is asked whether it ran, or the tool pauses.
        LeaseLost, StoreUnavailable: when it must not start.
        OutcomeUnknown: when it may have run, and is to fail then.
        Exception: what the tool raises, or raised.
    """
    if request.tool is None:
        return await execute(request)
    check_permitted(request)
    declaration = (options or _options.get() or _NONE).declaration(request.tool)
    attempt = Attempt(run, request, declaration, messages_key=messages_key)
    with run.running():
        if (result := await attempt.begin()) is not None:
            found: T = result
            return found
        token = _options.set(None)  # an agent inside the tool has options of its own
        try:
            with attempt.executed():
                made = await execute(request)
        except BaseException as error:
            await attempt.ended_by(error)
            raise
        finally:
            _options.reset(token)
        await attempt.succeeded(made)
    return made


def call(
    run: RunContext,
    request: ToolCallRequest,
    execute: Callable[[ToolCallRequest], T],
    *,
    options: ToolLedgerMiddleware | None = None,
    messages_key: str = "messages",
) -> T:
    """As `acall`, in a thread."""
    if request.tool is None:
        return execute(request)
    check_permitted(request)
    declaration = (options or _options.get() or _NONE).declaration(request.tool)
    attempt = Attempt(run, request, declaration, messages_key=messages_key)
    loop = run.shared.loop
    if (result := wait(attempt.begin(), loop)) is not None:
        found: T = result
        return found
    token = _options.set(None)
    try:
        with attempt.executed():
            made = execute(request)
    except BaseException as error:
        wait(attempt.ended_by(error), loop)
        raise
    finally:
        _options.reset(token)
    wait(attempt.succeeded(made), loop)
    return made
