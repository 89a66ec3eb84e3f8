"""Two messages at once on one thread from two processes, on two workers (langgraph#8796)."""

from __future__ import annotations

import asyncio
import json
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fleet import PATIENCE, human, paused, wait_until
from placet.checkpoint import checkpointer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fleet import Fleet
    from placet import Placet, Run

ROUNDS = 100
STRATEGIES = ("enqueue", "reject", "interrupt", "rollback")
TEXTERS = ("left", "right")
SOME = 5
"""Of so many threads one is paused when the messages come."""
pytestmark = pytest.mark.settings(concurrency=64)


class Texter:
    """A process that sends messages."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    def send(self, thread: str, strategy: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{thread} {strategy}\n".encode())

    async def line(self) -> bytes:
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            return await self._process.stdout.readline()

    async def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert await self._process.wait() == 0


@pytest.fixture
async def texters(fleet: Fleet) -> AsyncIterator[list[Texter]]:
    file = Path(__file__).parent / "texter.py"
    env = fleet.env(PYTHONPATH=str(file.parent.parent))
    pipe = asyncio.subprocess.PIPE
    made = [
        Texter(
            await asyncio.create_subprocess_exec(
                sys.executable, str(file), name, stdin=pipe, stdout=pipe, env=env
            )
        )
        for name in TEXTERS
    ]
    for texter in made:
        assert await texter.line() == b"ready\n"
    yield made
    for texter in made:
        await texter.end()


def under_way(thread: str) -> bool:
    """Whether the second message comes when the first one's run has begun: so it is on every other thread."""
    return int(thread.split("-")[1]) % 2 == 1


async def begun(placet: Placet, run_id: str) -> bool:
    return (await placet.get(run_id)).started_at is not None


async def test_two_messages_at_once(fleet: Fleet, placet: Placet, texters: list[Texter]) -> None:
    await fleet.start(2)
    left, right = texters
    threads = [f"{strategy}-{n}" for n in range(ROUNDS) for strategy in STRATEGIES]
    asking = threads[::SOME]
    first = {t: await placet.enqueue("batched", human(f"{t}-first"), thread_id=t) for t in asking}
    asked = {t: await paused(placet, run) for t, run in first.items()}

    told: dict[str, list[list[str]]] = {thread: [] for thread in threads}

    async def send(thread: str, *who: Texter) -> None:
        for texter in who:
            texter.send(thread, thread.split("-", maxsplit=1)[0])
        told[thread] += [json.loads(await texter.line()) for texter in who]

    for thread in threads:
        if under_way(thread) and thread not in first:
            await send(thread, left)
            await wait_until(partial(begun, placet, told[thread][0][1]))
            await send(thread, right)
        else:
            await send(thread, left, right)
    for approvals in asked.values():
        if (await placet.approval(approvals[0].id)).status == "pending":
            decisions = {one.id: {"type": "approve"} for one in approvals}
            await placet.decide_many(decisions, reviewer="ann")

    for thread in threads:
        created = {run_id for what, run_id in told[thread] if what == "enqueued"}
        created |= {first[thread].id} if thread in first else set()
        runs = [await placet.wait(run_id, timeout=PATIENCE) for run_id in created]
        assert {run.id for run in await placet.runs(thread_id=thread)} == created
        check_runs(thread.split("-")[0], runs, told[thread])
        await check_history(placet, thread, runs)
    # requests of runs that were superseded: nothing of them has run
    every = [one for approvals in asked.values() for one in approvals]
    voided = [one for one in every if one.thread_id.startswith(("interrupt", "rollback"))]
    assert {(await placet.approval(one.id)).status for one in voided} == {"superseded"}
    assert len(fleet.effects("pay")) == len(asked) - len({one.thread_id for one in voided})


def in_order(runs: list[Run]) -> list[Run]:
    return sorted((run for run in runs if run.started_at), key=lambda run: run.started_at or run.created_at)


def check_runs(strategy: str, runs: list[Run], told: list[list[str]]) -> None:
    """Each run has the end that its strategy knows, and no two were under way at once."""
    ids = {run.id for run in runs}
    assert all(run_id in ids for _, run_id in told)
    assert (len(runs) < len(told)) <= (strategy == "reject")
    for run in runs:
        if strategy in ("enqueue", "reject"):
            assert run.status == "success", (run.status, run.error)
        elif run.status != "success":
            said = "interrupted by run " if strategy == "interrupt" else "rolled back by run "
            assert (run.status, run.reason.startswith(said)) == ("cancelled", True)
            assert run.reason.removeprefix(said) in ids - {run.id}
    started = in_order(runs)
    for before, after in pairwise(started):
        assert before.ended_at is not None
        assert after.started_at is not None
        assert before.ended_at <= after.started_at
    assert started[-1].status == "success"


async def check_history(placet: Placet, thread: str, runs: list[Run]) -> None:
    """The messages are the runs', in their order; calls have results; no checkpoint has two heirs."""
    messages: list[dict[str, Any]] = (await placet.state(thread))["values"]["messages"]
    for at, message in enumerate(messages):
        calls = [call["id"] for call in message.get("tool_calls", ())]
        results = [one.get("tool_call_id", "") for one in messages[at + 1 : at + 1 + len(calls)]]
        assert sorted(results) == sorted(calls), messages
    started = in_order(runs)
    texts = [run.input["messages"][0]["content"] for run in started]
    said = [message["content"] for message in messages if message["type"] == "human"]
    assert said == [text for text in texts if text in said]
    succeeded = [text for text, run in zip(texts, started, strict=True) if run.status == "success"]
    assert set(succeeded) <= set(said)
    if thread.startswith("rollback"):
        assert said == succeeded
    connection = placet._connection
    async with checkpointer(connection.reader, connection.settings, others_as_data=True) as saver:
        parents = [
            found.parent_config["configurable"]["checkpoint_id"]
            async for found in saver.alist({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
            if found.parent_config
        ]
    assert len(set(parents)) == len(parents)
