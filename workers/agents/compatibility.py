"""Whether a run that was left at a checkpoint can go on in the graph that this process has.

The checkpoint says by itself which nodes are to run next (channels `branch:to:NODE`, and `Send`s in
`__pregel_tasks`) and which tasks have raised interrupts; LangGraph prepares no task for a node that it does
not have, and a resume then ends at once as if all were done. So each level of the run, the graph and the
subgraphs it waits in, is compared with its checkpoint and with the fingerprint of the graph it was left by.
"""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass, is_dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from langgraph.types import Send
from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from typing_extensions import is_typeddict

from ..approvals.tool_calls import is_tool_approval_interrupt, pending_tool_calls
from ..errors import UnreadableCheckpoint
from .fingerprint import fingerprint, subgraphs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
    from langgraph.types import PregelTask

    from ..state.approvals import Approval
    from ..state.runs import Run
    from .factories import Graph

Level = dict[str, Any]
"""One graph of a fingerprint."""
_WHOLE_VALUES = {"LastValue", "BinaryOperatorAggregate", "AnyValue"}
"""Channels that keep a key's value as it is, so that each of them reads what another has kept."""


async def incompatibility(
    graph: Graph, run: Run, *, stored: Mapping[str, Any] | None, requests: Sequence[Approval]
) -> str | None:
    """Say why the run cannot go on in this graph from its newest checkpoint; None if it can.

    Args:
        graph: The deployed graph, with its checkpointer.
        run: The run, whose thread nobody else may execute meanwhile.
        stored: Content of the fingerprint of the graph that the run was left by, None if there is none.
        requests: All that the run has asked.
    """
    saver: Any = graph.checkpointer
    walk = _Walk(saver=saver, thread_id=run.thread_id, requests=requests)
    now = fingerprint(graph).content["level"]
    try:
        saved = await walk.saved("")
        if saved is None or saved.metadata.get("run_id") != run.id:
            return None  # it has left nothing yet, or what it left is gone
        return await walk.misfit(graph, saved, was=stored["level"] if stored else None, now=now)
    except UnreadableCheckpoint as error:
        return f"its state cannot be read: {error}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    """The way down from a graph to the subgraphs that wait."""

    saver: BaseCheckpointSaver[Any]
    thread_id: str
    requests: Sequence[Approval]

    async def misfit(
        self, graph: Graph, saved: CheckpointTuple, *, was: Level | None, now: Level
    ) -> str | None:
        """What does not fit at this level and below, in words."""
        raised = _raised(saved)
        asked = [request for request in self.requests if request.interrupt_id in raised]
        values = saved.checkpoint["channel_values"]
        if why := gate_misfit(was, now, asked) or _state_misfit(graph, was, now, values):
            return why
        config: RunnableConfig = {
            "configurable": {**saved.config["configurable"], "__pregel_checkpointer": self.saver}
        }
        try:
            state = await graph.aget_state(config)
        except UnreadableCheckpoint:
            raise
        except Exception as error:  # noqa: BLE001 - a schema's own validation may raise anything
            return f"its state does not fit the graph's schema: {' '.join(str(error).split())}"
        if raised - {interrupt.id for task in state.tasks for interrupt in task.interrupts}:
            return "what leads to the node where it waits has changed"
        if was is not None and (why := _value_misfit(graph, was, now, state.values)):
            return why
        for task in state.tasks:
            if why := await self._inside(graph, saved, task, was=was, now=now):
                return why
        return None

    async def _inside(
        self, graph: Graph, above: CheckpointTuple, task: PregelTask, *, was: Level | None, now: Level
    ) -> str | None:
        """What does not fit in the graph that a task runs, if it does."""
        here = _of_node(now["graphs"], task.name)
        before = here if was is None else _of_node(was["graphs"], task.name)
        if task.interrupts and (task.name in here) != (task.name in before):
            change = "has become" if task.name in here else "is no longer"
            return f"node {task.name!r}, where it waits, {change} a graph of its own"
        namespace = above.config["configurable"].get("checkpoint_ns")
        below = f"{namespace}|{task.name}:{task.id}" if namespace else f"{task.name}:{task.id}"
        if (saved := await self.saved(below)) is None:
            return None
        reasons = []
        graphs = subgraphs(graph)
        waiting = set(_waiting_nodes(saved.checkpoint["channel_values"]))
        for key, level in before.items():
            if not waiting <= set(level["nodes"]) and was is not None:
                continue  # a graph of another of the node's tools
            if key not in here:
                why: str | None = f"the graph that {key!r} ran, where it waits, is gone"
            else:
                old = None if was is None else level
                why = await self.misfit(graphs[key], saved, was=old, now=here[key])
            if why is None:
                return None
            reasons.append(f"in {key!r}: {why}")
        return reasons[0] if reasons else None

    async def saved(self, namespace: str) -> CheckpointTuple | None:
        """Read the newest checkpoint of a namespace."""
        config: RunnableConfig = {"configurable": {"thread_id": self.thread_id, "checkpoint_ns": namespace}}
        return await self.saver.aget_tuple(config)


def gate_misfit(was: Level | None, now: Level, asked: Sequence[Approval]) -> str | None:
    """Say which of a level's requests would not find its gate again.

    What the stored graph was not seen to gate was asked by other means, which nothing can be said about;
    without a stored graph every tool that was asked about has to be gated.

    Args:
        was: The level that paused, if known.
        now: The same level as it is deployed.
        asked: Requests of interrupts that are open at this level.
    """
    for tool, mode, decision in (one for request in asked for one in _asked_about(request)):
        if was and was["gates"].get(tool, [""])[0] != mode:
            continue
        gate = now["gates"].get(tool)
        if gate is None:
            if was is None and any(tool in level["gates"] for level in _levels(now)):
                continue
            return f"tool {tool!r} waits for a decision ({mode}), and no gate asks about it any more"
        if gate[0] != mode:
            return f"tool {tool!r} was asked about in mode {mode}, and its gate is {gate[0]} now"
        if decision and decision not in gate[1:]:
            return f"the gate of tool {tool!r} does not take the decision {decision!r} any more"
    return None


def _asked_about(request: Approval) -> Iterator[tuple[str, str, str]]:
    """Tool, mode and the decision's type, if there is one; also of a gate that was taken for a question."""
    if request.mode in ("batched", "per_call"):
        yield request.tool or "", request.mode, (request.decision or {}).get("type", "")
    elif is_tool_approval_interrupt({"value": request.value}):
        yield request.value["name"], "per_call", ""
    elif isinstance(request.value, dict):
        actions = request.value.get("action_requests")
        for action in actions if isinstance(actions, list) else ():
            if isinstance(action, dict) and isinstance(name := action.get("name"), str):
                yield name, "batched", ""


def _state_misfit(graph: Graph, was: Level | None, now: Level, values: Mapping[str, Any]) -> str | None:
    """Say which node or state key of the checkpoint the graph does not have, or keeps in another way."""
    if gone := [node for node in _waiting_nodes(values) if node not in graph.nodes]:
        there = ", ".join(name for name in now["nodes"] if name != "__start__")
        return f"node {gone[0]!r}, where it waits, is gone; there are: {there}"
    for key, value in values.items():
        if key in graph.channels or key.startswith(("__", "branch:to:")):
            continue
        if value is None or (isinstance(value, Sized) and not len(value)):
            continue
        if key.startswith("join:"):
            return f"the edge {key.removeprefix('join:')!r}, which waits for its nodes, is gone"
        return f"state key {key!r} has a value, and the graph has no such key any more"
    for key in was["keys"].keys() & now["keys"].keys() if was else ():
        kinds = [level["keys"][key].partition(":")[0] for level in (was or now, now)]
        if kinds[0] != kinds[1] and not set(kinds) <= _WHOLE_VALUES:
            return f"state key {key!r} was kept as {kinds[0]}, and is {kinds[1]} now"
    return None


def _value_misfit(graph: Graph, was: Level, now: Level, values: Any) -> str | None:
    """Say which called tool is gone, or which state key has got a type that does not take its value."""
    if gone := _called(values) & set(was["tools"]) - set(now["tools"]):
        return f"tool {min(gone)!r}, which the model has called, is gone"
    for key, kept in was["keys"].items() if isinstance(values, dict) else ():
        if key not in values or now["keys"].get(key, kept) == kept:
            continue
        channel: Any = graph.channels[key]
        try:
            _adapter(channel.ValueType).validate_python(values[key])
        except ValidationError as error:
            message = error.errors(include_url=False, include_input=False)[0]["msg"]
            return f"state key {key!r} has a value that its type does not take any more: {message}"
        except (PydanticUserError, TypeError):  # a type that cannot be checked
            continue
    return None


@lru_cache(maxsize=256)  # one for the messages of `create_agent` takes tens of milliseconds
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind, config=None if _has_config(kind) else ConfigDict(arbitrary_types_allowed=True))


def _has_config(kind: Any) -> bool:
    if is_typeddict(kind) or is_dataclass(kind):
        return True
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _waiting_nodes(values: Mapping[str, Any]) -> Iterator[str]:
    """The nodes that a checkpoint says are to run next."""
    for channel in values:
        if channel.startswith("branch:to:"):
            yield channel.removeprefix("branch:to:")
    for packet in values.get("__pregel_tasks") or ():
        if isinstance(packet, Send):
            yield packet.node


def _raised(saved: CheckpointTuple) -> set[str]:
    """Ids of the interrupts that the checkpoint's tasks have raised."""
    return {
        interrupt.id
        for _, channel, value in saved.pending_writes or ()
        if channel == "__interrupt__"
        for interrupt in value
    }


def _of_node(graphs: Mapping[str, Level], node: str) -> dict[str, Level]:
    return {key: level for key, level in graphs.items() if key.partition("/")[0] == node}


def _levels(level: Level) -> Iterator[Level]:
    yield level
    for inner in level["graphs"].values():
        yield from _levels(inner)


def _called(values: Any) -> set[str]:
    """Names of the tools that the model has called and that have not run."""
    messages = values.get("messages") if isinstance(values, dict) else getattr(values, "messages", None)
    return {call.name for call in pending_tool_calls(messages if isinstance(messages, list) else [])}
