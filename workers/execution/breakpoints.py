"""Static breakpoints (`interrupt_before`, `interrupt_after`) that are due at a checkpoint.

LangGraph walks through a breakpoint whenever it is resumed, so before a resume somebody has to look whether
one is due: a worker may have died after the checkpoint was written and before the pause was committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..approvals.interrupts import StaticBreakpoint

if TYPE_CHECKING:
    from collections.abc import Collection

    from langgraph.checkpoint.base import Checkpoint
    from langgraph.types import StateSnapshot

    from ..agents.factories import Graph

_INTERRUPT = "__interrupt__"
_NO_TASK = "00000000-0000-0000-0000-000000000000"
"""LangGraph's id for writes that are no task's, such as an answer for whoever asks."""


def has_breakpoints(graph: Graph) -> bool:
    """Whether the graph was compiled with any."""
    return bool(graph.interrupt_before_nodes or graph.interrupt_after_nodes)


async def due_breakpoint(graph: Graph, state: StateSnapshot) -> StaticBreakpoint | None:
    """The breakpoint that the graph stands at and has not been resumed from, if there is one.

    The rule is LangGraph's (`should_interrupt` in langgraph/pregel/_algo.py): some channel was updated since
    the last resume, and a node that is next (before) or has just run (after) is listed.
    """
    if not has_breakpoints(graph) or not state.tasks:
        return None
    saver: Any = graph.checkpointer
    saved = await saver.aget_tuple(state.config)
    if saved is None or not _updated_since_resume(saved.checkpoint):
        return None
    if any(task_id != _NO_TASK for task_id, _, _ in saved.pending_writes or ()):
        return None  # a task has paused, failed or ended: the breakpoints before it are passed
    checkpoint_id = saved.checkpoint["id"]
    ran: set[str] = set()
    if graph.interrupt_after_nodes and saved.parent_config is not None:
        parent = await saver.aget_tuple(saved.parent_config)
        before = parent.checkpoint["versions_seen"] if parent else {}
        ran = {node for node, seen in saved.checkpoint["versions_seen"].items() if before.get(node) != seen}
    if after := _listed(graph.interrupt_after_nodes, ran):
        return StaticBreakpoint(checkpoint_id=checkpoint_id, when="after", nodes=after)
    if before_nodes := _listed(graph.interrupt_before_nodes, {task.name for task in state.tasks}):
        return StaticBreakpoint(checkpoint_id=checkpoint_id, when="before", nodes=before_nodes)
    return None


async def pass_leftovers(graph: Graph, state: StateSnapshot) -> None:
    """Mark channels that the graph does not have as seen, so that its breakpoint can be passed.

    A thread may hold channels of another agent, or of a state key that a deployment dropped. On a resume
    LangGraph marks the graph's own channels as seen, then finds the others to be news since the last
    resume: it would stop at the same breakpoint for ever.
    """
    saver: Any = graph.checkpointer
    saved = await saver.aget_tuple(state.config)
    if saved is None:
        return
    checkpoint = saved.checkpoint
    left = {k: v for k, v in checkpoint["channel_versions"].items() if k not in graph.channels}
    seen = checkpoint["versions_seen"].get(_INTERRUPT, {})
    if all(seen.get(channel) == version for channel, version in left.items()):
        return
    checkpoint["versions_seen"] = {**checkpoint["versions_seen"], _INTERRUPT: {**seen, **left}}
    configurable = {**saved.config["configurable"], "checkpoint_id": None}
    if saved.parent_config is not None:
        configurable["checkpoint_id"] = saved.parent_config["configurable"]["checkpoint_id"]
    await saver.aput({"configurable": configurable}, checkpoint, saved.metadata, {})


def _updated_since_resume(checkpoint: Checkpoint) -> bool:
    seen = checkpoint["versions_seen"].get(_INTERRUPT, {})
    return any(
        channel not in seen or version > seen[channel]  # type: ignore[operator]
        for channel, version in checkpoint["channel_versions"].items()
    )


def _listed(listed: Any, nodes: Collection[str]) -> tuple[str, ...]:
    if listed == "*":
        return tuple(sorted(node for node in nodes if not node.startswith("__")))
    return tuple(sorted(set(listed) & set(nodes)))
