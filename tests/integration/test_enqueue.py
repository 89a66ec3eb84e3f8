from __future__ import annotations

import asyncio
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from core import request

from placet.errors import Conflict, InvalidInput
from placet.state.runs import Run

if TYPE_CHECKING:
    from core import Core

ODD_IDS = ["x" * 200, "naïve-日本-🚀", "two\nlines", "{a}{}[b]*?", "t:queue", "a|b", "nul\0l", "'\"\\"]


async def test_a_new_run_is_pending_first_on_its_thread_and_in_the_outbox(core: Core) -> None:
    run = await core.placet.enqueue("agent", {"messages": []}, thread_id="t1", principal="bob", queue="other")

    assert (run.status, run.attempt, run.segment, run.principal, run.queue) == (
        "pending",
        0,
        0,
        "bob",
        "other",
    )
    assert (run.input, run.config, run.context, run.metadata) == ({"messages": []}, {}, None, {})
    assert await core.outbox("other") == [run.id]
    assert await core.told(run.id) == [("run.enqueued", {"thread_id": "t1"})]


async def test_the_same_id_and_payload_is_the_same_run(core: Core) -> None:
    async def ask() -> str:
        again: dict[str, Any] = {
            "run_id": "r1",
            "thread_id": "t1",
            "metadata": {"k": 1},
            "start_at": timedelta(hours=1),
        }
        return (await core.placet.enqueue("agent", {"a": 1, "b": [2]}, **again)).id

    assert await ask() == await ask() == "r1"
    same = await core.placet.enqueue(
        "agent", {"b": [2], "a": 1}, run_id="r1", thread_id="t1", metadata={"k": 1}
    )
    assert same.id == "r1"
    assert len(await core.placet.runs()) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"input": {"x": 2}},
        {"agent": "other"},
        {"thread_id": "t2"},
        {"config": {"tags": ["a"]}},
        {"context": {"a": 1}},
        {"metadata": {"a": 1}},
        {"principal": "eve"},
        {"queue": "other"},
    ],
)
async def test_another_payload_for_a_known_id_is_a_conflict(core: Core, change: dict[str, Any]) -> None:
    payload: dict[str, Any] = {"agent": "agent", "input": {"x": 1}, "run_id": "r1", "thread_id": "t1"}
    await core.placet.enqueue(**payload)

    with pytest.raises(Conflict, match="run r1 exists with another payload"):
        await core.placet.enqueue(**{**payload, **change})


async def test_fifty_callers_with_one_id_make_one_run(core: Core) -> None:
    created = await asyncio.gather(
        *(core.placet.enqueue("agent", {}, run_id="r1", thread_id="t1") for _ in range(50))
    )

    assert {run.id for run in created} == {"r1"}
    assert len(await core.told()) == 1
    assert await core.redis.llen(core.connection.keys("thread_queue", "t1")) == 1


async def test_runs_of_one_thread_wait_their_turn(core: Core) -> None:
    for run_id in ("r1", "r2", "r3"):
        await core.enqueue(run_id)

    assert await core.outbox() == ["r1"]
    assert await core.refused("r2") == "queued"
    _, woken = await core.finish(await core.claim("r1"))
    assert [(one.run_id, one.first) for one in woken] == [("r2", True)]
    assert await core.outbox() == ["r2"]


@pytest.mark.parametrize("odd", ODD_IDS)
async def test_any_text_is_an_id(core: Core, odd: str) -> None:
    run = await core.placet.enqueue("agent", {"x": odd}, run_id=odd, thread_id=odd, principal=odd)
    claim = await core.claim(odd)

    assert (run.id, run.thread_id, claim.run.input, claim.run.principal) == (odd, odd, {"x": odd}, odd)
    await core.leases.append(claim, [("custom", odd.replace("|", ""), "1")], batch=1)
    assert (await core.finish(claim))[0] == "success"
    assert [run.id for run in await core.placet.runs(thread_id=odd)] == [odd]


@pytest.mark.parametrize("part", ["queue", "runs", "lease", "checkpoint", "events", "approvals", "pause"])
async def test_no_id_names_another_record(core: Core, part: str) -> None:
    await core.enqueue("r", "t")
    before = await core.placet.get("r")

    await core.enqueue(f"r:{part}", f"t:{part}")
    await core.finish(await core.claim(f"r:{part}"))
    await core.placet.delete_thread(f"t:{part}")

    assert await core.placet.get("r") == before
    await core.claim("r")


async def test_a_run_with_a_start_waits_outside_its_thread(core: Core) -> None:
    run = await core.placet.enqueue(
        "agent", {}, run_id="r1", thread_id="t1", start_at=datetime.now(UTC) + timedelta(hours=1)
    )
    await core.enqueue("r2", "t1")

    assert run.wake_at is not None
    assert (run.status, await core.refused("r1")) == ("pending", "queued")
    assert await core.outbox() == ["r2"]
    await core.make_due("r1")
    await core.look()
    assert (await core.placet.get("r1")).wake_at is None
    assert await core.refused("r1") == "queued"
    await core.finish(await core.claim("r2"))
    await core.claim("r1")


async def test_a_start_in_the_past_is_now(core: Core) -> None:
    await core.enqueue(start_at=datetime(2020, 1, 1, tzinfo=UTC))

    await core.claim()


async def test_a_start_out_of_this_world_that_is_stored_can_be_read(core: Core) -> None:
    run = await core.enqueue(start_at=datetime.max.replace(tzinfo=UTC))
    await core.redis.hset(core.connection.keys("run", run.id), "wake_at", "1e400")

    read = await core.placet.get(run.id)

    assert read.wake_at is not None
    assert read.wake_at.astimezone(UTC).year == 9999
    await core.placet.cancel(run.id)


async def test_a_run_cancelled_before_its_start_never_starts(core: Core) -> None:
    await core.placet.enqueue("agent", {}, run_id="r1", thread_id="t1", start_at=timedelta(hours=1))
    run = await core.placet.cancel("r1")
    await core.enqueue("r2")

    assert (run.status, run.wake_at) == ("cancelled", None)
    assert [one.run_id for one in await core.look()] == []
    assert await core.refused() == "ended"
    await core.finish(await core.claim("r2"))


class Unknown:
    pass


DEEP: list[Any] = []
DEEP.append(DEEP)
NOT_JSON: dict[str, Any] = {
    "nan": float("nan"),
    "set": {1, 2},
    "frozenset": frozenset(),
    "object": Unknown(),
    "circular": DEEP,
    "surrogate": "\ud800",
    "huge": 1 << 20_000,
}


async def test_what_is_empty_comes_back_as_it_was_given(core: Core) -> None:
    one = await core.placet.enqueue("null", {}, context={}, metadata={}, config={})
    assert (one.agent, one.input, one.context, one.metadata, one.config) == ("null", {}, {}, {}, {})
    other = await core.placet.enqueue("{}", [], context=None)
    assert (other.agent, other.input, other.context, other.metadata) == ("{}", [], None, {})


@pytest.mark.parametrize("bad", list(NOT_JSON))
@pytest.mark.parametrize("field", ["input", "context", "metadata", "config"])
async def test_what_is_not_json_is_refused_by_name(core: Core, field: str, bad: str) -> None:
    value: Any = {"configurable": {"k": [NOT_JSON[bad]]}} if field == "config" else {"k": [NOT_JSON[bad]]}
    with pytest.raises(InvalidInput) as caught:
        await core.placet.enqueue("agent", **{"input": {}, field: value})

    assert caught.value.field == field
    assert await core.placet.runs() == []


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("input", None),
        ("input", "hi"),
        ("input", b"hi"),
        ("run_id", "x" * 513),
        ("run_id", "\ud800"),
        ("run_id", ""),
        ("run_id", 0),
        ("thread_id", " "),
        ("thread_id", ""),
        ("thread_id", 0),
        ("agent", ""),
        ("queue", 5),
        ("queue", None),
        ("queue", "a,b"),
        ("queue", "a b"),
        ("queue", "{a}"),
        ("metadata", [1]),
        ("metadata", ""),
        ("config", []),
        ("principal", 5),
        ("principal", ""),
        ("start_at", datetime(2030, 1, 1)),  # noqa: DTZ001 - what is refused
        ("start_at", 5),
        ("start_at", "2030-01-01"),
        ("start_at", timedelta.max),
        ("start_at", datetime.max.replace(tzinfo=UTC)),
    ],
)
async def test_arguments_are_refused_by_name(core: Core, field: str, bad: Any) -> None:
    with pytest.raises(InvalidInput, match=rf"^{field}: "):
        await core.placet.enqueue(**{"agent": "agent", "input": {}, field: bad})

    assert await core.placet.runs() == []


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"configurable": {"__pregel_resume_map": {"i": True}}}, "config.configurable.__pregel_resume_map"),
        ({"configurable": {"__placet_token": 1}}, "config.configurable.__placet_token"),
        ({"configurable": {"__a\nb": 1}}, "config.configurable.__a\nb"),
        ({"configurable": {"checkpoint_id": "c"}}, "config.configurable.checkpoint_id"),
        ({"configurable": {"checkpoint_ns": ""}}, "config.configurable.checkpoint_ns"),
        ({"configurable": {"checkpoint_map": {}}}, "config.configurable.checkpoint_map"),
        ({"configurable": {"thread_id": "t"}}, "config.configurable.thread_id"),
        ({"configurable": {"principal": "root"}}, "config.configurable.principal"),
        ({"configurable": {1: "x"}}, "config.configurable"),
        ({"configurable": "x"}, "config.configurable"),
        ({"metadata": {"run_id": "x"}}, "config.metadata.run_id"),
        ({"callbacks": []}, "config.callbacks"),
        ({"run_id": "x"}, "config.run_id"),
        ({"recursion_limit": 0}, "config.recursion_limit"),
        ({"recursion_limit": True}, "config.recursion_limit"),
    ],
)
async def test_configuration_that_steers_the_machine_is_refused(
    core: Core, config: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        await core.placet.enqueue("agent", {}, config=config)

    assert caught.value.field == named
    assert await core.placet.runs() == []


async def test_configuration_of_a_caller_is_kept(core: Core) -> None:
    config = {
        "configurable": {"model": "m", "thread": 1},
        "tags": ["a"],
        "recursion_limit": 7,
        "run_name": "n",
    }
    assert (await core.placet.enqueue("agent", {}, config=config)).config == config


async def test_a_listing_reads_nothing_large_and_a_claim_its_input_once(core: Core) -> None:
    run = await core.placet.enqueue("agent", {"x": 1}, run_id="r1", thread_id="t1", metadata={"team": "a"})
    (listed,) = await core.placet.runs()
    assert listed == replace(run, input=None, config={}, context=None)
    claim = await core.claim()
    assert claim.run.input == {"x": 1}
    await core.pause(claim, request(), checkpoint_id="c1")
    await core.decide("a1")
    claim = await core.claim()
    assert (claim.run.input, claim.run.metadata) == (None, {"team": "a"})
    await core.finish(claim)
    whole = await core.placet.get("r1")
    (listed,) = await core.placet.runs(status="success")
    assert whole.result == {"done": True}
    assert listed == replace(whole, input=None, config={}, context=None, result=None)


async def test_a_listing_has_all_else(core: Core) -> None:
    await core.placet.enqueue(
        "agent", {}, run_id="r1", thread_id="t1", principal="bob", timeout_seconds=60, context={"a": 1}
    )
    await core.claim()
    await core.expire_lease()
    await core.fail(await core.claim())
    await core.redis.hset(core.connection.keys("run", "r1"), mapping={"build": "b", "incompatible": "no"})
    whole = await core.placet.get("r1")
    blank = {"wake_at", "result"} | {field.name for field in fields(Run) if not getattr(whole, field.name)}
    assert blank == {"wake_at", "result", "input", "config", "metadata"}
    (listed,) = await core.placet.runs()
    assert listed == replace(whole, input=None, context=None)
