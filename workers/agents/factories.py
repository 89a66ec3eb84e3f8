"""Calling what an agent's variable holds, a graph or a factory of one, as LangGraph's own server does.

A factory takes nothing, a config, a `ServerRuntime` or both, and returns a graph, an awaitable or a
context manager; see https://docs.langchain.com/langsmith/graph-rebuild.
"""

from __future__ import annotations

import inspect
import re
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from langchain_core.runnables.config import ensure_config
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from langgraph.runtime import Runtime
from langgraph_sdk.runtime import _ExecutionRuntime, _ReadRuntime  # the server constructs them; so do we

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from langchain_core.runnables import RunnableConfig
    from langgraph.store.base import BaseStore

Graph = Pregel[Any, Any, Any, Any]
Takes = Literal["config", "server_runtime", "runtime"]

_ANNOTATIONS: tuple[tuple[Takes, re.Pattern[str]], ...] = (
    ("server_runtime", re.compile(r"\b(ServerRuntime|_ExecutionRuntime|_ReadRuntime)\b")),
    ("runtime", re.compile(r"\bRuntime\b")),
    ("config", re.compile(r"\bRunnableConfig\b")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Factory:
    """A function that makes the graph, and what each of its parameters takes."""

    function: Callable[..., Any]
    parameters: Mapping[str, Takes]

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Factory:
        """Read the signature.

        Raises:
            TypeError: when a parameter is neither a config nor a runtime.
        """
        try:
            signature = inspect.signature(function, eval_str=True)
        except (NameError, AttributeError, TypeError):  # names imported for type checkers only
            signature = inspect.signature(function)
        required = [
            p
            for p in signature.parameters.values()
            if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ]
        parameters: dict[str, Takes] = {}
        for parameter in signature.parameters.values():
            takes = _takes(parameter)
            if takes is None and required == [parameter]:
                takes = "config"  # a lone parameter is the config, whatever its name and annotation
            if takes is not None:
                parameters[parameter.name] = takes
            elif parameter in required:
                raise TypeError(
                    f"parameter {parameter.name!r} of the factory: "
                    "annotate it as RunnableConfig or ServerRuntime, or give it a default"
                )
        return cls(function=function, parameters=parameters)

    @asynccontextmanager
    async def open(
        self,
        config: RunnableConfig,
        *,
        store: BaseStore | None,
        context: Any = None,
        executes: bool,
    ) -> AsyncIterator[Graph]:
        """Make the graph; whatever it was made with is released at the end.

        Args:
            config: The run's config.
            store: What the factory finds as `runtime.store`.
            context: The run's context.
            executes: False when the graph is only looked at: `runtime.execution_runtime` is None then.

        Raises:
            TypeError: when what was made is no graph; the factory's own errors come as they are.
        """
        given: dict[Takes, Callable[[], object]] = {
            "config": lambda: ensure_config(config),
            "runtime": lambda: Runtime(context=context, store=store),
            "server_runtime": lambda: _server_runtime(store, context=context, executes=executes),
        }
        made = self.function(**{name: given[takes]() for name, takes in self.parameters.items()})
        if inspect.isawaitable(made):
            made = await made
        if isinstance(made, AbstractAsyncContextManager):
            async with made as graph:
                yield as_graph(graph)
        elif isinstance(made, AbstractContextManager):
            with made as graph:
                yield as_graph(graph)
        else:
            yield as_graph(made)


def as_graph(value: object) -> Graph:
    """Compile a StateGraph, take a compiled graph as it is.

    Raises:
        TypeError: when it is neither.
    """
    if isinstance(value, StateGraph):
        return cast("Graph", value.compile())
    if isinstance(value, Pregel):
        return value
    raise TypeError(f"expected a graph, got {type(value).__name__}")


def _takes(parameter: inspect.Parameter) -> Takes | None:
    annotation = parameter.annotation
    text = annotation if isinstance(annotation, str) else repr(annotation)
    for takes, pattern in _ANNOTATIONS:
        if annotation is not parameter.empty and pattern.search(text):
            return takes
    return "config" if parameter.name == "config" else None


def _server_runtime(store: BaseStore | None, *, context: Any, executes: bool) -> object:
    some_store = cast("BaseStore", store)  # None where Placet runs without one
    if executes:
        return _ExecutionRuntime(access_context="threads.create_run", store=some_store, context=context)
    return _ReadRuntime(access_context="assistants.read", store=some_store)
