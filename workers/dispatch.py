"""Sends wake-ups to Celery without stalling the event loop; the reconciler sends again what fails."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from .logs import logger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from celery import Celery

    from .settings import Settings
    from .state.connection import WakeUp

START_RUN, RESUME_RUN = TASKS = ("placet.start_run", "placet.resume_run")


class Dispatcher:
    """Sends Celery's messages in a thread of its own, in order, in batches.

    Nothing is lost when the broker is away: the store's outbox holds each wake-up until its run is claimed.
    """

    def __init__(self, *, settings: Settings, app: Celery | None = None) -> None:
        self._settings = settings
        self._app = app
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="placet-dispatch")
        self._waiting: deque[WakeUp] = deque()
        self._sending: asyncio.Future[None] | None = None

    def send(self, wake_ups: Sequence[WakeUp]) -> None:
        """Send soon; never blocks and never fails."""
        if not wake_ups:
            return
        self._waiting.extend(wake_ups)
        self._sending = asyncio.get_running_loop().run_in_executor(self._threads, self._send_waiting)

    async def flush(self) -> None:
        """Wait until everything is sent, or found not to be possible now."""
        if self._sending is not None:
            await asyncio.wait([self._sending])

    async def aclose(self) -> None:
        """Send what is waiting, then stop."""
        await self.flush()
        self._threads.shutdown(wait=False)

    def _send_waiting(self) -> None:
        """Send all that waits by now, in the thread; nothing if a call before this one did."""
        batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
        if batch and not self._send(batch):
            self._waiting.clear()  # the broker is away: the rest would only wait for it in turn

    def _send(self, batch: Sequence[WakeUp]) -> bool:
        # imported here, in the thread: a client that only reads never pays for Celery
        from .celery import broker_queue, make_app  # noqa: PLC0415

        wake_up = batch[0]
        try:
            app = self._app = self._app or make_app(self._settings)
            with app.producer_pool.acquire(block=True) as producer:
                for wake_up in batch:
                    task, queue = START_RUN if wake_up.first else RESUME_RUN, wake_up.queue
                    if queue not in app.amqp.queues:
                        app.amqp.queues.add(broker_queue(self._settings, queue))
                    # as `send_task` does, which spends as much on what a worker does not read as on the rest
                    message: Any = ({"task": task, "id": str(uuid4())}, {}, [[wake_up.run_id], {}, {}], None)
                    app.amqp.send_task_message(producer, task, message, queue=queue)
                if self._settings.uses_rabbitmq:
                    # sending into a dead connection tells of no error, an answer tells that it lives: for a
                    # wake-up that is enough, and ten times as fast as to have each one confirmed
                    channel: Any = producer.channel
                    channel.queue_declare(wake_up.queue, passive=True)
        except Exception as error:  # noqa: BLE001 - kombu's transports raise what their clients do
            logger().warning(
                "wakeup.delayed", run_id=wake_up.run_id, error=f"{type(error).__name__}: {error}"
            )
            return False
        return True
