"""Puts a thread's messages in order after an abnormal end, so that the next model call is valid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.constants import END, START

from ..checkpoint.threads import TOKEN, ThreadsSaver

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from langchain_core.messages import ToolCall
    from langchain_core.runnables import RunnableConfig

    from ..agents.factories import Graph


async def repair_thread(
    graph: Graph,
    config: RunnableConfig,
    results: Callable[[AIMessage, list[ToolCall]], Awaitable[list[ToolMessage]]],
) -> None:
    """Keep what finished, drop what was pending, and give each unanswered tool call one of `results`.

    Finished calls of the step that was cut off keep their real ToolMessage: LangGraph applies a step's
    finished writes when its tasks are cleared.
    """
    state = await graph.aget_state(config)
    if state.tasks:
        await graph.aupdate_state(config, None, as_node=END)
        state = await graph.aget_state(config)
    message, missing = unanswered_calls(state.values)
    if message is not None and missing:
        update = {"messages": await results(message, missing)}
        await graph.aupdate_state(config, update, as_node=START)
        await graph.aupdate_state(config, None, as_node=END)


async def roll_back(graph: Graph, config: RunnableConfig, run_ids: Collection[str]) -> None:
    """Bring the thread back to where it stood before these runs, its newest, began.

    Our own checkpointer deletes their checkpoints. Of another's, only what a root graph needs is known: the
    newest checkpoint that is not theirs is copied to be the newest, and theirs stay in the history.
    """
    saver, thread_id = graph.checkpointer, config["configurable"]["thread_id"]
    assert isinstance(saver, BaseCheckpointSaver)  # noqa: S101 - every agent is given one
    if isinstance(saver, ThreadsSaver):
        await saver.aroll_back(thread_id, list(run_ids), token=config["configurable"][TOKEN])
        return
    async for found in saver.alist({"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}):
        if found.metadata.get("run_id") not in run_ids:
            at = {**config["configurable"], **found.config["configurable"]}
            await graph.aupdate_state({**config, "configurable": at}, None, as_node="__copy__")
            return
    await saver.adelete_thread(thread_id)


def unanswered_calls(values: Any) -> tuple[AIMessage | None, list[ToolCall]]:
    """The last AIMessage, and its tool calls that have no ToolMessage; none where there are no messages."""
    messages = values.get("messages") if isinstance(values, dict) else getattr(values, "messages", None)
    if not isinstance(messages, list):
        return None, []
    answered: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AIMessage):
            return message, [call for call in message.tool_calls if call["id"] not in answered]
    return None, []
