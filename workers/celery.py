"""The Celery app: JSON messages that carry a run id and nothing else."""

from __future__ import annotations

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


def make_app(settings: Settings) -> Celery:
    """A Celery app for these settings; messages are wake-ups, so they are acknowledged early."""
    app = Celery("placet", broker=settings.broker)
    app.conf.update(
        imports=["placet.tasks"],
        accept_content=["json"],
        task_serializer="json",
        task_ignore_result=True,
        task_acks_late=False,
        task_default_queue=settings.queue_names[0],
        task_queues=[Queue(name) for name in settings.queue_names],
        task_create_missing_queues=True,
        task_publish_retry=False,
        worker_pool="threads",
        worker_concurrency=settings.concurrency,
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=True,
        broker_connection_timeout=2,
        broker_transport_options=REDIS_TRANSPORT if settings.broker.startswith("redis") else {},
    )
    return app


app = make_app(Settings.from_env())
