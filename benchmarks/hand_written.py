"""The same cycle as most people write it: Celery prefork, langgraph-checkpoint-redis, a list of requests.

Nothing here survives a crash, a second click or a changed deployment; it is what the floor of effort costs.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from agents import APPROVE, INPUT, make_cycle, thread_of
from celery import Celery, signals
from langgraph.checkpoint.redis.aio import AsyncRedisSaver
from langgraph.types import Command
from redis.asyncio import Redis

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PROCESSES = 4
LIST = "hand-written"

app = Celery("hand_written", broker=os.environ.get("HAND_WRITTEN_REDIS"))
app.conf.update(
    task_ignore_result=True, worker_prefetch_multiplier=1, broker_connection_retry_on_startup=True
)
_loop = asyncio.new_event_loop()
_agent: Any = None
_redis: Any = None


@signals.worker_process_init.connect
def _open(**_: object) -> None:
    _loop.run_until_complete(_connect())


async def _connect() -> None:
    global _agent, _redis
    url = os.environ["HAND_WRITTEN_REDIS"]
    _redis, _agent = Redis.from_url(url), make_cycle(AsyncRedisSaver(url))


@app.task(name="start")
def start(thread: str) -> None:
    """Run the agent up to its pause."""
    _loop.run_until_complete(_advance(thread, INPUT))


@app.task(name="resume")
def resume(thread: str) -> None:
    """Run it to its end."""
    _loop.run_until_complete(_advance(thread, Command(resume=APPROVE)))


async def _advance(thread: str, given: Any) -> None:
    result = await _agent.ainvoke(given, thread_of(thread), durability="sync")
    paused = "__interrupt__" in result
    await _redis.rpush(LIST, json.dumps({"thread": thread, "paused": paused}))


class HandWritten:
    """The workers, and a client that approves."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._told: dict[str, asyncio.Queue[bool]] = {}

    @classmethod
    @asynccontextmanager
    async def start(cls, *, redis_url: str, folder: Path) -> AsyncIterator[HandWritten]:
        """Start the workers, and stop them at the end."""
        await AsyncRedisSaver(redis_url).asetup()  # once: several at a time lose a race
        app.conf.update(broker_url=redis_url)
        log = folder / "hand-written.log"
        process = _process(redis_url, log)
        try:
            while " ready." not in log.read_text():
                if process.poll() is not None:
                    raise RuntimeError(log.read_text())
                await asyncio.sleep(0.1)  # another process's log has no other sign
            async with Redis.from_url(redis_url) as redis, asyncio.TaskGroup() as group:
                self = cls(redis)
                reading = group.create_task(self._read())
                yield self
                reading.cancel()
        finally:
            process.terminate()
            process.wait()

    async def _read(self) -> None:
        while True:
            if (row := await self._redis.blpop([LIST], timeout=1)) is not None:
                told = json.loads(row[1])
                self._told[told["thread"]].put_nowait(told["paused"])

    async def cycle(self) -> None:
        """One approval cycle."""
        thread = uuid4().hex
        told = self._told[thread] = asyncio.Queue()
        await asyncio.to_thread(app.send_task, "start", args=[thread])
        if not await told.get():
            raise RuntimeError("it did not pause")
        await asyncio.to_thread(app.send_task, "resume", args=[thread])
        if await told.get():
            raise RuntimeError("it paused again")
        del self._told[thread]


def _process(redis_url: str, log: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "celery", "-A", "hand_written", "worker", "-l", "INFO"]
    command += ["-c", str(PROCESSES), "-n", "hand-written@%h", "--without-gossip", "--without-mingle"]
    env = {**os.environ, "HAND_WRITTEN_REDIS": redis_url}
    with log.open("wb") as out:
        return subprocess.Popen(
            command, cwd=Path(__file__).parent, env=env, stdout=out, stderr=subprocess.STDOUT
        )
