"""Personal data and secrets over a pause, a `kill -9` and a resume: nowhere in Redis, nowhere in the logs."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from redis.asyncio import Redis
from stored import checkpoints, everything

from fleet import AGENTS, PATIENCE, Fleet, human, paused

if TYPE_CHECKING:
    from placet import Placet, Run

MAIL = "jane.roe.4711@example.com"
TOKEN = "xapp-1-A0PIITEST-4711081508-c0ffee"  # noqa: S105 - no one's
HEADER = "Authorization: Bearer pii.Test-4711.c0ffee"
RAW = (MAIL, TOKEN, "pii.Test-4711.c0ffee")
SHOWN = {"to": "[REDACTED_EMAIL]", "token": "****ffee", "header": "Authorization: Bearer ****ffee_2"}
KEY = "a key of 32 bytes, for the tests"
pytestmark = pytest.mark.settings(
    config=str(Path(AGENTS).parent / "pii_langgraph.json"), encryption_key=KEY, lease_seconds=2
)


async def assert_nowhere(fleet: Fleet, *runs: Run) -> None:
    async with Redis.from_url(fleet.settings.redis_url) as redis:
        stored = await everything(redis)
        assert stored
        state = [await checkpoints(redis, fleet.settings, run.thread_id) for run in runs]
    for raw in RAW:
        assert [key for key, held in stored.items() if raw.encode() in held] == []
        assert [text for text in state if raw in text] == []
        assert [worker.log for worker in fleet.workers if raw in worker.log] == []


async def test_a_gated_call_over_a_pause_a_kill_and_a_resume(fleet: Fleet, placet: Placet) -> None:
    """hermes-agent#78032: secrets in arguments are masked in cards and logs; the tool gets the raw ones."""
    (first,) = await fleet.start()
    run = await placet.enqueue("writing", human(f"Write to {MAIL} with {TOKEN}"))
    (asked,) = await paused(placet, run)
    assert asked.args == SHOWN
    await assert_nowhere(fleet, run)
    edited = {"name": "send", "args": {**SHOWN, "header": f"{SHOWN['header']} for {MAIL}"}}
    await placet.decide(
        asked.id, {"type": "edit", "edited_action": edited}, reviewer="ann", seen=asked.digest
    )
    (effect,) = await fleet.started("send")
    given = {"to": MAIL, "token": TOKEN, "header": f"{HEADER} for {MAIL}"}
    assert effect.args == given
    assert "sending to [REDACTED_EMAIL]" in first.log
    first.kill()
    await assert_nowhere(fleet)
    (second,) = await fleet.start()
    (unknown,) = await paused(placet, run)
    assert (unknown.kind, unknown.args["to"], unknown.args["token"]) == (
        "unknown_call",
        SHOWN["to"],
        SHOWN["token"],
    )
    fleet.open_barrier("send")
    await placet.decide(unknown.id, {"type": "approve"}, reviewer="ann")
    run = await placet.wait(run.id, timeout=PATIENCE)
    assert run.status == "success", run.error
    assert [(one.args, one.pid) for one in fleet.effects("send")] == [(given, first.pid), (given, second.pid)]
    text = run.result["messages"][-1]["content"]
    assert text.endswith(
        "sent to [REDACTED_EMAIL] with ****ffee; [REDACTED_EMAIL], Authorization: Bearer ****ffee"
    )
    await assert_nowhere(fleet)  # the state has what the reviewer wrote, encrypted
    assert run.input == human(f"Write to {MAIL} with {TOKEN}")
    assert (await placet.approval(asked.id)).decision == {"type": "edit", "edited_action": edited}
    await assert_streamed(placet, run)


async def assert_streamed(placet: Placet, run: Run) -> None:
    """What the model and the tool streamed is there, masked, in its pieces."""
    events = [event async for event in placet.stream(run.id)]
    pieces = [event.data["message"] for event in events if event.type == "messages"]
    text = "".join(one["content"] for one in pieces)
    assert "I write to [REDACTED_EMAIL] with ****ffee now." in text
    args = "".join(call["args"] for one in pieces for call in one.get("tool_call_chunks", ()))
    assert json.loads(args) == {**SHOWN, "header": "Authorization: Bearer ****ffee"}
    custom = [event.data for event in events if event.type == "custom"]
    assert "".join(piece for piece in custom if isinstance(piece, str)).startswith(
        "writing to [REDACTED_EMAIL] "
    )
    assert {"to": "[REDACTED_EMAIL]", "token": "****ffee"} in custom


ERRORS: dict[str, Any] = {
    "failing": {"type": "ConnectionError", "message": "no route to [REDACTED_EMAIL]", "node": "tools"},
    "failing_model": {
        "type": "ValueError",
        "message": "nobody called [REDACTED_EMAIL], or ****ffee",
        "node": "model",
    },
    "blocked": {
        "type": "PIIDetectionError",
        "message": "Detected 1 instance(s) of email in text content",
        "node": None,
    },
}


async def test_errors_and_questions_name_nobody_and_answers_are_sealed(fleet: Fleet, placet: Placet) -> None:
    """langchain#37659: an answer without text, an address in a call's arguments alone."""
    (worker,) = await fleet.start()
    for agent, error in ERRORS.items():
        run = await placet.enqueue(agent, human(f"I am {MAIL}"))
        run = await placet.wait(run.id, timeout=PATIENCE)
        assert (run.status, run.error) == ("error", error)
        await assert_nowhere(fleet, *([run] if agent == "blocked" else []))
    assert worker.log.count("Traceback (most recent call last)") >= len(ERRORS)
    run = await placet.enqueue("asking", human("go"))
    (asked,) = await paused(placet, run)
    assert (asked.kind, asked.value) == ("question", {"may I use": "[REDACTED_EMAIL]"})
    answer = {"type": "answer", "value": f"rather {MAIL}"}
    await placet.decide(asked.id, answer, reviewer="ann")
    run = await placet.wait(run.id, timeout=PATIENCE)
    assert run.result["messages"][-1]["content"] == "done: rather [REDACTED_EMAIL]"
    await assert_nowhere(fleet)
    assert (await placet.approval(asked.id)).decision == answer


async def test_a_worker_without_the_key_does_not_start(fleet: Fleet) -> None:
    worker = fleet.start_one(PLACET_ENCRYPTION_KEY="")
    assert await worker.ended() != 0
    assert "PLACET_ENCRYPTION_KEY: must be set" in worker.log


async def without_key(fleet: Fleet, *args: str) -> tuple[bytes, bytes]:
    env = fleet.env(PLACET_ENCRYPTION_KEY="")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "placet.cli", *args, env=env, stdout=PIPE, stderr=PIPE
    )
    async with asyncio.timeout(PATIENCE):
        return await process.communicate()


async def test_a_client_without_the_key_is_told_and_so_are_the_workers(fleet: Fleet, placet: Placet) -> None:
    (worker,) = await fleet.start()
    doubt = "workers have a PLACET_ENCRYPTION_KEY, this process has none: what it sends is not sealed"
    out, _ = await without_key(fleet, "doctor", "--json")
    checks = {one["name"]: one for one in map(json.loads, out.splitlines())}
    assert (checks["encryption"]["status"], checks["encryption"]["found"]) == ("warn", doubt)
    out, err = await without_key(fleet, "enqueue", "blocked", "--input", json.dumps(human("hi")), "--json")
    assert json.loads(err) == {"warning": doubt}
    run = await placet.wait(json.loads(out)["id"], timeout=PATIENCE)
    assert run.ended
    assert "run.unsealed" in worker.log
    again = await placet.wait((await placet.enqueue("blocked", human("hi"))).id, timeout=PATIENCE)
    assert again.ended
    assert worker.log.count("run.unsealed") == 1
