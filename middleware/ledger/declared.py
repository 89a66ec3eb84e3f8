"""What a tool's author says of it: whether it may run twice, and how to find out whether it ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from placet.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")

OnUnknown = Literal["rerun", "fail", "ask"]
"""What happens to a call that was started and has no result: run again, end the run, or ask a person."""


class NotDone:
    """The type of `NOT_DONE`."""

    def __repr__(self) -> str:
        return "NOT_DONE"


NOT_DONE = NotDone()
"""What a `verify` function returns when the call did not take effect: it is run again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownCall:
    """A tool call that was started, and whose result was lost with its worker."""

    tool: str
    args: Mapping[str, Any]
    """As the model, or who edited it, gave them."""
    tool_call_id: str
    idempotency_key: str
    """What `current_idempotency_key()` was while it ran."""


Verify = "Callable[[UnknownCall], Any]"
"""Finds out what became of a call, sync or async: its result, `NOT_DONE`, or None if it cannot tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What holds for a tool whose outcome is unknown; `verify` comes first."""

    on_unknown: OnUnknown = "ask"
    verify: Callable[[UnknownCall], Any] | None = None

    def __post_init__(self) -> None:
        if self.on_unknown not in get_args(OnUnknown):
            raise InvalidInput("on_unknown", f"{self.on_unknown!r} is neither rerun, fail nor ask")
        if self.verify is not None and not callable(self.verify):
            raise InvalidInput("verify", f"a function is wanted, not a {type(self.verify).__name__}")


UNDECLARED = Declaration()
_HARMLESS = {
    # a subagent's own calls are in the ledger, and it goes on from its checkpoint
    "deepagents.middleware.subagents": {"task"},
    # not edit_file, whose replacement may be done twice, and not execute
    "deepagents.middleware.filesystem": {"ls", "read_file", "write_file", "delete", "glob", "grep"},
    "langchain.agents.middleware.file_search": {"glob_search", "grep_search"},
    "langchain.agents.middleware.todo": {"write_todos"},
}
"""Tools of others that may run a second time, by the module of their function."""
_ATTRIBUTE = "__placet_declaration__"


def idempotent(tool: T) -> T:
    """Declare that a tool may run again with the same arguments: it reads, or a second time changes nothing.

    A decorator for the function or the tool, above or below `@tool`, and for classes of tools.
    """
    setattr(tool, _ATTRIBUTE, Declaration(on_unknown="rerun"))
    return tool


def side_effect(
    *, on_unknown: OnUnknown = "ask", verify: Callable[[UnknownCall], Any] | None = None
) -> Callable[[T], T]:
    """Declare what happens when a worker died while the tool ran, and nobody knows how far it came.

    A decorator like `idempotent`.

    Args:
        on_unknown: `ask` a person, `fail` the run, or `rerun` the tool.
        verify: Finds out what became of the call, sync or async; takes an `UnknownCall` and returns the
            call's result (as the tool would, a ToolMessage or a Command), `NOT_DONE` to run it again, or None
            if it cannot tell: then, and if it raises, `on_unknown` counts.

    Raises:
        InvalidInput: when an argument is neither.
    """
    declaration = Declaration(on_unknown=on_unknown, verify=verify)

    def declare(tool: T) -> T:
        setattr(tool, _ATTRIBUTE, declaration)
        return tool

    return declare


def declaration_of(tool: Any) -> Declaration | None:
    """What was declared of a tool: on itself, its class, or the function that it was made of."""
    functions = [getattr(tool, "coroutine", None), getattr(tool, "func", None)]
    for holder in (tool, *functions):
        found = getattr(holder, _ATTRIBUTE, None)
        if isinstance(found, Declaration):
            return found
    if any(tool.name in _HARMLESS.get(getattr(f, "__module__", ""), ()) for f in functions):
        return Declaration(on_unknown="rerun")
    return None
