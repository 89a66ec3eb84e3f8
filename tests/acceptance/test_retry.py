"""Retries and fallbacks of real workers that are killed, against models served by `tests/wire.py`."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from wire import Reply, WireServer

from fleet import AGENTS, PATIENCE, human, paused, wait_until
from placet.state.keys import Keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis.asyncio import Redis
    from wire import WireRequest

    from fleet import Fleet
    from placet import Placet, Run

CONFIG = str(AGENTS.with_name("retry_agents.json"))
pytestmark = pytest.mark.settings(lease_seconds=2, config=CONFIG)
BACKING_OFF = ("parked_tool", "waiting_tool", "parked_model", "waiting_model")


@pytest.fixture
def wire() -> Iterator[WireServer]:
    with WireServer([Reply(status=500)]) as server:
        yield server


async def ended(placet: Placet, run: Run, status: str = "success") -> Run:
    run = await placet.wait(run.id, timeout=PATIENCE)
    assert run.status == status, run.error
    return run


async def backs_off(redis: Redis, fleet: Fleet, run: Run) -> bool:
    """Whether the run's first attempt has failed, and that is on record."""
    found = await redis.hgetall(Keys(fleet.settings.namespace)("run_tries", run.id))
    return any(not json.loads(text)["running"] for text in found.values())


async def test_killed_in_backoff_attempts_equal_the_maximum(
    fleet: Fleet, placet: Placet, redis: Redis, wire: WireServer
) -> None:
    (first,) = await fleet.start(PLACET_TEST_WIRE=wire.url)
    runs = {agent: await placet.enqueue(agent, human("go")) for agent in BACKING_OFF}
    for run in runs.values():

        async def has_failed(run: Run = run) -> bool:
            return await backs_off(redis, fleet, run)

        await wait_until(has_failed)

    async def parked() -> bool:
        both = [await placet.get(runs[agent].id) for agent in ("parked_tool", "parked_model")]
        return all(run.status == "pending" and run.wake_at for run in both)

    await wait_until(parked)
    told = {agent: (await placet.get(runs[agent].id)).reason for agent in ("parked_tool", "parked_model")}
    assert told == {"parked_tool": "attempt 2 of 3 at flaky", "parked_model": "attempt 2 of 3 at the model"}
    first.kill()
    await fleet.start(PLACET_TEST_WIRE=wire.url)
    results = {agent: await ended(placet, run) for agent, run in runs.items()}
    assert [len(fleet.effects(name)) for name in ("parked", "waiting")] == [3, 3]
    assert [len(wire.asked(name)) for name in ("parked", "waiting")] == [3, 3]
    assert "after 3 attempts" in results["parked_tool"].result["messages"][-1]["content"]
    # its status is the graph's, as LangChain has it; but the run says what the answer is
    for agent in ("parked_model", "waiting_model"):
        assert results[agent].reason == "the model gave no answer: OpenAIAPIError in 3 attempts"
    assert results["parked_tool"].reason == ""


async def test_a_charge_that_was_not_heard_of_is_not_made_again(
    fleet: Fleet, placet: Placet, wire: WireServer
) -> None:
    """langchain #40688: one effect, outcome unknown. smolagents #2107: no call before `Retry-After`."""
    await fleet.start(PLACET_TEST_WIRE=wire.url)
    unsafe = await placet.enqueue("unsafe", human("go"))
    wire.script = [Reply(status=429, headers={"retry-after": "4"}), Reply("here")]
    limited = await placet.enqueue("limited", human("go"))
    (gate,) = await paused(placet, unsafe)
    await placet.decide(gate.id, {"type": "approve"}, reviewer="ann")

    async def asked() -> Any:
        return [one for one in await placet.approvals() if one.kind == "unknown_call"]

    (question,) = await wait_until(asked)
    assert "charge failed with TimeoutError" in question.description
    assert (await placet.approval(gate.id)).outcome == "unknown"
    assert len(fleet.effects("charge")) == 1
    await placet.decide(question.id, {"type": "reject"}, reviewer="ann")
    await ended(placet, unsafe)
    assert len(fleet.effects("charge")) == 1
    assert (await placet.approval(gate.id)).outcome == "unknown"
    await ended(placet, limited)
    first, second = wire.asked("limited")
    assert second.at - first.at >= 4


# 24 calls at once, before anybody knows; 7 more until the breaker is open
@pytest.mark.settings(concurrency=6, config=CONFIG)
async def test_a_dead_model_is_called_no_more_often_than_the_workers_have_tries(
    fleet: Fleet, placet: Placet, wire: WireServer
) -> None:
    def script(request: WireRequest) -> Reply:
        return Reply(status=500) if request.model == "first" else Reply("here")

    wire.script = script
    await fleet.start(4, PLACET_TEST_WIRE=wire.url)
    runs = await asyncio.gather(*(placet.enqueue("falling_back", human("go")) for _ in range(200)))
    for run in await asyncio.gather(*(ended(placet, run) for run in runs)):
        last = run.result["messages"][-1]
        assert last["response_metadata"]["placet_model"]["model"] == "openai-chat:second"
    assert 8 <= len(wire.asked("first")) <= 8 * 4
    assert len(wire.asked("second")) == 200
