"""`placet doctor`: what a deployment needs, looked at one by one, each with what to do about it."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import socket
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import redis.asyncio
from redis.exceptions import RedisError
from rich.text import Text

from ..approvals.reviewers import Reviewers
from ..errors import InvalidSettings, PlacetError
from ..logs import configure_logs
from ..output import NO_SERVER, STYLES, console, plain, print_json
from ..sealing import seal_of
from ..settings import Settings
from ..state.keys import Keys
from ..state.workers import key_doubt, workers_seen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ..state.workers import WorkerSeen

_TIMEOUT_SECONDS = 5.0
_LEAST_VERSION = (6, 2)
_MOST_NAMES = 10
_NOT_FOUND = 404
"""AMQP's code for a queue that is not there."""
_LIBRARIES = ("placet", "langgraph", "langchain", "celery", "redis")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at; `advice` says what to do unless it is `ok`."""

    name: str
    status: Literal["ok", "warn", "fail"]
    found: str
    advice: str = ""


async def examine(*, as_json: bool, worker: bool = False, agent: str | None = None) -> int:
    """Print all checks of the environment, or only those of `worker` or `agent`; 1 if one fails, else 0."""
    failed = False
    screen = console()
    async for check in _asked(worker=worker, agent=agent):
        failed = failed or check.status == "fail"
        if as_json:
            print_json(asdict(check))
            continue
        line = Text(f"{check.status:<5}", style=STYLES[check.status])
        line.append(f"{check.name:<12} {plain(check.found)}", style="default")
        screen.print(line, soft_wrap=True)
        if check.advice:
            screen.print(Text(f"{'':18}-> {plain(check.advice)}"), soft_wrap=True)
    return int(failed)


def _asked(*, worker: bool, agent: str | None) -> AsyncIterator[Check]:
    if agent is not None:
        from .doctor_stack import stack_checks  # noqa: PLC0415 - it stands on this module

        return stack_checks(agent)
    return _worker_here() if worker else _checks()


async def _checks() -> AsyncIterator[Check]:
    try:
        settings = Settings.from_env()
    except InvalidSettings as error:
        yield Check(name="settings", status="fail", found=str(error), advice="nothing starts like this")
        yield _libraries()
        return
    configure_logs(settings)
    async with _client(settings) as client:
        try:
            info = await client.info()
        except (RedisError, OSError) as error:
            yield Check(
                name="server",
                status="fail",
                found=f"{_without_password(settings.redis_url)}: {error}",
                advice=NO_SERVER,
            )
        else:
            yield _version(settings, info)
            yield await _eviction(client, info)
            yield _persistence(info)
            seen = await workers_seen(client, Keys(settings.namespace))
            yield _workers(seen, settings)
            if doubt := _key_doubt(seen, settings):
                yield doubt
            if lost := sorted({span for one in seen for span in one.writes_lost}):
                yield _writes_lost(lost)
            if waiting := await _unmatched(client, settings):
                yield waiting
    if settings.reviewers:
        yield _reviewers(settings)
    if settings.checkpointer != "placet":
        yield await _checkpointer(settings)
    yield await asyncio.to_thread(_broker, settings)
    yield await _agents(settings)
    yield _libraries()


async def _worker_here() -> AsyncIterator[Check]:
    """A health check that loads no agents: the machine's worker, as others see it in the store."""
    try:
        settings = Settings.from_env()
        async with _client(settings) as client:
            seen = await workers_seen(client, Keys(settings.namespace))
    except (InvalidSettings, RedisError, OSError) as error:
        yield Check(name="worker", status="fail", found=str(error))
        return
    here = [one for one in seen if one.id.startswith(f"{socket.gethostname()}:")]
    alive = [one.id for one in here if one.alive(reconcile_seconds=settings.reconcile_seconds)]
    if alive:
        yield Check(name="worker", status="ok", found=f"alive: {_some(alive)}")
    else:
        yield Check(name="worker", status="fail", found=f"none alive on {socket.gethostname()}")


def _client(settings: Settings) -> redis.asyncio.Redis:
    return redis.asyncio.from_url(
        settings.redis_url,
        socket_connect_timeout=_TIMEOUT_SECONDS,
        socket_timeout=_TIMEOUT_SECONDS,
    )


def _reviewers(settings: Settings) -> Check:
    try:
        Reviewers(settings.reviewers).check()
    except InvalidSettings as error:
        advice = "nobody can decide anything like this"
        return Check(name="reviewers", status="fail", found=str(error), advice=advice)
    return Check(name="reviewers", status="ok", found=f"as {settings.reviewers} says")


def _version(settings: Settings, info: dict[str, Any]) -> Check:
    text = str(info.get("valkey_version") or info.get("redis_version", "0"))
    kind = "Valkey" if "valkey_version" in info else "Redis"
    version = tuple(int(part) for part in text.split(".")[:2] if part.isdigit())
    found = f"{kind} {text} at {_without_password(settings.redis_url)}"
    if version < _LEAST_VERSION:
        return Check(name="server", status="fail", found=found, advice="Redis 6.2 or later is needed")
    return Check(name="server", status="ok", found=found)


async def _eviction(client: redis.asyncio.Redis, info: dict[str, Any]) -> Check:
    policy = info.get("maxmemory_policy")
    with contextlib.suppress(RedisError):  # hosted servers often forbid CONFIG
        policy = (await client.config_get("maxmemory-policy")).get("maxmemory-policy", policy)
    if policy == "noeviction":
        return Check(name="eviction", status="ok", found="noeviction")
    if policy is None:
        return Check(
            name="eviction", status="warn", found="unknown", advice="make sure that it is noeviction"
        )
    return Check(
        name="eviction",
        status="fail",
        found=str(policy),
        advice="the server may drop runs when memory is short: set maxmemory-policy noeviction",
    )


def _persistence(info: dict[str, Any]) -> Check:
    if info.get("aof_enabled") == 1:
        if info.get("aof_last_write_status", "ok") != "ok":
            return Check(
                name="persistence",
                status="fail",
                found="the last write of the append-only file failed",
                advice="look at the server's log and disk",
            )
        return Check(name="persistence", status="ok", found="append-only file")
    return Check(
        name="persistence",
        status="warn",
        found="no append-only file",
        advice="a restart of the server loses runs and decisions: set appendonly yes",
    )


def _writes_lost(spans: list[tuple[str, str]]) -> Check:
    found = ", ".join(f"{since or 'the beginning'} to {until}" for since, until in spans)
    return Check(
        name="writes",
        status="warn",
        found=f"the server lost what was written from {found}",
        advice="a failover or a restart: runs, decisions and effects of that time may be missing here",
    )


def _workers(seen: list[WorkerSeen], settings: Settings) -> Check:
    alive = [one for one in seen if one.alive(reconcile_seconds=settings.reconcile_seconds)]
    found = f"{len(alive)} alive: {_some([one.id for one in alive])}" if alive else "none alive"
    if gone := [f"{one.id} (last seen {one.seconds_ago:.0f} s ago)" for one in seen if one not in alive]:
        found += f"; gone: {_some(gone)}"
    if alive:
        return Check(name="workers", status="ok", found=found)
    advice = "start one: placet worker (or placet dev on your own machine)"
    return Check(name="workers", status="warn", found=found, advice=advice)


def _key_doubt(seen: list[WorkerSeen], settings: Settings) -> Check | None:
    alive = [one for one in seen if one.alive(reconcile_seconds=settings.reconcile_seconds)]
    if not (found := key_doubt(alive, seal_of(settings.encryption_key))):
        return None
    advice = "give clients, reviewers and workers the same PLACET_ENCRYPTION_KEY"
    return Check(name="encryption", status="warn", found=found, advice=advice)


async def _unmatched(client: redis.asyncio.Redis, settings: Settings) -> Check | None:
    keys = Keys(settings.namespace)
    counts = [await client.zcard(keys("unmatched", queue)) for queue in settings.queue_names]
    if not sum(counts):
        return None
    advice = "placet runs show says why; start workers with a graph that fits (docs/deploys.md), or cancel"
    found = f"{sum(counts)} waiting for another deployment"
    return Check(name="runs", status="warn", found=found, advice=advice)


def _some(names: list[str]) -> str:
    rest = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def _broker(settings: Settings) -> Check:
    from ..celery import broker_queue, make_app  # noqa: PLC0415 - heavy, and only needed here

    where = _without_password(settings.broker)
    advice = "start it, or set PLACET_BROKER_URL; runs are kept but start only when it is back"
    queues = []
    try:
        with make_app(settings).connection_for_read() as connection:
            connection.ensure_connection(max_retries=1, timeout=int(_TIMEOUT_SECONDS))
            for name in settings.queue_names:
                # a channel each: RabbitMQ closes the one on which it refuses something
                channel: Any = connection.channel()
                try:  # passive: to ask in the other way makes it
                    state = channel.queue_declare(name, passive=settings.uses_rabbitmq)
                except connection.channel_errors as error:
                    if getattr(error, "code", None) != _NOT_FOUND:
                        raise
                    queues.append(f"{name} not there yet")
                    continue
                queues.append(f"{name} {state.message_count} waiting")
                advice = f"delete the queue {name}: it holds only wake-ups, which are sent again"
                broker_queue(settings, name).bind(channel).queue_declare()
    except Exception as error:  # noqa: BLE001 - each of kombu's transports raises its own
        return Check(name="broker", status="fail", found=f"{where}: {error}", advice=advice)
    return Check(name="broker", status="ok", found=f"{where}: {', '.join(queues)}")


async def _checkpointer(settings: Settings) -> Check:
    from ..checkpoint import checkpointer  # noqa: PLC0415 - loads langgraph

    async with redis.asyncio.from_url(settings.redis_url, socket_connect_timeout=_TIMEOUT_SECONDS) as client:
        try:
            async with checkpointer(client, settings):
                return Check(name="checkpointer", status="ok", found=settings.checkpointer)
        except PlacetError as error:
            advice = "no worker starts like this; docs/checkpointers.md says which to choose"
            return Check(name="checkpointer", status="fail", found=str(error), advice=advice)


async def _agents(settings: Settings) -> Check:
    from ..agents.graphs import Agents  # noqa: PLC0415, I001 - loads langgraph, its strict mode set, and the user's code
    from langgraph.checkpoint.memory import InMemorySaver  # noqa: PLC0415

    try:
        with contextlib.redirect_stdout(sys.stderr):  # the user's modules may print
            names = (await Agents.load(settings, checkpointer=InMemorySaver())).names
    except PlacetError as error:
        return Check(name="agents", status="fail", found=str(error), advice="no worker starts like this")
    return Check(name="agents", status="ok", found=f"{', '.join(names)} in {settings.config}")


def _libraries() -> Check:
    found = [f"Python {sys.version.split()[0]}"]
    found += [f"{name} {importlib.metadata.version(name)}" for name in _LIBRARIES]
    return Check(name="versions", status="ok", found=", ".join(found))


def _without_password(url: str) -> str:
    head, at, tail = url.rpartition("@")
    if not at:
        return url
    scheme, _, login = head.partition("://")
    user = login.split(":")[0]
    return f"{scheme}://{user}:***@{tail}" if ":" in login else url
