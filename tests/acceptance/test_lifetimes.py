"""Lifetimes, kept by the workers themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fleet import PATIENCE, human, paused, wait_until
from placet.errors import NotFound, ThreadExpired

if TYPE_CHECKING:
    from fleet import Fleet
    from placet import Placet


@pytest.mark.parametrize("backend", ["placet", "langgraph-redis"], indirect=True)
@pytest.mark.settings(runs_keep_seconds=1, thread_ttl_seconds=1, reconcile_seconds=0.1)
async def test_what_has_ended_goes_and_what_waits_stays(fleet: Fleet, placet: Placet) -> None:
    await fleet.start()
    waiting = await placet.enqueue("batched", human("go"), thread_id="waiting")
    asked = await paused(placet, waiting)
    done = await placet.enqueue("plain", human("go"), thread_id="done")
    assert (await placet.wait(done.id, timeout=PATIENCE)).status == "success"

    async def gone() -> bool:
        try:
            await placet.get(done.id)
        except NotFound:
            return True
        return False

    async def expired() -> bool:
        try:
            await placet.state("done")
        except ThreadExpired:
            return True
        return False

    await wait_until(gone)
    await wait_until(expired)
    assert [run.id for run in await placet.runs()] == [waiting.id]
    with pytest.raises(ThreadExpired, match="thread 'done' has expired: use another thread_id"):
        await placet.enqueue("plain", human("again"), thread_id="done")
    await placet.decide_many({one.id: {"type": "approve"} for one in asked}, reviewer="ann")
    assert (await placet.wait(waiting.id, timeout=PATIENCE)).status == "success"
