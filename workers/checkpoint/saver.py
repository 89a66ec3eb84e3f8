"""The checkpointer: one Redis hash a thread, one script call an operation, writes fenced by the lease."""

from __future__ import annotations

import random
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)
from redis.asyncio import Redis

from ..errors import Conflict, InvalidInput, InvalidSettings, LeaseLost
from ..state.keys import Keys
from .codec import Codec, encrypted
from .hints import StoredHints
from .layout import (
    Record,
    digests,
    element_field,
    join,
    name,
    pack,
    pairs,
    split,
    unpack_record,
    unpack_write,
)
from .scripts import Scripts
from .serde import CheckpointSerde, parse_allowed_types
from .sync import LoopBoundSaver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Sequence
    from datetime import timedelta
    from typing import Self

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        DeltaChannelHistory,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from .layout import Write
    from .scripts import Fenced

TOKEN = "__placet_token"  # noqa: S105 - a key of `configurable`
"""Where a config carries the fencing token of the lease that its writer holds."""


class _Place(NamedTuple):
    """A namespace of a thread, and who writes there."""

    thread_id: Any
    namespace: str
    keys: list[str]
    token: str
    ttl_ms: int

    @property
    def fence(self) -> list[Any]:
        return [self.token, self.ttl_ms]

    def config(self, checkpoint_id: str) -> RunnableConfig:
        # a writer's config stays a writer's: LangGraph goes on with what it gets back
        token = {TOKEN: int(self.token)} if self.token else {}
        at = {"thread_id": self.thread_id, "checkpoint_ns": self.namespace, "checkpoint_id": checkpoint_id}
        return {"configurable": at | token}


class RedisSaver(LoopBoundSaver):
    """Checkpoints on plain Redis 6.2+ or Valkey; usable without Placet's workers.

    While a thread has a lease, only writes whose config carries the lease's token are taken.

    Args:
        redis: a client with `decode_responses=False`; stays the caller's to close.
        namespace: prefix of all keys.
        ttl: lifetime of a thread after its last read or write; longer than the longest wait for a person.
        serde: serializer in place of `CheckpointSerde`.
        encryption_key: AES key of 16, 24 or 32 bytes; needs the extra `placet[encryption]`.
        allowed_types: further classes a checkpoint may hold: `package.module:Type`, comma-separated.

    Raises:
        InvalidSettings: when one of these cannot be used.
    """

    def __init__(
        self,
        redis: Redis,
        *,
        namespace: str = "placet",
        ttl: timedelta | None = None,
        serde: SerializerProtocol | None = None,
        encryption_key: str | None = None,
        allowed_types: str = "",
    ) -> None:
        if redis.connection_pool.connection_kwargs.get("decode_responses"):
            raise InvalidSettings("the checkpointer needs a client with decode_responses=False")
        if serde is not None and allowed_types:
            raise InvalidSettings("allowed_types is for the own serializer: give it to yours instead")
        serde = serde or CheckpointSerde(allowed_types=parse_allowed_types(allowed_types))
        self._secret = b""
        if encryption_key:
            serde, self._secret = encrypted(serde, encryption_key)
        super().__init__(serde=serde)
        self._redis = redis
        self._keys = Keys(namespace)
        self._ttl_ms = int(ttl.total_seconds() * 1000) if ttl else 0
        self._scripts = Scripts(redis)
        self._stored = StoredHints()

    @classmethod
    @asynccontextmanager
    async def from_url(cls, url: str, **options: Any) -> AsyncIterator[Self]:
        """Connect, and close at the end; `options` are the constructor's."""
        async with Redis.from_url(url) as redis:
            yield cls(redis, **options)

    @property
    def _codec(self) -> Codec:
        # not kept: LangGraph clones the checkpointer and gives the clone another serializer
        return Codec(self.serde, self._secret)

    def _place(self, config: RunnableConfig) -> _Place:
        configurable = config["configurable"]
        namespace = name("checkpoint_ns", configurable.get("checkpoint_ns") or "")
        return self._thread(configurable["thread_id"], configurable.get(TOKEN), namespace)

    def _thread(self, thread_id: Any, token: int | None, namespace: str = "") -> _Place:
        keys = [self._keys("checkpoint", str(thread_id)), self._keys("lease", str(thread_id))]
        return _Place(thread_id, namespace, keys, "" if token is None else str(token), self._ttl_ms)

    async def _write(self, script: Fenced, place: _Place, *args: Any, also: Sequence[str] = ()) -> bytes:
        reply: bytes = await self._scripts.run(script, [*place.keys, *also], [*place.fence, *args])
        if reply == b"lost":
            raise LeaseLost(str(place.thread_id))
        return reply

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
        record = Record(
            parent=get_checkpoint_id(config) or "",
            run_id=str(metadata.get("run_id") or ""),
            versions=versions,
            open_deltas=[c for c in metadata.get("counters_since_delta_snapshot", ()) if c not in values],
            payload=codec.payload({k: v for k, v in checkpoint.items() if k != "channel_values"}, metadata),
        )
        checkpoint_id = name("checkpoint_id", checkpoint["id"])
        put = [place.namespace, checkpoint_id, pack(record)]
        changed = [channel for channel in new_versions if channel in versions]
        fields, seen = self._blobs(place, codec, {c: versions[c] for c in changed}, values)
        if await self._write("put", place, *put, *fields) == b"missing":
            fields, seen = self._blobs(place, codec, versions, values, resend=True)
            await self._write("put", place, *put, *fields)
        for channel, elements in seen.items():
            self._stored.set(place.keys[0], place.namespace, channel, elements)
        return place.config(checkpoint_id)

    def _blobs(
        self,
        place: _Place,
        codec: Codec,
        versions: dict[str, str],
        values: dict[str, Any],
        *,
        resend: bool = False,
    ) -> tuple[list[Any], dict[str, frozenset[bytes]]]:
        """Return fields and values to store, and the digests in each list channel."""
        fields: list[Any] = []
        seen: dict[str, frozenset[bytes]] = {}
        for channel, version in versions.items():
            elements = codec.split(values[channel])
            if elements is None:
                blob = codec.whole(values[channel])
            else:
                known = frozenset() if resend else self._stored.get(place.keys[0], place.namespace, channel)
                by_digest = dict(elements)
                for digest in by_digest.keys() - known:
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
            write = codec.write(task_path, task_id, index, channel, value)
            args += (join(task, str(index)), pack(write), "1" if index < 0 else "0")
        await self._write("put_writes", place, *args)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Load the checkpoint that `config` names, or the latest.

        Raises:
            UnreadableCheckpoint: when it cannot be made again as it was written.
        """
        place = self._place(config)
        args = [self._ttl_ms, place.namespace, get_checkpoint_id(config) or ""]
        reply = await self._scripts.run("get", place.keys[:1], args)
        return None if reply is None else self._tuple(place, reply)

    def _tuple(self, place: _Place, reply: Any) -> CheckpointTuple:
        codec = self._codec
        checkpoint_id, record_data, channels, elements, writes = reply
        record = unpack_record(record_data)
        checkpoint, metadata = codec.load_payload(record)
        remaining = iter(elements)
        values = {}
        for raw_channel, blob in pairs(channels):
            channel = raw_channel.decode()
            values[channel] = codec.load(blob, remaining)
            if blob[:1] == b"L":
                self._stored.set(place.keys[0], place.namespace, channel, frozenset(digests(blob)))
        return CheckpointTuple(
            config=place.config(checkpoint_id.decode()),
            checkpoint={**checkpoint, "channel_values": values},
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
            else [self._thread(thread_id, None) async for thread_id in self._thread_ids()]
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

    async def _index(self, place: _Place) -> Collection[tuple[str, str]]:
        """Return namespace and id of a thread's checkpoints."""
        names = await self._scripts.run("index", place.keys[:1], [])
        return [(namespace, checkpoint_id) for namespace, checkpoint_id in map(split, names)]

    async def _thread_ids(self) -> AsyncIterator[str]:
        blank = "\0"
        before, after = self._keys("checkpoint", blank).split(blank)
        pattern = re.sub(r"([*?\[\]\\])", r"\\\1", before) + "*" + after
        async for key in self._redis.scan_iter(match=pattern, count=1000):
            yield key.decode().removeprefix(before).removesuffix(after)

    async def adelete_thread(self, thread_id: str, *, token: int | None = None) -> None:
        """Delete a thread's checkpoints and writes.

        Raises:
            LeaseLost: when the thread has a lease and `token` is not its token.
        """
        await self._write("delete", self._thread(thread_id, token))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that these runs made; goes through all threads.

        Raises:
            LeaseLost: when a thread has a lease; threads gone through before are done.
        """
        if not run_ids:
            return
        async for thread_id in self._thread_ids():
            await self._write("sweep", self._thread(thread_id, None), "runs", *run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread whole.

        Raises:
            Conflict: when the target has checkpoints.
            LeaseLost: when the target has a lease.
        """
        source = self._keys("checkpoint", str(source_thread_id))
        if await self._write("copy", self._thread(target_thread_id, None), also=[source]) == b"exists":
            raise Conflict(f"thread {target_thread_id!r} has checkpoints already")

    async def aprune(
        self, thread_ids: Sequence[str], *, strategy: str = "keep_latest", token: int | None = None
    ) -> None:
        """Keep the latest checkpoint of each namespace, and what its delta channels stand on; or delete all.

        Raises:
            InvalidInput: when the strategy is neither `keep_latest` nor `delete`.
            LeaseLost: when a thread has a lease and `token` is not its token.
        """
        if strategy not in ("keep_latest", "delete"):
            raise InvalidInput("strategy", f"{strategy!r} is neither keep_latest nor delete")
        for thread_id in thread_ids:
            place = self._thread(thread_id, token)
            if strategy == "delete":
                await self._write("delete", place)
            else:
                await self._write("sweep", place, "latest")

    def get_next_version(self, current: str | None, channel: None) -> str:  # noqa: ARG002 - LangGraph's name
        """Return a version after `current`, unlike any that another process takes."""
        number = 0 if current is None else int(str(current).partition(".")[0])
        return f"{number + 1:020}.{random.getrandbits(64):016x}"


def _pending(codec: Codec, writes: Sequence[bytes]) -> list[tuple[str, str, Any]]:
    def key(write: Write) -> tuple[str, str, int]:
        return writes_sort_key(write.task_path, write.task_id, write.position)

    unpacked = sorted(map(unpack_write, writes), key=key)
    return [(w.task_id, w.channel, codec.load_typed((w.type_name, w.data))) for w in unpacked]
