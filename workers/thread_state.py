"""A thread's checkpoints as a client sees them: its newest state as data, and their end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .checkpoint import checkpointer
from .encoding import dump_shown

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from .state.connection import Connection


async def newest_state(connection: Connection, thread_id: str) -> dict[str, Any] | None:
    """The newest state as JSON values, without what is LangGraph's own; None if there is none."""
    config: RunnableConfig = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    async with checkpointer(connection.reader, connection.settings, others_as_data=True) as saver:
        found = await saver.aget_tuple(config)
    if found is None:
        return None
    values = found.checkpoint["channel_values"]
    shown = {name: value for name, value in values.items() if not name.startswith(("__", "branch:"))}
    return {
        "values": json.loads(dump_shown(shown)),
        "checkpoint_id": found.checkpoint["id"],
        "created_at": found.checkpoint["ts"],
        "run_id": found.metadata.get("run_id"),
    }


async def delete_checkpoints(connection: Connection, thread_id: str) -> None:
    """Delete what another checkpointer than our own holds of a thread; ours goes with its records."""
    if connection.settings.checkpointer != "placet":
        async with checkpointer(connection.reader, connection.settings) as saver:
            await saver.adelete_thread(thread_id)
