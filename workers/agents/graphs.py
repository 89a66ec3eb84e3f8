"""The agents of a `langgraph.json`, as graphs on Placet's checkpointer and store."""

from __future__ import annotations

import asyncio
import copy
import importlib
import importlib.util
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

# read by langgraph.checkpoint when it is first imported: a checkpoint then constructs known types only
os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.pregel import Pregel

from placet.middleware.gate.tool_arguments import arguments_of

from ..digest import digest_of
from ..errors import InvalidAgent, UnknownAgent
from .allowed_types import allowed_types
from .factories import Factory, Graph, as_graph
from .fingerprint import fingerprint, levels
from .langgraph_json import AgentSource, read_project
from .masks import check_masks
from .named_tools import check_named_tools

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import ModuleType
    from typing import Self

    from langchain_core.runnables import RunnableConfig
    from langgraph.store.base import BaseStore

    from ..settings import Settings

log = structlog.get_logger()


class Agents:
    """All agents a worker can run, by name; every one has been made once when this exists."""

    def __init__(
        self,
        *,
        agents: dict[str, Graph | Factory],
        checkpointer: BaseCheckpointSaver[Any],
        store: BaseStore | None = None,
    ) -> None:
        self._agents = agents
        self._checkpointer = checkpointer
        self._store = store
        self._fingerprints: dict[str, str] = {}

    @classmethod
    async def load(
        cls,
        settings: Settings,
        *,
        checkpointer: BaseCheckpointSaver[Any],
        store: BaseStore | None = None,
    ) -> Self:
        """Import every agent that `settings.config` lists and call each factory once, to see that it can.

        Also adds the file's directories to `sys.path` and its variables to the environment.

        Raises:
            InvalidAgent: one line that names the file and the key.
        """
        project = read_project(Path(settings.config))
        project.enter()
        found: dict[str, Graph | Factory] = {}
        modules: dict[str, ModuleType] = {}
        agents = cls(agents=found, checkpointer=checkpointer, store=store)
        for source in project.agents:
            try:
                # in a thread: a module may well run an event loop of its own while it is imported
                value = await asyncio.to_thread(_variable, source, modules)
                found[source.name] = await agents._check(source.name, value)
            except (Exception, SystemExit) as error:
                where = f"{project.file}: graphs.{source.name}"
                raise InvalidAgent(f"{where}: {_one_line(error)}") from error
        return agents

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the agents, in the file's order."""
        return tuple(self._agents)

    @property
    def digest(self) -> str:
        """Stands for all agents as they are loaded here: the workers of one deployment have the same."""
        return digest_of(self._fingerprints)

    @asynccontextmanager
    async def open(self, name: str, config: RunnableConfig, *, context: Any = None) -> AsyncIterator[Graph]:
        """Give the agent's graph for one segment; a factory is called with the run's config and context.

        Raises:
            UnknownAgent: when no agent has that name; a factory's own errors come as they are.
        """
        agent = self._agents.get(name)
        if agent is None:
            raise UnknownAgent(f"no agent {name!r}; there are: {', '.join(self.names)}")
        if isinstance(agent, Factory):
            async with agent.open(config, store=self._store, context=context, executes=True) as graph:
                yield self._attach(name, graph)
        else:
            yield agent

    async def _check(self, name: str, value: object) -> Graph | Factory:
        """Tell a graph from a factory, make it once and look at it."""
        if callable(value) and not isinstance(value, Pregel | StateGraph):
            factory = Factory.of(value)
            async with factory.open({}, store=self._store, executes=False) as made:
                self._look(name, made)
                self._fingerprints[name] = fingerprint(self._attach(name, made)).digest
            return factory
        graph = as_graph(value)
        self._look(name, graph)
        attached = self._attach(name, graph)
        self._fingerprints[name] = fingerprint(attached).digest
        return attached

    def _look(self, name: str, graph: Graph) -> None:
        """Refuse middleware that would not do what it says; warn of what is going to be replaced."""
        for level in levels(graph):
            check_named_tools(level)
            check_masks(level)
        own: list[object] = []
        if isinstance(graph.checkpointer, BaseCheckpointSaver):
            own.append(graph.checkpointer)
        if graph.store is not None and self._store is not None:
            own.append(graph.store)
        if own:
            log.warning("agent.checkpointer_replaced", agent=name, replaced=[type(o).__name__ for o in own])

    def _attach(self, name: str, graph: Graph) -> Graph:
        """Put our checkpointer and store on a copy; the user's graph stays as it is.

        `Pregel.copy` would lose the mappers that turn streamed state into its pydantic types.
        """
        attached = copy.copy(graph)
        attached.checkpointer = self._checkpointer.with_allowlist(allowed_types(graph))
        if self._store is not None:
            attached.store = self._store
        if attached.name == "LangGraph":  # the name of all that were given none
            attached.name = name
        return attached


def tool_schemas(graph: Graph) -> dict[str, dict[str, Any]]:
    """JSON Schema of each tool's arguments, as the model sees them, by the tool's name.

    Tools of subgraphs are there too; where two have one name, the outer one's schema counts.
    """
    schemas: dict[str, dict[str, Any]] = {}
    for node in graph.nodes.values():
        if isinstance(node.bound, ToolNode):
            for name, tool in node.bound.tools_by_name.items():
                schemas.setdefault(name, arguments_of(tool)["schema"])
    for _, subgraph in graph.get_subgraphs():
        if isinstance(subgraph, Pregel):
            schemas = tool_schemas(subgraph) | schemas
    return schemas


def _variable(source: AgentSource, modules: dict[str, ModuleType]) -> object:
    """Find the agent's variable, importing its module unless this load has already."""
    module = modules.get(source.module)
    if module is None:
        path = source.path
        module = _import_file(source.module, path) if path else importlib.import_module(source.module)
        modules[source.module] = module
    try:
        return getattr(module, source.variable)
    except AttributeError:
        graphs = [name for name, value in vars(module).items() if isinstance(value, Pregel | StateGraph)]
        hint = f"; graphs there: {', '.join(graphs)}" if graphs else ""
        raise AttributeError(f"no variable {source.variable!r} in {module.__file__}{hint}") from None


def _import_file(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before it runs: dataclasses and pydantic look themselves up there
    spec.loader.exec_module(module)
    return module


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, AssertionError) and "duplicate middleware" in text:  # all that LangChain says of it
        text += " Two have one name; limits and retries take a name=… of their own"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
