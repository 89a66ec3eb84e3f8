from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest
from core import open_core, request

from placet.errors import InvalidInput, WaitTimeout

if TYPE_CHECKING:
    from core import Core

    from placet import Event
    from placet.client import Until

UNTIL_READY = 10


async def collect(core: Core, *, after: int | None = None, until: Until = "end") -> list[Event]:
    async with asyncio.timeout(UNTIL_READY):
        return [event async for event in core.placet.stream("r1", after=after, until=until)]


async def test_events_are_numbered_without_gaps_over_all_pauses(core: Core) -> None:
    reading = asyncio.create_task(collect_when_there(core))
    await core.paused(request())
    await core.placet.decide("a1", {"type": "approve"}, reviewer="alice")
    claim = await core.claim()
    batch = [("custom", "a|b", json.dumps({"n": n})) for n in range(300)]
    await core.leases.append(claim, batch, batch=1)
    await core.finish(claim)

    events = await reading
    assert [event.id for event in events] == list(range(1, len(events) + 1))
    assert [event.type for event in events if event.type != "custom"] == [
        "run.enqueued",
        "run.started",
        "run.interrupted",
        "approval.decided",
        "run.resumed",
        "run.ended",
    ]
    assert [event.data["n"] for event in events if event.type == "custom"] == list(range(300))
    assert {event.ns for event in events if event.type == "custom"} == {("a", "b")}
    assert await collect(core) == events
    assert await collect(core, after=4) == events[4:]
    assert await collect(core, after=events[-1].id) == []
    assert await collect(core, after=10_000) == []


async def collect_when_there(core: Core) -> list[Event]:
    while not await core.redis.exists(core.connection.keys("run", "r1")):  # noqa: ASYNC110
        await asyncio.sleep(0)
    return await collect(core)


async def test_a_stream_ends_at_the_pause_that_the_run_stands_at(core: Core) -> None:
    await core.paused(request("a1", "i", count=2), request("a2", "i", index=1, count=2))
    assert [event.type for event in await collect(core, until="pause")][-1] == "run.interrupted"
    await core.decide("a1")
    events = await collect(core, until="pause")
    assert [event.type for event in events][-2:] == ["run.interrupted", "approval.decided"]

    await core.decide("a2")
    reading = asyncio.create_task(collect(core, after=events[-1].id, until="pause"))
    await core.pause(await core.claim(), request("a3"))
    assert [event.type for event in await reading] == ["approval.decided", "run.resumed", "run.interrupted"]


async def test_a_waiting_runs_events_take_no_more_room_than_they_need(core: Core) -> None:
    """Redis gives a stream 4 KB at once; a reader that waits meanwhile misses nothing."""
    await core.enqueue()
    claim = await core.claim()
    position = (await core.placet.get("r1")).last_event
    reading = asyncio.create_task(core.events.after("r1", position, block_ms=UNTIL_READY * 1000))
    await core.pause(claim, request())
    assert [event.type for event in await reading] == ["run.interrupted"]
    assert await core.redis.memory_usage(core.connection.keys("run_events", "r1")) < 1500
    assert [event.id for event in await collect(core, until="pause")] == [1, 2, 3]


async def test_a_retried_runs_stream_goes_past_its_first_end(core: Core) -> None:
    await core.enqueue()
    await core.fail(await core.claim())
    await core.placet.retry("r1")
    reading = asyncio.create_task(collect(core))
    await core.finish(await core.claim())

    assert [event.type for event in await reading].count("run.ended") == 2


async def test_a_reader_that_was_trimmed_is_told_first(redis_url: str) -> None:
    async with open_core(redis_url, events_max=10) as core:
        await core.enqueue()
        claim = await core.claim()
        for number in range(5):
            await core.leases.append(claim, [("custom", "", "1")] * 100, batch=number)
        await core.finish(claim)
        last = (await core.placet.get("r1")).last_event
        assert last == 503

        for after in (None, 3, 200):
            events = await collect(core, after=after)
            assert events[0].type == "resync"
            assert events[0].data == {"missed": events[0].id - (after or 0)}
            assert [event.id for event in events] == list(range(events[0].id, last + 1))
        assert [event.type for event in await collect(core, after=last - 2)] == ["custom", "run.ended"]


async def test_a_stream_that_has_expired_is_told(core: Core) -> None:
    await core.enqueue()
    await core.finish(await core.claim())
    await core.redis.delete(core.connection.keys("run_events", "r1"))

    (event,) = await collect(core)
    assert (event.type, event.id, event.data) == ("resync", 3, {"missed": 3})
    assert await collect(core, after=3) == []


async def test_numbers_go_on_when_an_expired_runs_is_retried(core: Core) -> None:
    await core.enqueue()
    await core.fail(await core.claim())
    await core.redis.delete(core.connection.keys("run_events", "r1"))
    await core.placet.retry("r1")
    await core.finish(await core.claim())

    events = await collect(core)
    assert [event.type for event in events] == ["resync", "run.retried", "run.resumed", "run.ended"]
    assert [event.id for event in events] == [3, 4, 5, 6]


async def test_events_of_a_lost_lease_are_refused(core: Core) -> None:
    await core.enqueue()
    lost = await core.claim()
    await core.expire_lease()
    await core.look()
    await core.stale(lost)

    assert [kind for kind, _ in await core.told()] == ["run.enqueued", "run.started", "run.recovered"]


async def test_wait_returns_at_a_pause_and_at_the_end(core: Core) -> None:
    await core.enqueue()
    pause = asyncio.create_task(core.placet.wait("r1", until="pause", timeout=UNTIL_READY))
    end = asyncio.create_task(core.placet.wait("r1", timeout=UNTIL_READY))
    await core.pause(await core.claim(), request())

    assert (await pause).status == "interrupted"
    assert not end.done()
    await core.decide("a1")
    await core.finish(await core.claim())
    assert (await end).result == {"done": True}
    assert (await core.placet.wait("r1", until="pause")).status == "success"


async def test_wait_is_over_after_its_timeout(core: Core) -> None:
    await core.enqueue()
    with pytest.raises(WaitTimeout, match=r"run r1 has not ended within 0\.05 s") as caught:
        await core.placet.wait("r1", timeout=0.05)
    assert caught.value.run_id == "r1"
    assert (await core.placet.get("r1")).status == "pending"


async def test_what_is_not_known_is_refused(core: Core) -> None:
    for call in (
        core.placet.wait("r1", until="ever"),  # type: ignore[arg-type]
        anext(core.placet.stream("r1", until="ever")),  # type: ignore[arg-type]
        core.placet.runs(status="done"),  # type: ignore[arg-type]
        core.placet.approvals(status="done"),  # type: ignore[arg-type]
        anext(core.placet.watch_approvals(status="done")),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidInput, match="must be one of"):
            await call


async def test_a_watcher_sees_every_request_and_what_becomes_of_it(core: Core) -> None:
    await core.paused(request("a1"), run_id="r1", thread_id="t1")
    seen = []
    async with asyncio.timeout(UNTIL_READY), aclosing(core.placet.watch_approvals(status=None)) as watching:
        async for approval in watching:
            seen.append((approval.id, approval.status))
            match len(seen):
                case 1:
                    await core.paused(request("a2"), run_id="r2", thread_id="t2")
                case 2:
                    await core.decide("a1")
                case 3:
                    await core.pause(await core.claim("r1"), request("a1"))
                case 4:
                    await core.placet.cancel("r2")
                case 5:
                    break
    assert seen == [
        ("a1", "pending"),
        ("a2", "pending"),
        ("a1", "decided"),
        ("a1", "pending"),
        ("a2", "cancelled"),
    ]


async def test_a_watcher_of_those_that_are_pending_sees_one_that_is_asked_again(core: Core) -> None:
    await core.paused(request("a1"))
    seen = []
    async with asyncio.timeout(UNTIL_READY), aclosing(core.placet.watch_approvals()) as watching:
        async for approval in watching:
            seen.append((approval.id, approval.status))
            if len(seen) > 1:
                break
            await core.decide("a1")
            await core.pause(await core.claim(), request("a1"))
    assert seen == [("a1", "pending")] * 2


async def test_a_watcher_misses_nothing_while_requests_come_and_go(core: Core) -> None:
    total = 450

    async def ask(start: int, stop: int) -> None:
        for n in range(start, stop):
            await core.paused(request(f"a{n:03}"), run_id=f"r{n}", thread_id=f"t{n}")

    await ask(0, 420)
    seen: list[str] = []
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        tasks.create_task(ask(420, total))

        async def go() -> None:
            # decided ones leave the index while the watcher pages through it
            for n in range(419, 380, -1):
                await core.decide(f"a{n:03}")

        tasks.create_task(go())
        async with aclosing(core.placet.watch_approvals()) as watching:
            async for approval in watching:
                seen.append(approval.id)
                if {f"a{n:03}" for n in (*range(381), *range(420, total))} <= set(seen):
                    break
    assert len(seen) == len(set(seen))


async def test_a_listing_pages_past_records_that_leave(core: Core) -> None:
    ids = [f"r{n:03}" for n in range(250)]
    for run_id in ids:
        await core.enqueue(run_id, run_id)
    found = []
    async for record in core.connection.records(core.connection.keys("runs_in", "pending"), "run"):
        found.append(record[b"id"].decode())
        if len(found) == 1:
            for run_id in ids[-50:]:
                await core.placet.cancel(run_id)

    assert len(found) == len(set(found))
    assert set(ids[:200]) <= set(found)


async def test_a_listing_goes_through_records_of_one_moment(core: Core) -> None:
    index = core.connection.keys("approvals_in", "pending")
    await core.paused(*(request(f"a{n:04}") for n in range(900)))
    assert len(set((await core.redis.zrange(index, 0, -1, withscores=True))[0][1:])) == 1

    found = await core.placet.approvals(limit=10_000)
    assert len({one.id for one in found}) == len(found) == 900
    assert len(await core.placet.approvals(limit=7, run_id="r1", thread_id="t1", agent="agent")) == 7
    assert await core.placet.approvals(agent="other") == await core.placet.approvals(status="expired") == []


async def test_runs_are_listed_newest_first_by_every_filter(core: Core) -> None:
    await core.enqueue("r1", "t1")
    await core.redis.zadd(core.connection.keys("runs"), {"r1": 1})
    await core.enqueue("r2", "t2", agent="other")
    await core.finish(await core.claim("r2"))

    placet = core.placet
    assert [run.id for run in await placet.runs()] == ["r2", "r1"]
    assert [run.id for run in await placet.runs(limit=1)] == ["r2"]
    assert [run.id for run in await placet.runs(status="pending")] == ["r1"]
    assert [run.id for run in await placet.runs(agent="other", thread_id="t2", status="success")] == ["r2"]
    assert await placet.runs(agent="other", thread_id="t1") == []


async def test_a_batch_that_is_sent_again_is_there_once(core: Core) -> None:
    await core.enqueue()
    claim = await core.claim()
    for batch in (1, 1, 2, 2):
        await core.leases.append(claim, [("custom", "", str(batch))], batch=batch)
    assert [data for kind, data in await core.told() if kind == "custom"] == [1, 2]
