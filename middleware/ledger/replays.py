"""Standing in for an execution that is not repeated: its error, and its part of LangGraph's counters."""

from __future__ import annotations

import builtins
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from placet.errors import EarlierToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langchain_core.runnables import RunnableConfig

_SCRATCHPAD = "__pregel_scratchpad"
_SEND, _RESUME = "__pregel_send", "__resume__"
_COUNTERS = ("interrupt_counter", "subgraph_counter")


@contextmanager
def counted(config: RunnableConfig) -> Iterator[list[int]]:
    """Count the interrupts and subgraphs of what is executed with `config`.

    LangGraph tells a node's interrupts, and the subgraphs that it invokes, by their position. Several calls
    may share a node, so one that is not executed again has to take as many as it did.
    """
    taken = [0] * len(_COUNTERS)
    configurable = config.get("configurable", {})
    scratchpad = configurable.get(_SCRATCHPAD)
    if scratchpad is None:
        yield taken
        return

    def counting(index: int, counter: Callable[[], int]) -> Callable[[], int]:
        def count() -> int:
            taken[index] += 1
            return counter()

        return count

    counters = {name: counting(i, getattr(scratchpad, name)) for i, name in enumerate(_COUNTERS)}
    configurable[_SCRATCHPAD] = replace(scratchpad, **counters)
    try:
        yield taken
    finally:
        configurable[_SCRATCHPAD] = scratchpad


def skip(config: RunnableConfig, taken: list[int]) -> None:
    """Take from the counters what an execution took that is not repeated."""
    configurable = config.get("configurable", {})
    if (scratchpad := configurable.get(_SCRATCHPAD)) is None:
        return
    interrupts, subgraphs = taken
    for _ in range(subgraphs):
        scratchpad.subgraph_counter()
    last = [scratchpad.interrupt_counter() for _ in range(interrupts)][-1:]
    if last and scratchpad.resume and (send := configurable.get(_SEND)) is not None:
        # as `interrupt` does when it returns them: else the next one to be asked would lose them
        send([(_RESUME, scratchpad.resume[: last[0] + 1])])


def earlier_error(type_name: str, message: str) -> EarlierToolError:
    """Make the error that is raised in an earlier one's place."""
    error: EarlierToolError = _class_of(type_name)(type_name, message)
    return error


@cache
def _class_of(type_name: str) -> type[EarlierToolError]:
    """Find the class: of Python's own exceptions alone, so that what is stored names no code to run."""
    found = getattr(builtins, type_name, None)
    if isinstance(found, type) and issubclass(found, Exception) and found is not Exception:
        try:
            made = type(type_name, (EarlierToolError, found), {})
            made("", "")
        except TypeError:  # it takes other arguments, as UnicodeDecodeError does
            return EarlierToolError
        return made
    return EarlierToolError
