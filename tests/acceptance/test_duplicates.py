"""Every message ten times over: the same work is done as with each sent once."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kombu import Producer

from fleet import PATIENCE, Fleet, human

if TYPE_CHECKING:
    from collections.abc import Iterator

    from placet import Placet, Run

PLUGINS = str(Path(__file__).parent / "plugins")
RUNS = 200


@contextmanager
def repeated(times: int) -> Iterator[None]:
    """As plugins/sitecustomize.py does in the workers, here in the client."""
    send = Producer.publish

    def send_often(*args: Any, **kwargs: Any) -> Any:
        for _ in range(times):
            send(*args, **kwargs)
        return send(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Producer, "publish", send_often)
        yield


async def approved(placet: Placet, run: Run, gate: asyncio.Semaphore) -> None:
    async with gate:
        await placet.wait(run.id, until="pause", timeout=PATIENCE)
        asked = await placet.approvals(run_id=run.id)
        await placet.decide_many({one.id: {"type": "approve"} for one in asked}, reviewer="ann")
        ended = await placet.wait(run.id, timeout=PATIENCE)
        assert (ended.status, ended.segment) == ("success", 2), ended.error


async def effects(fleet: Fleet, times: int) -> Counter[tuple[str, str, str]]:
    """What the tools of 200 runs did, as their log has it."""
    await fleet.start(2, PYTHONPATH=PLUGINS, PLACET_TEST_REPEAT=str(times))
    gate = asyncio.Semaphore(50)
    with repeated(times):
        async with fleet.connect() as placet:
            runs = [await placet.enqueue("batched", human("go")) for _ in range(RUNS)]
            await asyncio.gather(*(approved(placet, run, gate) for run in runs))
    fleet.stop()
    rows = [row for what in ("start", "end") for row in fleet.effects(what=what)]
    return Counter((row.what, row.name, str(row.args)) for row in rows)


async def test_ten_duplicates_of_every_message(redis_url: str, tmp_path: Path) -> None:
    done = []
    for times in (0, 10):
        folder = tmp_path / str(times)
        folder.mkdir()
        fleet = Fleet(redis_url=redis_url, folder=folder, lease_seconds=15, concurrency=50)
        try:
            done.append(await effects(fleet, times))
        finally:
            fleet.stop()
    assert done[0] == done[1]
    assert set(done[0].values()) == {RUNS}
