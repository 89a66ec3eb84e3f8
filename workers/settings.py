"""All settings, from the environment (`PLACET_…`), with their defaults and checks."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from math import inf
from typing import TYPE_CHECKING, get_type_hints
from urllib.parse import urlsplit

from .errors import InvalidSettings
from .named_functions import is_function

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

_LEAST = {
    "concurrency": 1,
    "max_attempts": 1,
    "max_deaths": 1,
    "events_max": 1,
    "lease_seconds": 0.1,
    "reconcile_seconds": 0.05,
    "segment_timeout_seconds": 0,
    "grace_seconds": 0,
    "events_keep_seconds": 0,
    "runs_keep_seconds": 0,
    "thread_ttl_seconds": 0,
    "max_input_bytes": 2,
    "max_messages": 1,
    "max_config_bytes": 2,
    "max_arguments_bytes": 2,
    "max_decision_bytes": 2,
    "max_event_bytes": 1000,
    "max_result_bytes": 2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a process of Placet is told from outside; every field is `PLACET_` and its name in capitals."""

    redis_url: str = "redis://127.0.0.1:6379/0"
    """Where the records are: Redis 6.2+ or Valkey, `noeviction`, append-only file on."""
    broker_url: str = ""
    """Celery's broker: `redis://…`, or `amqp://…` for RabbitMQ; empty means `redis_url`."""
    namespace: str = "placet"
    """Prefix of every key, so that several systems can share a server."""
    config: str = "langgraph.json"
    """Path of the file that lists the agents."""
    queues: str = "placet"
    """Queues a worker consumes, comma-separated."""
    concurrency: int = 200
    """Segments one worker process executes at once."""
    lease_seconds: float = 15.0
    """A thread's lease; renewed at a third of it, taken over when it has run out."""
    max_attempts: int = 5
    """Starts of one segment without progress before the run ends as `error`."""
    segment_timeout_seconds: float = 0.0
    """What one segment may take before its run ends as `timeout`; 0 is without end."""
    max_deaths: int = 10
    """Workers that may die while executing a run, however far it gets, before it ends as `error`."""
    grace_seconds: float = 20.0
    """How long a warm shutdown waits for segments to reach a checkpoint."""
    reconcile_seconds: float = 1.0
    """How often a worker looks for what crashes have left."""
    events_max: int = 10_000
    """Events kept of one run; older ones are trimmed and a reader gets `resync`."""
    events_keep_seconds: float = 86_400.0
    """How long a run's events are kept past its end."""
    runs_keep_seconds: float = 2_592_000.0
    """How long an ended run's records (itself, its events, requests, ledger) are kept; 0: for ever."""
    thread_ttl_seconds: float = 0.0
    """How long a thread's checkpoints are kept past the end of its last run; 0: until they are deleted."""
    max_input_bytes: int = 16 * 1024 * 1024
    """Of a run's input, as JSON."""
    max_messages: int = 10_000
    """Messages in a run's input."""
    max_config_bytes: int = 1024 * 1024
    """Of a run's config, context and metadata, each."""
    max_arguments_bytes: int = 1024 * 1024
    """Of what one approval request shows: a call's arguments, a question; above, the run ends as `error`."""
    max_decision_bytes: int = 1024 * 1024
    """Of one decision: edited arguments, an answer."""
    max_event_bytes: int = 256 * 1024
    """Of one event's data; a larger one is replaced by an event `cut` that says so."""
    max_result_bytes: int = 16 * 1024 * 1024
    """Of a run's result; above, the run ends as `error`, its thread keeps the state."""
    checkpointer: str = "placet"
    """`placet`, `langgraph-redis`, or `package.module:factory` of another (docs/checkpointers.md)."""
    encryption_key: str = ""
    """AES key for checkpoints, the store, inputs, decisions and masked arguments: 16, 24 or 32 characters."""
    allowed_types: str = ""
    """More types a checkpoint may hold, comma-separated `package.module:Type`."""
    build_id: str = ""
    """The deployment's version: a run that paused under it goes on there while it has workers."""
    reviewers: str = ""
    """Who may decide: a YAML file, or `package.module:function` (docs/reviewers.md); empty: anyone."""
    routes: str = ""
    """Which request goes where on chat platforms: a YAML file (docs/bots.md)."""
    log_format: str = "console"
    """`console` or `json`."""

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None, **overrides: object) -> Self:
        """Read the environment; `overrides` that are not None win.

        Raises:
            InvalidSettings: when a value has the wrong type or range; the message names the variable.
        """
        env = os.environ if env is None else env
        hints = get_type_hints(cls)
        values: dict[str, object] = {}
        for field in fields(cls):
            name = f"PLACET_{field.name.upper()}"
            if (override := overrides.pop(field.name, None)) is not None:
                values[field.name] = override
            elif text := env.get(name, "").strip():
                try:
                    values[field.name] = hints[field.name](text)
                except ValueError:
                    kind = "a whole number" if hints[field.name] is int else "a number"
                    raise InvalidSettings(f"{name}: {text!r} is not {kind}") from None
        if overrides:
            raise InvalidSettings(f"unknown setting {min(overrides)!r}")
        settings = cls(**values)  # type: ignore[arg-type]
        settings.check()
        return settings

    def check(self) -> None:
        """Refuse values outside their range.

        Raises:
            InvalidSettings: naming the variable and what would be right.
        """
        for name, least in _LEAST.items():
            if not least <= getattr(self, name) < inf:
                raise InvalidSettings(f"PLACET_{name.upper()}: must be a number of at least {least:g}")
        _check_redis_url(self.redis_url)
        if not self.namespace or any(c in self.namespace for c in "{} \n"):
            raise InvalidSettings("PLACET_NAMESPACE: must not be empty or hold braces or white space")
        if self.encryption_key and len(self.encryption_key.encode()) not in (16, 24, 32):
            raise InvalidSettings(
                "PLACET_ENCRYPTION_KEY: must have 16, 24 or 32 bytes, as from openssl rand -hex 16"
            )
        if self.checkpointer not in ("placet", "langgraph-redis") and not is_function(self.checkpointer):
            raise InvalidSettings(
                "PLACET_CHECKPOINTER: must be placet, langgraph-redis or package.module:factory"
            )
        if self.log_format not in ("console", "json"):
            raise InvalidSettings("PLACET_LOG_FORMAT: must be console or json")
        if not self.queue_names:
            raise InvalidSettings("PLACET_QUEUES: must name at least one queue")

    @property
    def broker(self) -> str:
        """The broker's URL."""
        return self.broker_url or self.redis_url

    @property
    def uses_rabbitmq(self) -> bool:
        """Whether the broker is RabbitMQ."""
        return urlsplit(self.broker).scheme in ("amqp", "amqps", "pyamqp")

    @property
    def queue_names(self) -> tuple[str, ...]:
        """The queues a worker consumes."""
        return tuple(q for q in (part.strip() for part in self.queues.split(",")) if q)


def _check_redis_url(url: str) -> None:
    if not url.startswith(("redis://", "rediss://", "unix://")):
        raise InvalidSettings("PLACET_REDIS_URL: must begin with redis://, rediss:// or unix://")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise InvalidSettings(f"PLACET_REDIS_URL: {error}") from None
    database = parts.path.strip("/")
    if parts.scheme != "unix" and database and not database.isdecimal():
        raise InvalidSettings(f"PLACET_REDIS_URL: the database must be a number, not {database!r}")
