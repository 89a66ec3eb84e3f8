"""The tools that middleware is for, as an author names them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from langchain_core.tools import BaseTool

from placet.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable


class DynamicTool(str):
    """The name of a tool that is registered while the agent runs: no worker looks for it when it starts.

    ToolRetryMiddleware(tools=["search", DynamicTool("from_the_registry")])
    """

    __slots__ = ()


class NamedTool(NamedTuple):
    """A tool that a middleware names."""

    where: str
    """As its author wrote it: `tools`, `on_unknown['pay']`."""
    name: str
    inside: bool = False
    """Whether it may be one of an agent inside the agent's tools."""


@runtime_checkable
class NamesTools(Protocol):
    """Middleware that names tools; each has to be there when a worker starts."""

    @property
    def named_tools(self) -> Iterable[NamedTool]:
        """All that it names, but for those that are to come."""


def tool_names(tools: object, *, field: str = "tools") -> list[str] | None:
    """Read a list of tools or their names; None is for all.

    Raises:
        InvalidInput: when it is none; a text would be taken for a list of letters.
    """
    if tools is None:
        return None
    if isinstance(tools, str):
        raise InvalidInput(field, f"must be a list of tools or their names, [{tools!r}]")
    if not isinstance(tools, list | tuple | set | frozenset):
        raise InvalidInput(field, f"must be a list of tools or their names, not a {type(tools).__name__}")
    for one in tools:
        if not isinstance(one, str | BaseTool):
            raise InvalidInput(field, f"{one!r} is neither a tool nor the name of one")
    return [one.name if isinstance(one, BaseTool) else one for one in tools]


def named(field: str, names: Iterable[str] | None) -> list[NamedTool]:
    """List what a field names."""
    return [NamedTool(field, name) for name in names or ()]
