"""What a worker takes from its queues: wake-ups of our shape; whatever else is there is dropped."""

from __future__ import annotations

import json
from queue import Empty
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

import structlog
from celery.worker import loops
from celery.worker.consumer.connection import Connection
from celery.worker.consumer.consumer import Consumer, Evloop
from celery.worker.consumer.tasks import Tasks
from kombu import compression
from redis.exceptions import RedisError

from ..caller_input import checked_id
from ..dispatch import TASKS
from ..errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from kombu import Connection as BrokerConnection
    from kombu import Message

log = structlog.get_logger("placet")

MOST_BYTES = 16_384
"""Of a message's body: one run id and what Celery adds."""


class WakeUpConsumer(Consumer):
    """Celery's consumer without trust in what the broker holds.

    What else Celery would take from there is left out: remote control, gossip and the clocks of other
    workers, by which whoever can write to the broker steers or stops workers, and queues for delays, which
    nothing here uses.
    """

    class Blueprint(Consumer.Blueprint):  # type: ignore[valid-type,misc]  # the stubs have a variable there
        """The steps of a worker that only takes messages."""

        default_steps = (Connection, Tasks, Evloop)

    def __init__(
        self, on_task_request: Any, *, worker_options: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        without = dict.fromkeys(("without_mingle", "without_gossip", "without_heartbeat"), True)
        super().__init__(on_task_request, worker_options={**(worker_options or {}), **without}, **kwargs)

    def loop(self, consumer: Consumer, connection: BrokerConnection, *rest: Any) -> None:
        """Take messages until told to stop; one that fails its parser costs the connection, not the worker.

        RabbitMQ delivers such a message a few times more, and drops it then.
        """
        _guard(connection.default_channel)
        run: Callable[..., None] = loops.asynloop if rest[2] else loops.synloop
        try:
            run(consumer, connection, *rest)
        except (*connection.connection_errors, *connection.channel_errors):
            raise
        except Exception as error:  # noqa: BLE001 - a parser's bug on somebody's bytes may raise anything
            what = type(error).__name__
            log.warning("message.refused", reason=f"cannot be read ({what})")
            raise ConnectionError(f"a message cannot be read ({what})") from None

    def create_task_handler(self, *args: Any, **kwargs: Any) -> Callable[[Message], Any]:
        """Celery's handler, which gets a wake-up made anew: nothing but the run's id is its sender's."""
        take = super().create_task_handler(*args, **kwargs)

        def on_message(message: Any) -> None:
            try:
                task, run_id = wake_up_in(message.headers, message.body)
            except InvalidInput as error:
                _refuse(message, str(error))
                return
            message.headers = {"task": task, "id": str(uuid4())}
            message.body = json.dumps([[run_id], {}, {}])
            message.content_type, message.content_encoding = "application/json", "utf-8"
            take(message)

        return on_message

    def on_decode_error(self, message: Message, exc: Exception) -> None:
        """Drop a message that cannot be unpacked; Celery's own would log its content."""
        _refuse(message, f"cannot be read ({type(exc).__name__})")


def wake_up_in(headers: Any, body: Any) -> tuple[str, str]:
    """The task and the run's id that a message holds, in Celery's protocol 2.

    Raises:
        InvalidInput: when it is none of ours.
    """
    task = headers.get("task")
    if task not in TASKS:
        raise InvalidInput("task", f"must be one of {', '.join(TASKS)}")
    if not isinstance(body, str | bytes) or len(body) > MOST_BYTES:
        raise InvalidInput("body", f"must have at most {MOST_BYTES} bytes")
    try:
        args, kwargs, _ = json.loads(body)
        (run_id,) = args
    except (ValueError, TypeError, RecursionError):
        raise InvalidInput("body", "must be [[run id], {}, {…}] as JSON") from None
    if not isinstance(args, list) or kwargs != {}:
        raise InvalidInput("body", "must be [[run id], {}, {…}] as JSON")
    return task, checked_id("run_id", run_id)


def _refuse(message: Message, reason: str) -> None:
    log.warning("message.refused", reason=reason)
    message.reject()


def _guard(channel: Any) -> None:
    """Where kombu reads Redis's lists itself, drop what is no message at all."""
    handlers = getattr(channel, "handlers", {})
    if (read := handlers.get("BRPOP")) is None:
        return

    def guarded(**options: Any) -> Any:
        try:
            return read(**options)
        except (Empty, OSError, RedisError):
            raise
        except Exception as error:  # noqa: BLE001 - same as above
            log.warning("message.refused", reason=f"cannot be read ({type(error).__name__})")
            return True

    handlers["BRPOP"] = guarded


def _no_compression(_: bytes) -> NoReturn:
    raise ValueError("a wake-up is not compressed")


# kombu unpacks a message before anyone can look at it, however large it becomes
for _name in compression.encoders():
    _found: Any = compression.get_encoder(_name)
    compression.register(_found[0], _no_compression, _name)
