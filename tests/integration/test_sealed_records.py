"""What callers and reviewers send, where there is a `PLACET_ENCRYPTION_KEY`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from stored import everything

from placet import Placet
from placet.errors import Conflict
from placet.sealing import Seal, Unreadable, seal_of
from placet.settings import Settings
from placet.state.connection import Connection
from placet.state.leases import Leases
from placet.state.workers import WorkerSeen, key_doubt

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from redis.asyncio import Redis

MAIL = "jane.roe@example.com"
GIVEN: Any = {"messages": [{"role": "user", "content": f"I am {MAIL}"}]}
KEY = "k" * 32


@pytest.fixture
def settings(redis_url: str) -> Settings:
    return Settings(redis_url=redis_url, encryption_key=KEY)


@pytest.fixture
async def placet(settings: Settings) -> AsyncIterator[Placet]:
    async with Placet.connect(settings=settings) as client:
        yield client


@pytest.fixture(autouse=True)
async def emptied(redis: Redis) -> AsyncIterator[None]:
    yield
    await redis.flushdb()


async def test_input_and_context_are_sealed_and_read_by_who_has_the_key(
    placet: Placet, settings: Settings, redis: Redis
) -> None:
    run = await placet.enqueue("a", GIVEN, run_id="r1", context={"mail": MAIL})
    assert (run.input, run.context) == (GIVEN, {"mail": MAIL})
    assert [key for key, held in (await everything(redis)).items() if MAIL.encode() in held] == []
    for key in ("", "x" * 32):
        async with Placet.connect(settings=replace(settings, encryption_key=key)) as other:
            found = await other.get("r1")
            assert isinstance(found.input, Unreadable)
            assert isinstance(found.context, Unreadable)


async def test_a_worker_knows_what_was_sent_without_the_key(
    placet: Placet, settings: Settings, redis: Redis
) -> None:
    await placet.enqueue("a", GIVEN, run_id="sealed")
    async with Placet.connect(settings=replace(settings, encryption_key="")) as plain:
        await plain.enqueue("a", GIVEN, run_id="clear")
    for key, expected in ((KEY, [False, True]), ("", [False, False])):
        async with Connection.open(replace(settings, encryption_key=key)) as connection:
            leases = Leases(connection, owner=f"w:{key}")
            claims = [(await leases.claim(run_id))[0] for run_id in ("sealed", "clear")]
            assert [claim is not None and claim.unsealed for claim in claims] == expected
            for claim in claims:
                assert claim is not None
                await leases.give_back(claim, reason="looked", count_attempt=False)


@pytest.mark.parametrize(
    ("own", "theirs", "doubt"),
    [
        (KEY, KEY, ""),
        ("", "", ""),
        ("", KEY, "workers have a PLACET_ENCRYPTION_KEY, this process has none: what it sends is not sealed"),
        (
            KEY,
            "",
            "this process has a PLACET_ENCRYPTION_KEY, workers have none: they cannot read it",
        ),
        (KEY, "x" * 32, "workers have another PLACET_ENCRYPTION_KEY: neither reads what the other seals"),
    ],
)
def test_keys_that_differ_are_told(own: str, theirs: str, doubt: str) -> None:
    seal, others = seal_of(own), seal_of(theirs)
    seen = WorkerSeen(id="w", seconds_ago=0, key_id="" if others is None else others.key_id)
    assert key_doubt([seen], seal) == doubt
    assert not key_doubt([], seal)


async def test_the_same_payload_is_the_same_run_and_its_digest_is_no_guess(
    placet: Placet, settings: Settings, redis: Redis
) -> None:
    for _ in range(2):
        assert (await placet.enqueue("a", GIVEN, run_id="r1", thread_id="t")).id == "r1"
    with pytest.raises(Conflict, match="another payload"):
        await placet.enqueue("a", {"x": 1}, run_id="r1", thread_id="t")
    sealed = await redis.hget("{placet}:run:r1", "input_digest")
    async with Placet.connect(settings=replace(settings, namespace="n", encryption_key="")) as plain:
        await plain.enqueue("a", GIVEN, run_id="r1", thread_id="t")
    assert sealed
    assert sealed != await redis.hget("{n}:run:r1", "input_digest")


def test_what_is_sealed_opens_as_what_it_is_about_alone() -> None:
    seal = Seal(KEY)
    text = seal.seal({"a": MAIL}, "input of run r1")
    assert seal.open(text, "input of run r1") == {"a": MAIL}
    for other, about in ((seal, "input of run r2"), (Seal("x" * 32), "input of run r1")):
        with pytest.raises(Exception, match="does not open"):
            other.open(text, about)
    with pytest.raises(Exception, match="does not open"):
        seal.open("placet.sealed:AAAA", "x")
