"""What a claim finds saved of its thread, and the segment that begins with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from core import Core, request
from langgraph.checkpoint.conformance.test_utils import generate_checkpoint, generate_metadata

from placet.checkpoint.saver import SAVED, TOKEN, RedisSaver

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from placet.state.leases import Claim


@pytest.fixture
async def saver(core: Core) -> RedisSaver:
    return RedisSaver(core.redis, namespace=core.connection.settings.namespace)


def at(claim: Claim, **more: Any) -> RunnableConfig:
    return {
        "configurable": {"thread_id": "t1", "checkpoint_ns": "", TOKEN: claim.token, **more},
        "metadata": {"run_id": claim.run.id},
    }


async def save(saver: RedisSaver, claim: Claim, values: dict[str, Any]) -> None:
    """A checkpoint with a pending write."""
    versions: Any = dict.fromkeys(values, str(values["a"]))
    checkpoint = generate_checkpoint(channel_values=values, channel_versions=versions)
    config = await saver.aput(at(claim), checkpoint, generate_metadata(), versions)
    await saver.aput_writes(config, [("a", "written")], "task")


async def test_a_claim_finds_what_is_saved(core: Core, saver: RedisSaver) -> None:
    await core.enqueue()
    claim = await core.claim()
    assert await saver.aget_tuple(at(claim, **{SAVED: list(claim.saved)})) is None
    await save(saver, claim, {"a": 1, "messages": [{"text": "x" * 100}, {"text": "y" * 100}]})
    await core.pause(claim, request("a1"))
    await core.decide("a1")

    claim = await core.claim()
    config = at(claim, **{SAVED: list(claim.saved)})
    found = await saver.aget_tuple(config)

    assert found is not None
    assert found.checkpoint["channel_values"]["messages"][1] == {"text": "y" * 100}
    assert found.pending_writes == [("task", "a", "written")]
    assert found == await saver.aget_tuple(at(claim))


async def test_it_is_read_once(core: Core, saver: RedisSaver) -> None:
    await core.enqueue()
    claim = await core.claim()
    config = at(claim, **{SAVED: list(claim.saved)})
    assert await saver.aget_tuple(config) is None

    await save(saver, claim, {"a": 2})

    found = await saver.aget_tuple(config)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"a": 2}


async def test_it_is_the_threads_latest_alone(core: Core, saver: RedisSaver) -> None:
    await core.enqueue()
    claim = await core.claim()
    await save(saver, claim, {"a": 1})
    first = await saver.aget_tuple(at(claim))
    assert first is not None
    await save(saver, claim, {"a": 2})
    await core.leases.give_back(claim, reason="worker stops", count_attempt=False)
    claim = await core.claim()
    saved = list(claim.saved)

    by_id = await saver.aget_tuple(at(claim, checkpoint_id=first.checkpoint["id"], **{SAVED: saved}))
    inside = await saver.aget_tuple(at(claim, checkpoint_ns="tools:1", **{SAVED: saved}))

    assert by_id is not None
    assert (by_id.checkpoint, inside, len(saved)) == (first.checkpoint, None, 1)


@pytest.mark.parametrize("strategy", ["enqueue", "rollback"])
async def test_what_is_to_be_mended_first_is_read_afterwards(
    core: Core, saver: RedisSaver, strategy: str
) -> None:
    await core.enqueue("r1")
    claim = await core.claim("r1")
    await save(saver, claim, {"a": 1})
    if strategy == "enqueue":
        await core.fail(claim)
    else:
        await core.pause(claim, request("a1"))
    await core.enqueue("r2", multitask_strategy=strategy)

    claim = await core.claim("r2")

    assert bool(claim.repair or claim.rollback)
    assert claim.saved == ()
