"""langgraph-checkpoint-redis as a checkpointer, put right where that can be done from outside."""

from __future__ import annotations

import asyncio
import json
import re
from base64 import b64decode, b64encode
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import get_checkpoint_id, get_checkpoint_metadata, writes_sort_key
from langgraph.checkpoint.redis.aio import AsyncRedisSaver
from langgraph.checkpoint.redis.util import from_storage_safe_id, from_storage_safe_str, to_storage_safe_id
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from redis.exceptions import RedisError
from redisvl.exceptions import RedisVLError

from ..errors import InvalidSettings, StoreUnavailable, UnreadableCheckpoint
from ..state.batches import CALL_SECONDS
from ..state.outages import is_outage
from .codec import encrypted
from .threads import TOKEN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        PendingWrite,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from redis.asyncio import Redis

NEEDED = {"Search": "FT.CREATE", "JSON": "JSON.SET"}
"""Modules that it stands on, each with a command of its own."""
_PLACE = ("thread_id", "checkpoint_ns", "checkpoint_id")
_SETUPS = 5
_DELETED_AT_ONCE = 500


class StackSaver(AsyncRedisSaver):
    """`AsyncRedisSaver` on a client that stays the caller's; `open` makes one that is ready.

    Other than there, values are serialized by `serde`: they keep their types, names in them are not
    imported, and they can be encrypted. A checkpoint's metadata has what its config says (`run_id`), pending
    writes come back in their order, a deleted thread leaves nothing, and a server that is away is
    `StoreUnavailable`. Checkpoints that the original has written cannot be read. Writes are not fenced.
    """

    def __init__(
        self,
        redis: Redis,
        *,
        serde: SerializerProtocol,
        namespace: str = "placet",
        encryption_key: str | None = None,
    ) -> None:
        super().__init__(
            redis_client=redis,
            checkpoint_prefix=f"{namespace}-checkpoint",
            checkpoint_write_prefix=f"{namespace}-checkpoint_write",
        )
        self.serde = encrypted(serde, encryption_key)[0] if encryption_key else serde

    @classmethod
    async def open(cls, redis: Redis, **options: Any) -> StackSaver:
        """Make one and its indexes; `options` are the constructor's.

        Raises:
            InvalidSettings: when the server lacks a module.
            StoreUnavailable: when it does not answer.
        """
        async with _answers():
            command: Any = redis.execute_command
            known = [await command("COMMAND INFO", one) for one in NEEDED.values()]
        missing = [name for name, found in zip(NEEDED, known, strict=True) if found in ([], [None])]
        if missing:
            raise InvalidSettings(
                "PLACET_CHECKPOINTER: langgraph-redis needs the modules JSON and Search (Redis 8 has them);"
                f" this server lacks {' and '.join(missing)}; `placet` needs none"
            )
        saver = cls(redis, **options)
        await saver.asetup()
        return saver

    async def asetup(self) -> None:
        """Make the indexes, unless they are there; many processes may do so at once."""
        for last in [False] * _SETUPS + [True]:
            try:
                async with _answers():
                    await super().asetup()
            except RedisVLError as error:
                # another process made it after this one had looked
                if last or "already exists" not in str(error):
                    raise
            else:
                return

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
        stream_mode: str = "",  # noqa: ARG002 - the original's name
    ) -> RunnableConfig:
        """Store a checkpoint, with the metadata that its config holds."""
        metadata = get_checkpoint_metadata(config, metadata)
        configurable = {k: v for k, v in config["configurable"].items() if k != TOKEN}
        configurable.setdefault("checkpoint_ns", "")
        plain: RunnableConfig = {"configurable": configurable}
        async with _answers():
            # in its own modes the original stores once more when cancelled: we may have lost the lease
            return await super().aput(plain, checkpoint, metadata, new_versions, stream_mode="none")

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote."""
        async with _answers():
            await super().aput_writes(config, writes, task_id, task_path)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Load a checkpoint.

        Raises:
            UnreadableCheckpoint: when it cannot be made again as it was written.
        """
        async with _answers():
            return await super().aget_tuple(config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """List checkpoints, newest first; loads all of the thread (at most 10,000), whatever the limit.

        The search itself mixes namespaces, refuses most filters and cannot tell what was before.
        """
        configurable = config["configurable"] if config else {}
        place = {name: configurable[name] for name in _PLACE if configurable.get(name) is not None}
        end = get_checkpoint_id(before) if before else None
        whole: RunnableConfig | None = {"configurable": {"thread_id": place["thread_id"]}} if place else None
        if limit is not None and limit <= 0:
            return
        async for found in super().alist(whole):
            at = found.config["configurable"]
            if place.items() <= at.items() and (not end or at["checkpoint_id"] < end):
                if any(found.metadata.get(name) != value for name, value in (filter or {}).items()):
                    continue
                yield found
                if limit is not None and (limit := limit - 1) == 0:
                    return

    async def aprune(self, thread_ids: Sequence[str], **options: Any) -> None:
        """Prune threads, or none."""
        if thread_ids:
            async with _answers():
                await super().aprune(thread_ids, **options)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete all keys of a thread; goes through the names of all keys of the server."""
        async with _answers():
            gone: list[str | bytes] = []
            async for key, namespace, checkpoint_id in self._documents(thread_id):
                registry = self._key_registry
                gone.append(key)
                gone.append(self._make_redis_checkpoint_latest_key(thread_id, namespace))
                if registry is not None:
                    gone.append(registry.make_write_keys_zset_key(thread_id, namespace, checkpoint_id))
            for start in range(0, len(gone), _DELETED_AT_ONCE):
                await self._redis.unlink(*gone[start : start + _DELETED_AT_ONCE])

    async def _documents(self, thread_id: str) -> AsyncIterator[tuple[bytes, str, str]]:
        """Key, namespace and checkpoint id of each checkpoint and write of a thread."""
        fields = ("$.thread_id", "$.checkpoint_ns", "$.checkpoint_id")
        wanted = to_storage_safe_id(thread_id)
        for prefix in (self._checkpoint_prefix, self._checkpoint_write_prefix):
            pattern = re.sub(r"([*?\[\]\\])", r"\\\1", f"{prefix}:{wanted}:") + "*"
            async for key in self._redis.scan_iter(match=pattern, count=1000):
                # a thread's id may begin with another one's: the document knows whose it is
                found: Any = await self._redis.json().get(key, *fields)
                if found and found["$.thread_id"] == [wanted]:
                    namespace, checkpoint_id = (found[field][0] for field in fields[1:])
                    yield key, from_storage_safe_str(namespace), from_storage_safe_id(checkpoint_id)

    def _dump_checkpoint(self, checkpoint: Checkpoint) -> dict[str, Any]:
        values = {name: self._dump(value) for name, value in checkpoint["channel_values"].items()}
        versions = {name: str(version) for name, version in checkpoint["channel_versions"].items()}
        return {**checkpoint, "channel_values": values, "channel_versions": versions, "pending_sends": []}

    def _recursive_deserialize(self, obj: Any) -> Any:
        """What `_dump_checkpoint` made of the values; nothing else comes here."""
        return {name: self._load(value) for name, value in obj.items()}

    def _dump_metadata(self, metadata: CheckpointMetadata) -> str:
        return json.dumps(metadata, default=str).replace("\\u0000", "")

    async def _aload_pending_writes(
        self, thread_id: str, checkpoint_ns: str = "", checkpoint_id: str = ""
    ) -> list[PendingWrite]:
        assert self._key_registry is not None  # noqa: S101 - `asetup` made it
        keys = await self._key_registry.get_write_keys(thread_id, checkpoint_ns, checkpoint_id)
        found: Any = await self._redis.json().mget(keys, "$") if keys else []
        writes = [documents[0] for documents in found if documents]
        writes.sort(key=lambda write: writes_sort_key(write["task_path"], write["task_id"], write["idx"]))
        return [(write["task_id"], write["channel"], self._load(write)) for write in writes]

    async def _abatch_load_pending_writes(
        self, batch_keys: list[tuple[str, str, str]]
    ) -> dict[tuple[str, str, str], list[PendingWrite]]:
        return {key: await self._aload_pending_writes(*key) for key in batch_keys}

    def _dump(self, value: Any) -> dict[str, str]:
        kind, data = self.serde.dumps_typed(value)
        return {"type": kind, "blob": b64encode(data).decode()}

    def _load(self, stored: Any) -> Any:
        if not isinstance(stored, dict) or not {"type", "blob"} <= stored.keys():
            raise UnreadableCheckpoint("it was not written by this checkpointer")
        kind = stored["type"]
        if isinstance(self.serde, EncryptedSerializer) and "+" not in kind:
            # LangGraph's serializer would take it: whoever writes to Redis could forge a checkpoint
            raise UnreadableCheckpoint("it is not encrypted, and a key is set")
        try:
            return self.serde.loads_typed((kind, b64decode(stored["blob"])))
        except ValueError as error:
            raise UnreadableCheckpoint(f"it cannot be decrypted with this key: {error}") from error


@asynccontextmanager
async def _answers() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(CALL_SECONDS):
            yield
    except (RedisError, OSError, RedisVLError) as error:
        if is_outage(error) or is_outage(error.__cause__):
            raise StoreUnavailable(f"Redis: {error}") from error
        raise
