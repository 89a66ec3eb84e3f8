"""The two brokers as an operator, or an intruder, handles them: look, cut, empty, write what one likes."""

from __future__ import annotations

import json
from base64 import b64encode
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from amqp.exceptions import NotFound
from kombu import Connection
from redis import Redis

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rabbitmq import RabbitMQ

on_both_brokers = pytest.mark.parametrize("broker", ["redis", "rabbitmq"], indirect=True)


class Broker(Protocol):
    """What tests do to a broker."""

    url: str

    def waiting(self, queue: str) -> int:
        """How many messages wait in the queue."""

    def delete(self, queue: str) -> None:
        """Delete the queue with all in it."""

    def empty(self, queue: str) -> None:
        """Lose all that waits in the queue."""

    def cut(self) -> None:
        """Cut every connection."""

    def put(self, queue: str, body: bytes, headers: Any = None, **properties: Any) -> None:
        """Put a message of any kind into the queue."""


class RedisBroker:
    """Queues are lists."""

    def __init__(self, url: str) -> None:
        self.url = url

    def waiting(self, queue: str) -> int:
        with Redis.from_url(self.url) as client:
            return int(client.llen(queue))

    def delete(self, queue: str) -> None:
        with Redis.from_url(self.url) as client:
            client.delete(queue)

    empty = delete

    def cut(self) -> None:
        with Redis.from_url(self.url) as client:
            client.client_kill_filter(_type="normal", skipme=True)

    def put(self, queue: str, body: bytes, headers: Any = None, **properties: Any) -> None:
        content_type = properties.pop("content_type", "application/json")
        envelope = {
            "body": b64encode(body).decode(),
            "content-type": content_type,
            "content-encoding": "utf-8",
            "headers": headers or {},
            "properties": {
                "body_encoding": "base64",
                "delivery_tag": "1",
                "delivery_info": {"exchange": "", "routing_key": queue},
                **properties,
            },
        }
        self.put_raw(queue, json.dumps(envelope).encode())

    def put_raw(self, queue: str, raw: bytes) -> None:
        """Put what need not even be an envelope."""
        with Redis.from_url(self.url) as client:
            client.lpush(queue, raw)


class RabbitBroker:
    """Queues are RabbitMQ's."""

    def __init__(self, server: RabbitMQ) -> None:
        self.url = server.url
        self._server = server

    @contextmanager
    def _channel(self) -> Iterator[Any]:
        with Connection(self.url, transport_options={"confirm_publish": True}) as connection:
            yield connection.default_channel

    def waiting(self, queue: str) -> int:
        with self._channel() as channel:
            try:
                return int(channel.queue_declare(queue, passive=True).message_count)
            except NotFound:  # whoever sends first makes it
                return 0

    def delete(self, queue: str) -> None:
        with self._channel() as channel:
            channel.queue_delete(queue)
            channel.exchange_delete(queue)

    def empty(self, queue: str) -> None:
        with self._channel() as channel:
            channel.queue_purge(queue)

    def declare(self, queue: str, arguments: dict[str, Any]) -> None:
        """Make a durable queue of any kind."""
        with self._channel() as channel:
            channel.queue_declare(queue, durable=True, auto_delete=False, arguments=arguments)

    def cut(self) -> None:
        self._server.close_connections()

    def put(self, queue: str, body: bytes, headers: Any = None, **properties: Any) -> None:
        with self._channel() as channel:
            message = channel.prepare_message(
                body,
                content_type=properties.pop("content_type", "application/json"),
                content_encoding="utf-8",
                headers=headers,
                properties=properties,
            )
            channel.basic_publish(message, exchange="", routing_key=queue)
