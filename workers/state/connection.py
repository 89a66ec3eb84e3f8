"""The connection to Redis and the scripts that run there."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from redis import exceptions
from redis.asyncio import BlockingConnectionPool, ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from placet.middleware.shared.counts import GRACE_MS

from ..checkpoint import scripts as checkpoint_scripts
from ..errors import LeaseLost, NotConnected
from ..sealing import seal_of
from .batches import Batches
from .keys import Keys, with_keys
from .outages import outages
from .workers import alive_seconds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Sequence

    from redis.commands.core import AsyncScript

    from ..settings import Settings

ASK_AGAIN_MS = 600_000
"""When a fleet whose graph did not fit a run is asked again: a fingerprint does not show everything."""
RESEND_MS = 3_000
"""How long a wake-up may stay unclaimed before it is sent again; doubled each time."""
READ_RETRIES = 5
"""Of a read and, within each, of the connection: some 8 s in all before the store counts as away."""
READ_SECONDS = 15
"""What a read may take, its repetitions and its waiting for something to read included."""
NO_LIMIT = 2**31
SHARED = ("records", "deployments", "ledger", "counts", "ends")
"""The files in `lua/shared/` that every script begins with, each standing on those before it."""
SUSPECT_MS = 600_000
"""How long a run that has outlived a worker is kept from others like it, in each segment."""
APPROVALS_STREAM_MAX = 100_000
STOPS_MAX = 1_000
TOMBSTONE_SECONDS = 30 * 86_400

Text = str | bytes | int | float
PAGE = 200
_LAST_MOMENT = 253_370_764_800
"""The year 9999, in seconds: Python's times end there."""


@dataclass(frozen=True, slots=True)
class WakeUp:
    """A run that became claimable: its message to Celery is to be sent, to `queue`."""

    run_id: str
    queue: str
    first: bool
    """Whether no segment of it has been started."""


def wake_ups(reply: list[Any]) -> list[WakeUp]:
    """The wake-ups that a script's reply ends with."""
    return [WakeUp(run.decode(), queue.decode(), segment == b"0") for run, queue, segment in reply[-1]]


def moment(milliseconds: str | bytes) -> datetime:
    """The server's milliseconds as a time in UTC, at most the year 9999."""
    return datetime.fromtimestamp(min(float(milliseconds) / 1000, _LAST_MOMENT), tz=UTC)


class Connection:
    """Redis, the key names of one namespace and its scripts; one for a process's event loop."""

    def __init__(self, *, redis: Redis, reader: Redis, blocking: Redis, settings: Settings) -> None:
        self._redis = redis
        self._reader = reader
        self._blocking = blocking
        self._once, self._repeated = Batches(redis), Batches(reader)
        self._pid = os.getpid()
        self._closed = False
        self.settings = settings
        self.seal = seal_of(settings.encryption_key)
        self.keys = Keys(settings.namespace)
        self._constants = _constants(settings)
        self._scripts: dict[str, AsyncScript] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings) -> AsyncIterator[Connection]:
        """Connect lazily; closing it closes every connection."""
        options: dict[str, Any] = {
            # with one, redis-py sends under `wait_for`, which on Python 3.11 loses a cancellation that comes
            # as the send completes; each call has its own time limit instead
            "socket_timeout": None,
            "socket_connect_timeout": 2,
            "socket_keepalive": True,
            "health_check_interval": 25,
        }
        again: dict[str, Any] = {"retry": Retry(ExponentialBackoff(cap=1, base=0.05), READ_RETRIES)}
        # a plain pool raises when more coroutines than connections call at once; this one lets them wait
        pools: list[ConnectionPool] = [
            BlockingConnectionPool.from_url(
                settings.redis_url, max_connections=50, timeout=10, **options, **retry
            )
            for retry in ({}, again)
        ]
        # as many as there are readers: the default limit of redis-py is 100
        pools.append(
            ConnectionPool.from_url(settings.redis_url, max_connections=NO_LIMIT, **options, **again)
        )
        redis, reader, blocking = (Redis(connection_pool=pool) for pool in pools)
        connection = cls(redis=redis, reader=reader, blocking=blocking, settings=settings)
        try:
            yield connection
        finally:
            connection._closed = True
            # the sockets of a forked process are its parent's too
            open_here = () if connection.forked else zip((redis, reader, blocking), pools, strict=True)
            for client, pool in open_here:
                await client.aclose()
                await pool.disconnect()

    @property
    def redis(self) -> Redis:
        """For what changes something: sent once, for nobody can tell whether a lost reply was a success."""
        return self._usable(self._redis)

    @property
    def reader(self) -> Redis:
        """For reads, and writes that may happen twice: repeated for some seconds while the server is away."""
        return self._usable(self._reader)

    @property
    def blocking(self) -> Redis:
        """As `reader`, for blocking reads, which each hold a connection."""
        return self._usable(self._blocking)

    @property
    def forked(self) -> bool:
        """Whether this is another process than the one that connected."""
        return os.getpid() != self._pid

    @property
    def _name(self) -> str:
        return f"Redis at {_shown(self.settings.redis_url)}"

    def _usable(self, client: Redis) -> Redis:
        """Let a client through while it may be used: closed, it would connect again by itself."""
        if self.forked:
            raise NotConnected("this connection was opened in another process: connect after the fork")
        if self._closed:
            raise NotConnected("this connection is closed: connect again")
        return client

    async def run(self, name: str, *args: Text, again: bool = False) -> list[Any]:
        """Run the script `lua/NAME.lua`; its reply is a list, with bytes for text.

        `again` says that it may be sent again when the connection is cut: a second time changes nothing, or
        is refused.

        Raises:
            LeaseLost: when the script found that the caller's fencing token is not the thread's.
            StoreUnavailable: when Redis does not answer or refuses to write.
        """
        script = self._scripts.get(name)
        if script is None:
            script = self._redis.register_script(self._constants + _source(name))
            self._scripts[name] = script
        self._usable(self._redis)
        calls = self._repeated if again else self._once
        try:
            with outages(self._name):
                reply: list[Any] = await calls.call(script, [self.keys.prefix], args)
        except exceptions.ResponseError as error:
            if str(error).startswith("FENCED"):
                raise LeaseLost(str(error).removeprefix("FENCED ")) from None
            raise
        return reply

    async def read(self, command: Awaitable[Any]) -> Any:
        """Await a plain read; its replies hold bytes, never text (redis-py's types allow either).

        Raises:
            StoreUnavailable: when Redis does not answer.
        """
        with outages(self._name):
            async with asyncio.timeout(READ_SECONDS):
                return await command

    async def records(
        self, index: str, kind: str, fields: Sequence[str] = ()
    ) -> AsyncIterator[dict[bytes, bytes]]:
        """Read the hashes that a sorted set lists, or `fields` of them, highest score first, by pages."""
        names = [name.encode() for name in fields]
        # pages by score: by rank, a member that leaves meanwhile would move another past the reader
        bound: float | str = "+inf"
        at_bound: set[bytes] = set()
        while True:
            count = PAGE + len(at_bound)
            page = await self.read(
                self.reader.zrevrangebyscore(index, bound, "-inf", start=0, num=count, withscores=True)
            )
            pipeline = self.reader.pipeline(transaction=False)
            for key, _ in page:
                if key in at_bound:
                    continue
                if fields:
                    pipeline.hmget(self.keys(kind, key.decode()), names)
                else:
                    pipeline.hgetall(self.keys(kind, key.decode()))
            for reply in await self.read(pipeline.execute()):
                record = reply
                if fields:
                    found = zip(names, reply, strict=True)
                    record = {name: value for name, value in found if value is not None}
                if record:
                    yield record
            if len(page) < count:
                return
            last = page[-1][1]
            at_bound = {key for key, score in page if score == last}
            bound = last


@cache
def _source(name: str) -> str:
    folder = files(__package__) / "lua"
    shared = [(folder / "shared" / f"{part}.lua").read_text() for part in SHARED]
    if name == "claim":  # it reads the thread's checkpoint, too
        shared.append(checkpoint_scripts.source(*checkpoint_scripts.SAVED))
    return with_keys("\n".join((*shared, (folder / f"{name}.lua").read_text())))


def _constants(settings: Settings) -> str:
    values = {
        "EVENTS_MAX": settings.events_max,
        "EVENTS_KEEP_SECONDS": max(1, int(settings.events_keep_seconds)),
        "APPROVALS_STREAM_MAX": APPROVALS_STREAM_MAX,
        "STOPS_MAX": STOPS_MAX,
        "RESEND_MS": RESEND_MS,
        "SUSPECT_MS": SUSPECT_MS,
        "ASK_AGAIN_MS": ASK_AGAIN_MS,
        "ALIVE_MS": int(alive_seconds(settings.reconcile_seconds) * 1000),
        "TOMBSTONE_SECONDS": TOMBSTONE_SECONDS,
        "GRACE_MS": GRACE_MS,
    }
    return "".join(f"local {name} = {value}\n" for name, value in values.items())


def _shown(url: str) -> str:
    """A URL without its password."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
