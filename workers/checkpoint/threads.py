"""Threads in Redis: where each is, who may write there, and deleting, copying and pruning them whole."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from redis.asyncio import BlockingConnectionPool, Redis

from ..errors import Conflict, InvalidInput, InvalidSettings, LeaseLost
from ..state.keys import Keys
from .codec import Codec, encrypted
from .hints import StoredHints
from .layout import name, split
from .scripts import Scripts
from .serde import CheckpointSerde, parse_allowed_types
from .sync import LoopBoundSaver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import timedelta
    from typing import Self

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from .scripts import Fenced

TOKEN = "__placet_token"  # noqa: S105 - a key of `configurable`
"""Where a config carries the fencing token of the lease that its writer holds."""
SAVED = "__placet_saved"
"""Where it carries what the claim of that lease found saved, in a list that the first who reads empties."""
_CONNECTIONS = 32


class Place(NamedTuple):
    """A namespace of a thread, and who writes there."""

    thread_id: Any
    namespace: str
    keys: list[str]
    token: str
    ttl_ms: int

    @property
    def fence(self) -> list[Any]:
        """What every fenced script is given first."""
        return [self.token, self.ttl_ms]

    def config(self, checkpoint_id: str) -> RunnableConfig:
        """Return the config of one of its checkpoints."""
        # a writer's config stays a writer's: LangGraph goes on with what it gets back
        token = {TOKEN: int(self.token)} if self.token else {}
        at = {"thread_id": self.thread_id, "checkpoint_ns": self.namespace, "checkpoint_id": checkpoint_id}
        return {"configurable": at | token}


class ThreadsSaver(LoopBoundSaver):
    """What a checkpointer does with whole threads; `RedisSaver` has its arguments and the rest."""

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
        # the default pool raises when hundreds of runs write at once; this one lets them take turns
        pool = BlockingConnectionPool.from_url(url, max_connections=_CONNECTIONS, socket_timeout=None)
        async with Redis.from_pool(pool) as redis:
            yield cls(redis, **options)

    @property
    def _codec(self) -> Codec:
        # not kept: LangGraph clones the checkpointer and gives the clone another serializer
        return Codec(self.serde, self._secret)

    def _place(self, config: RunnableConfig) -> Place:
        configurable = config["configurable"]
        namespace = name("checkpoint_ns", configurable.get("checkpoint_ns") or "")
        return self._thread(configurable["thread_id"], configurable.get(TOKEN), namespace)

    def _thread(self, thread_id: Any, token: int | None, namespace: str = "") -> Place:
        keys = [self._keys("checkpoint", str(thread_id)), self._keys("lease", str(thread_id))]
        return Place(thread_id, namespace, keys, "" if token is None else str(token), self._ttl_ms)

    async def _write(self, script: Fenced, place: Place, *args: Any, also: Sequence[str] = ()) -> bytes:
        reply: bytes = await self._scripts.run(script, [*place.keys, *also], [*place.fence, *args])
        if reply == b"lost":
            raise LeaseLost(str(place.thread_id))
        return reply

    async def _index(self, place: Place) -> list[tuple[str, str]]:
        """Return namespace and id of a thread's checkpoints."""
        names = await self._scripts.run("index", place.keys[:1], [])
        return list(map(split, names))

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
            LeaseLost: when a thread with such checkpoints has a lease; threads before it are done.
        """
        if not run_ids:
            return
        async for thread_id in self._thread_ids():
            await self.aroll_back(thread_id, run_ids)

    async def aroll_back(self, thread_id: str, run_ids: Sequence[str], *, token: int | None = None) -> None:
        """Delete the checkpoints that these runs made on one thread.

        Raises:
            LeaseLost: when it has some, and a lease of which `token` is not the token.
        """
        await self._write("sweep", self._thread(thread_id, token), "runs", *run_ids)

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
