"""Around a tool: it gets its raw arguments, and what it returns or raises is masked before it is kept."""

from __future__ import annotations

import json
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from ..calling import message_of
from ..ledger.replays import earlier_error
from .masked_messages import masked_content, masked_result
from .sealed_calls import restored, sealed_values
from .walk import walk

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from langgraph.prebuilt.tool_node import ToolCallRequest

    from .redaction import Rule

T = TypeVar("T")

_rules: ContextVar[tuple[Rule, ...]] = ContextVar("placet_result_rules", default=())
"""Of the agent whose tool is called, for its results; the outermost first."""


@contextmanager
def results_masked(rule: Rule | None) -> Iterator[None]:
    """Have the tool that is called within mask what it returns by this rule too."""
    token = _rules.set(_rules.get() if rule is None else (*_rules.get(), rule))
    try:
        yield
    finally:
        _rules.reset(token)


class MaskedCall:
    """One execution of a tool."""

    def __init__(self, request: ToolCallRequest, messages_key: str = "messages") -> None:
        message = message_of(request.tool_call["id"], request.state, messages_key)
        self.request = restored(request, messages_key)
        self._rules = _rules.get()
        self._names: dict[str, str] = {}
        for values in sealed_values(message):
            for name, value in values.items():
                self._names |= dict.fromkeys(_forms(str(value)), name)

    @contextmanager
    def executed(self) -> Iterator[None]:
        """Mask what is raised within; an agent inside the tool has rules of its own.

        Raises:
            Exception: what the tool raises, of the same class where that can be made without its text.
        """
        token = _rules.set(())
        try:
            yield
        except GraphBubbleUp:
            raise
        except Exception as error:
            if (clean := self._clean(error)) is error:
                raise
            raise clean from None
        finally:
            _rules.reset(token)

    def masked(self, result: T) -> T:
        """What the tool returned: what is sealed stays so, then each rule."""
        made: Any = self._resealed(result) if self._names else result
        for rule in reversed(self._rules):
            made = masked_result(made, rule)
        found: T = made
        return found

    def _hidden(self, text: str) -> str:
        for raw in sorted(self._names, key=len, reverse=True):
            text = text.replace(raw, self._names[raw])
        return text

    def _resealed(self, result: Any) -> Any:
        def leaf(value: Any) -> Any:
            if isinstance(value, ToolMessage):
                update = {
                    "content": masked_content(value.content, self._hidden),
                    "artifact": walk(value.artifact, leaf),
                }
                return value.model_copy(update=update)
            if isinstance(value, Command):
                update = walk(value.update, leaf)
                return Command(graph=value.graph, update=update, resume=value.resume, goto=value.goto)
            return self._hidden(value) if isinstance(value, str) else value

        return walk(result, leaf)

    def _clean(self, error: Exception) -> Exception:
        def hide(text: str) -> str:
            text = self._hidden(text)
            for rule in self._rules:
                text = rule.hide(text)
            return text

        if hide(text := str(error)) == text and hide(repr(error)) == repr(error):
            return error
        error.args = tuple(hide(arg) if isinstance(arg, str) else arg for arg in error.args)
        error.__cause__ = error.__context__ = None
        if hide(str(error)) == str(error) and hide(repr(error)) == repr(error):
            return error
        return earlier_error(type(error).__name__, hide(text))


def _forms(raw: str) -> set[str]:
    """How a value may stand in a text: as it is, and as Python and JSON write it."""
    return {raw, repr(raw)[1:-1], json.dumps(raw)[1:-1], json.dumps(raw, ensure_ascii=False)[1:-1]}


async def aexecute(
    request: ToolCallRequest,
    execute: Callable[[ToolCallRequest], Awaitable[T]],
    *,
    messages_key: str = "messages",
) -> T:
    """Execute a tool with its raw arguments, and mask what comes of it.

    Raises:
        ChangedArguments, InvalidSettings, Unsealable: when it must not start.
    """
    call = MaskedCall(request, messages_key)
    with call.executed():
        result = await execute(call.request)
    return call.masked(result)


def execute(
    request: ToolCallRequest, execute: Callable[[ToolCallRequest], T], *, messages_key: str = "messages"
) -> T:
    """As `aexecute`."""
    call = MaskedCall(request, messages_key)
    with call.executed():
        result = execute(call.request)
    return call.masked(result)
