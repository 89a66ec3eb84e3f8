"""The checkpointer: one Redis hash a thread, one script call an operation, writes fenced by the lease."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)

from .hints import Hint
from .ids import ids_after
from .layout import (
    Record,
    digests,
    element_field,
    join,
    name,
    pack,
    pairs,
    task_of,
    unpack_record,
    unpack_write,
)
from .threads import SAVED, TOKEN, ThreadsSaver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        DeltaChannelHistory,
    )

    from .codec import Codec
    from .layout import Write
    from .threads import Place

__all__ = ["SAVED", "TOKEN", "RedisSaver"]


class RedisSaver(ThreadsSaver):
    """Checkpoints on plain Redis 6.2+ or Valkey; usable without Placet's workers.

    While a thread has a lease, only writes whose config carries the lease's token are taken.

    Args:
        redis: a client with `decode_responses=False`, best on a `BlockingConnectionPool`; stays the
            caller's to close.
        namespace: prefix of all keys.
        ttl: lifetime of a thread after its last read or write; longer than the longest wait for a person.
        serde: serializer in place of `CheckpointSerde`.
        encryption_key: AES key of 16, 24 or 32 bytes, for values and metadata; ids and names of channels
            stay readable. Needs the extra `placet[encryption]`.
        allowed_types: further classes a checkpoint may hold: `package.module:Type`, comma-separated.

    Raises:
        InvalidSettings: when one of these cannot be used.
    """

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint.

        Raises:
            LeaseLost: when the thread's lease is not this writer's.
            UnstorableType: when a value would not come back as it is.
        """
        place, codec = self._place(config), self._codec
        values = checkpoint["channel_values"]
        metadata = get_checkpoint_metadata(config, metadata)
        versions = {
            name("channel", channel): name("version", version)
            for channel, version in checkpoint["channel_versions"].items()
            if channel in values
        }
        run_id = str(metadata.get("run_id") or "")
        record = Record(
            parent=get_checkpoint_id(config) or "",
            run_id=run_id,
            versions=versions,
            open_deltas=[c for c in metadata.get("counters_since_delta_snapshot", ()) if c not in values],
            payload=codec.payload(
                {k: v for k, v in checkpoint.items() if k not in ("id", "channel_values")},
                {k: v for k, v in metadata.items() if not (k == "run_id" and v and v == run_id)},
            ),
        )
        checkpoint_id = name("checkpoint_id", checkpoint["id"])
        put = [place.namespace, checkpoint_id, pack(record)]
        changed = {channel: versions[channel] for channel in new_versions if channel in versions}
        known = {channel: self._stored.get(place.keys[0], place.namespace, channel) for channel in changed}
        fields, seen = self._blobs(place, codec, changed, values, known)
        if await self._write("put", place, *put, _common(known, seen), *fields) == b"missing":
            fields, seen = self._blobs(place, codec, versions, values, {})
            await self._write("put", place, *put, "", *fields)
        for channel, elements in seen.items():
            self._stored.set(place.keys[0], place.namespace, channel, Hint(checkpoint_id, elements))
        return place.config(checkpoint_id)

    def _blobs(
        self,
        place: Place,
        codec: Codec,
        versions: dict[str, str],
        values: dict[str, Any],
        known: dict[str, Hint],
    ) -> tuple[list[Any], dict[str, frozenset[bytes]]]:
        """Return fields and values to store, and the digests in each list channel."""
        fields: list[Any] = []
        seen: dict[str, frozenset[bytes]] = {}
        for channel, version in versions.items():
            elements = codec.split(values[channel])
            if elements is None:
                blob = codec.whole(values[channel])
            else:
                by_digest = dict(elements)
                for digest in by_digest.keys() - known.get(channel, Hint()).digests:
                    fields += (element_field(digest), codec.element(by_digest[digest]))
                blob = b"L" + b"".join(digest for digest, _ in elements)
                seen[channel] = frozenset(by_digest)
            fields += (join("b", place.namespace, channel, version), blob)
        return fields, seen

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote; a write that is there already stays, but for LangGraph's special ones.

        Raises:
            LeaseLost: when the thread's lease is not this writer's.
            UnstorableType: when a value would not come back as it is.
        """
        place, codec = self._place(config), self._codec
        args: list[Any] = [place.namespace, name("checkpoint_id", config["configurable"]["checkpoint_id"])]
        task = name("task_id", task_id)
        for position, (channel, value) in enumerate(writes):
            index = WRITES_IDX_MAP.get(channel, position)
            write = codec.write(task_path, index, channel, value)
            args += (join(task, str(index)), pack(write), "1" if index < 0 else "0")
        await self._write("put_writes", place, *args)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Load the checkpoint that `config` names, or the latest.

        Raises:
            UnreadableCheckpoint: when it cannot be made again as it was written.
        """
        place, checkpoint_id = self._place(config), get_checkpoint_id(config) or ""
        saved = config["configurable"].get(SAVED)
        if saved and not place.namespace and not checkpoint_id:
            reply = saved.pop()
        else:
            args = [self._ttl_ms, place.namespace, checkpoint_id]
            reply = await self._scripts.run("get", place.keys[:1], args)
        return None if reply is None else self._tuple(place, reply)

    def _tuple(self, place: Place, reply: Any) -> CheckpointTuple:
        codec = self._codec
        checkpoint_id, record_data, channels, elements, writes = reply
        ids_after(checkpoint_id.decode())
        record = unpack_record(record_data)
        rest, metadata = codec.load_payload(record)
        if record.run_id:
            metadata.setdefault("run_id", record.run_id)
        remaining = iter(elements)
        values = {}
        for raw_channel, blob in pairs(channels):
            channel = raw_channel.decode()
            values[channel] = codec.load(blob, remaining)
            if blob[:1] == b"L":
                hint = Hint(checkpoint_id.decode(), frozenset(digests(blob)))
                self._stored.set(place.keys[0], place.namespace, channel, hint)
        checkpoint: Any = {"id": checkpoint_id.decode(), **rest, "channel_values": values}
        return CheckpointTuple(
            config=place.config(checkpoint_id.decode()),
            checkpoint=checkpoint,
            metadata=metadata,
            parent_config=place.config(record.parent) if record.parent else None,
            pending_writes=_pending(codec, writes),
        )

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> dict[str, DeltaChannelHistory]:
        """Collect each delta channel's writes since the nearest ancestor with a value, in one call."""
        if not channels:
            return {}
        place, codec = self._place(config), self._codec
        args = [place.namespace, get_checkpoint_id(config) or "", *channels]
        steps = await self._scripts.run("history", place.keys[:1], args)
        found: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
        for seeds, writes in reversed(steps):
            for channel, blob, elements in seeds:
                found[channel.decode()]["seed"] = codec.load(blob, iter(elements))
            for write in _pending(codec, writes):
                found[write[1]]["writes"].append(write)
        return found

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """List checkpoints, newest first; of all threads when `config` is None."""
        configurable = config["configurable"] if config else {}
        wanted = get_checkpoint_id(config) if config else None
        end = get_checkpoint_id(before) if before else None
        places = (
            [self._thread(configurable["thread_id"], configurable.get(TOKEN))]
            if config
            else [self._thread(thread_id, None) for thread_id in {i async for i in self._thread_ids()}]
        )
        found = [
            (checkpoint_id, place._replace(namespace=namespace))
            for place in places
            for namespace, checkpoint_id in await self._index(place)
            if configurable.get("checkpoint_ns", namespace) == namespace
            if (not wanted or checkpoint_id == wanted) and (not end or checkpoint_id < end)
        ]
        found.sort(key=lambda item: item[0], reverse=True)
        for checkpoint_id, place in found:
            if limit is not None and limit <= 0:
                return
            saved = await self.aget_tuple(place.config(checkpoint_id))
            if saved is None or any(saved.metadata.get(k) != v for k, v in (filter or {}).items()):
                continue
            limit = None if limit is None else limit - 1
            yield saved

    def get_next_version(self, current: str | None, channel: None) -> str:  # noqa: ARG002 - LangGraph's name
        """Return a version after `current`, unlike any that another process takes."""
        number = 0 if current is None else int(str(current).partition(".")[0])
        return f"{number + 1:08}.{secrets.token_urlsafe(6)}"


def _common(known: Mapping[str, Hint], lists: Iterable[str]) -> str:
    """Return the checkpoint that all lists' hints are of; empty if they are of several."""
    ids = {known[channel].checkpoint_id for channel in lists if known[channel].digests}
    return ids.pop() if len(ids) == 1 else ""


def _pending(codec: Codec, writes: list[bytes]) -> list[tuple[str, str, Any]]:
    def key(named: tuple[str, Write]) -> tuple[str, str, int]:
        return writes_sort_key(named[1].task_path, named[0], named[1].position)

    named = [(task_of(write_name), unpack_write(packed)) for write_name, packed in pairs(writes)]
    named.sort(key=key)
    return [(task, write.channel, codec.load_typed((write.type_name, write.data))) for task, write in named]
