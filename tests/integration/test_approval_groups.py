"""Watchers of one group share what happens to requests; nothing is lost with one that dies."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from core import request

from placet.state import approval_stream

if TYPE_CHECKING:
    import pytest
    from core import Core


async def pauses(core: Core, first: int, count: int) -> set[str]:
    names = [f"a{number}" for number in range(first, first + count)]
    for name in names:
        await core.paused(request(name), run_id=f"run-{name}", thread_id=f"thread-{name}")
    return set(names)


async def test_each_request_goes_to_one_member(core: Core) -> None:
    expected = await pauses(core, 0, 5)  # those from before the group are its too
    got: dict[str, list[str]] = {"x": [], "y": []}
    done = asyncio.Event()

    async def watch(name: str) -> None:
        async for approval in core.placet.watch_approvals(group="bots"):
            got[name].append(approval.id)
            if len(got["x"]) + len(got["y"]) == 20:
                done.set()

    watchers = [asyncio.create_task(watch(name)) for name in got]
    expected |= await pauses(core, 5, 15)
    async with asyncio.timeout(20):
        await done.wait()
    for watcher in watchers:
        watcher.cancel()
    await asyncio.wait(watchers)
    assert sorted(got["x"] + got["y"]) == sorted(expected)


async def test_what_a_dead_member_held_goes_to_another(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = await pauses(core, 0, 3)
    async with aclosing(core.placet.watch_approvals(group="bots")) as dying:
        await anext(dying)  # it has read all three, and says of none that it is done
    monkeypatch.setattr(approval_stream, "ABANDONED_MS", 0)
    found: set[str] = set()
    async with asyncio.timeout(20), aclosing(core.placet.watch_approvals(group="bots")) as other:
        async for approval in other:
            found.add(approval.id)
            if found == expected:
                break
