"""The agents' long-term memory: LangGraph's store on plain Redis, one script call for a batch."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    PutOp,
    SearchItem,
    SearchOp,
)

from ..errors import InvalidSettings
from ..state.batches import Batches
from ..state.keys import Keys, with_keys
from .codec import Codec, encrypted
from .scripts import call, source
from .serde import CheckpointSerde, parse_allowed_types
from .store_match import fits, matches
from .sync import LoopBound

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.store.base import Op, Result, TTLConfig
    from redis.asyncio import Redis

PAGE = 500
"""Items or namespaces that a filtered search or a listing reads at a time."""
_TIMES = struct.Struct(">ddd")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_END = "\0"
_FOREVER = 2.0**52  # microseconds, 142 years: beyond, a double no longer counts them
_I = TypeVar("_I", bound=Item)


class _Found(NamedTuple):
    """An item as the script gives it."""

    namespace: bytes
    key: bytes
    number: bytes
    packed: bytes


class RedisStore(LoopBound, BaseStore):
    """A LangGraph store on plain Redis 6.2+ or Valkey; usable without Placet's workers.

    Search finds items by namespace, oldest first within one; a `query` is not looked at, as in LangGraph's
    own stores without an index. Without a filter it reads what it returns and no more; with one, all items
    under the prefix until it has enough, a page at a time, for values may be encrypted. Reads of a batch see
    the store as it was before the batch's writes. Expired items are never seen; they are removed when the
    store is next used. Must be made inside a running event loop; synchronous calls from other threads run on
    that loop.

    Args:
        redis: a client with `decode_responses=False`; stays the caller's to close.
        namespace: prefix of all keys.
        ttl: LangGraph's `default_ttl` in minutes, and `refresh_on_read`.
        serde: serializer in place of `CheckpointSerde`.
        encryption_key: AES key of 16, 24 or 32 bytes, for values; namespaces, keys and times stay readable.
        allowed_types: classes that a value may hold: `package.module:Type`, comma-separated.

    Raises:
        InvalidSettings: when one of these cannot be used.
    """

    supports_ttl = True

    def __init__(
        self,
        redis: Redis,
        *,
        namespace: str = "placet",
        ttl: TTLConfig | None = None,
        serde: SerializerProtocol | None = None,
        encryption_key: str | None = None,
        allowed_types: str = "",
    ) -> None:
        if redis.connection_pool.connection_kwargs.get("decode_responses"):
            raise InvalidSettings("the store needs a client with decode_responses=False")
        self.ttl_config = ttl
        serde = serde or CheckpointSerde(allowed_types=parse_allowed_types(allowed_types))
        self._codec = Codec(encrypted(serde, encryption_key)[0] if encryption_key else serde, b"")
        self._prefix = [Keys(namespace).prefix]
        self._batches = Batches(redis)
        self._script = redis.register_script(with_keys(source("store")))
        self._bind()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run `abatch` on the loop of the store, from another thread."""
        return self._run(self.abatch(ops))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations: gets, plain searches and puts in one round trip, together or not at all.

        Raises:
            InvalidNamespaceError: when a label is not a text, or holds a zero byte.
            UnstorableType: when a value would not come back as it is; nothing was written.
            UnreadableCheckpoint: when a value cannot be made again.
            StoreUnavailable: when Redis does not answer.
        """
        ops = list(ops)
        results: list[Result] = [None] * len(ops)
        args: list[Any] = []
        reads: dict[int, GetOp | SearchOp] = {}
        puts: dict[tuple[tuple[str, ...], str], PutOp] = {}
        for at, op in enumerate(ops):
            if isinstance(op, GetOp):
                args += ("get", _path(op.namespace), _text(op.key), int(op.refresh_ttl))
                reads[at] = op
            elif isinstance(op, PutOp):
                puts[op.namespace, op.key] = op
            elif isinstance(op, ListNamespacesOp):
                results[at] = await self._namespaces(op)
            elif op.filter:
                results[at] = await self._filtered(op)
            else:
                args += _scan(op.namespace_prefix, skip=op.offset, count=op.limit, refresh=op.refresh_ttl)
                reads[at] = op
        for put in puts.values():
            args += self._put(put)
        for (at, op), reply in zip(reads.items(), await self._call(args), strict=False):
            if isinstance(op, SearchOp):
                results[at] = [self._item(SearchItem, *_Found(*entry)) for entry in reply]
            elif reply is not None:
                results[at] = self._item(Item, _path(op.namespace), _text(op.key), b"", reply)
        return results

    async def _call(self, args: list[Any]) -> list[Any]:
        reply = None
        while args and reply is None:
            # None: there are more expired items than one call removes
            reply = await call(self._batches, self._script, self._prefix, args)
        return reply or []

    def _put(self, op: PutOp) -> list[Any]:
        at = [_path(op.namespace), _text(op.key)]
        if op.value is None:
            return ["delete", *at]
        microseconds = -1 if op.ttl is None else int(min(max(op.ttl, 0) * 60_000_000, _FOREVER))
        return ["put", *at, microseconds, self._codec.whole(dict(op.value))]

    def _item(self, kind: type[_I], namespace: bytes, key: bytes, _: bytes, packed: bytes) -> _I:
        created, updated, _ttl = _TIMES.unpack_from(packed)
        return kind(
            namespace=_labels(namespace),
            key=key.decode(errors="surrogatepass"),
            value=self._codec.load(packed[_TIMES.size :], iter(())),
            created_at=_EPOCH + timedelta(microseconds=created),
            updated_at=_EPOCH + timedelta(microseconds=updated),
        )

    async def _filtered(self, op: SearchOp) -> list[SearchItem]:
        found: list[SearchItem] = []
        again: list[Any] = []
        skip = op.offset
        if op.limit <= 0:
            return found
        async for entry in self._entries(op.namespace_prefix):
            item = self._item(SearchItem, *entry)
            if not fits(item.value, op.filter or {}):
                continue
            if skip > 0:
                skip -= 1
                continue
            found.append(item)
            if op.refresh_ttl and _TIMES.unpack_from(entry.packed)[2] >= 0:
                again += ("get", entry.namespace, entry.key, 1)
            if len(found) == op.limit:
                break
        await self._call(again)
        return found

    async def _entries(self, prefix: tuple[str, ...]) -> AsyncIterator[_Found]:
        after = (b"", b"")
        while True:
            (page,) = await self._call(_scan(prefix, after=after, count=PAGE))
            for entry in page:
                yield _Found(*entry)
            if len(page) < PAGE:
                return
            after = (page[-1][0], page[-1][2])

    async def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        prefix, after, most = _common_prefix(op), b"", op.offset + op.limit
        found: list[tuple[str, ...]] = []
        while len(found) < most:
            (page,) = await self._call(["namespaces", prefix, after, PAGE])
            for name in page:
                labels = _labels(name)
                # they come in order, so that those with the same beginning follow each other
                if all(matches(labels, one) for one in conditions) and [labels[: op.max_depth]] != found[-1:]:
                    found.append(labels[: op.max_depth])
            if len(page) < PAGE:
                break
            after = page[-1]
        return found[op.offset : most]


def _scan(
    prefix: tuple[str, ...],
    *,
    count: int,
    after: tuple[bytes, bytes] = (b"", b""),
    skip: int = 0,
    refresh: bool = False,
) -> list[Any]:
    return ["scan", _path(prefix), *after, max(skip, 0), max(count, 0), int(refresh)]


def _common_prefix(op: ListNamespacesOp) -> bytes:
    """What every namespace that is looked for begins with."""
    fixed: tuple[str, ...] = ()
    for condition in op.match_conditions or ():
        path = condition.path
        if condition.match_type == "prefix":
            path = path[: path.index("*")] if "*" in path else path
            fixed = max(fixed, path, key=len)
    return _path(fixed)


def _path(namespace: tuple[str, ...]) -> bytes:
    for label in namespace:
        if not isinstance(label, str) or _END in label:
            raise InvalidNamespaceError(f"{label!r} in {namespace}: not a text, or it holds a zero byte")
    return _text("".join(label + _END for label in namespace))


def _labels(path: bytes) -> tuple[str, ...]:
    return tuple(path.decode(errors="surrogatepass").split(_END)[:-1])


def _text(value: object) -> bytes:
    return str(value).encode(errors="surrogatepass")
