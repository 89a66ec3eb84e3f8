"""The Celery app: JSON messages that carry a run id and nothing else, through Redis or RabbitMQ."""

from __future__ import annotations

from typing import Any

from celery import Celery
from kombu import Queue

from .settings import Settings

REDIS_TRANSPORT = {
    "socket_keepalive": True,
    "socket_connect_timeout": 2,
    "socket_timeout": 5,
    "health_check_interval": 25,
    "priority_steps": [0],
    # a wake-up that is lost is sent again: kombu's record of what is not acknowledged, two transactions a
    # message, would guard it a second time
    "ack_emulation": False,
}
RABBITMQ_TRANSPORT = {
    "read_timeout": 3,
    "write_timeout": 3,
}
RABBITMQ_QUEUE: dict[str, Any] = {
    "x-queue-type": "quorum",
    # of a message that no worker can read; what is dropped by mistake is sent again
    "x-delivery-limit": 5,
}


def broker_queue(settings: Settings, name: str) -> Queue:
    """A queue as it is to be declared, by everyone alike: RabbitMQ refuses what differs."""
    return Queue(name, queue_arguments=RABBITMQ_QUEUE if settings.uses_rabbitmq else None)


def make_app(settings: Settings) -> Celery:
    """A Celery app for these settings; messages are wake-ups, so they are acknowledged early."""
    app = Celery("placet", broker=settings.broker)
    app.conf.update(
        imports=["placet.worker.tasks"],
        accept_content=["json"],
        task_serializer="json",
        task_ignore_result=True,
        task_acks_late=False,
        task_default_queue=settings.queue_names[0],
        task_queues=[broker_queue(settings, name) for name in settings.queue_names],
        task_create_missing_queues=False,
        # a pooled connection may be of before RabbitMQ's last restart; redis-py looks after its own
        task_publish_retry=settings.uses_rabbitmq,
        task_publish_retry_policy={"max_retries": 1, "interval_start": 0, "interval_step": 0},
        worker_consumer="placet.worker.consumer:WakeUpConsumer",
        worker_pool="threads",
        worker_concurrency=settings.concurrency,
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_cancel_long_running_tasks_on_connection_loss=True,  # what is acknowledged late: nothing here
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_channel_error_retry=True,
        broker_connection_timeout=2,
        broker_heartbeat=30,
        broker_transport_options=_transport_options(settings),
    )
    return app


def _transport_options(settings: Settings) -> dict[str, Any]:
    if settings.uses_rabbitmq:
        return RABBITMQ_TRANSPORT
    return REDIS_TRANSPORT if settings.broker.startswith("redis") else {}


app = make_app(Settings.from_env())
