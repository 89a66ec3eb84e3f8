"""The synchronous half of a checkpointer or store: calls from other threads run on its own loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from langgraph.checkpoint.base import BaseCheckpointSaver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol

T = TypeVar("T")


class LoopBound:
    """Belongs to the event loop that it is made in: calls from other threads run there."""

    _loop: asyncio.AbstractEventLoop

    def _bind(self) -> None:
        self._loop = asyncio.get_running_loop()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self._loop:
            coroutine.close()
            raise RuntimeError(
                "a synchronous call of the checkpointer or store would block its own event loop:"
                " use the async one (ainvoke, aget_state, aget, …)"
            )
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


class LoopBoundSaver(LoopBound, BaseCheckpointSaver[str]):
    """Sync methods for graphs that a sync node or tool invokes in a thread, as AsyncPostgresSaver has them.

    Must be made inside a running event loop.
    """

    def __init__(self, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._bind()

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Run `aget_tuple`."""
        return self._run(self.aget_tuple(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Run `alist`, one checkpoint at a time."""
        found: AsyncIterator[CheckpointTuple] = self.alist(config, filter=filter, before=before, limit=limit)
        while (checkpoint := self._run(anext_or_none(found))) is not None:
            yield checkpoint

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Run `aput`."""
        return self._run(self.aput(config, checkpoint, metadata, new_versions))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Run `aput_writes`."""
        self._run(self.aput_writes(config, writes, task_id, task_path))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Run `aget_delta_channel_history`."""
        return self._run(self.aget_delta_channel_history(config=config, channels=channels))

    def delete_thread(self, thread_id: str) -> None:
        """Run `adelete_thread`."""
        self._run(self.adelete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Run `adelete_for_runs`."""
        self._run(self.adelete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Run `acopy_thread`."""
        self._run(self.acopy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Run `aprune`."""
        self._run(self.aprune(thread_ids, strategy=strategy))


async def anext_or_none(iterator: AsyncIterator[T]) -> T | None:
    """Return the next item, or None at the end."""
    return await anext(iterator, None)
