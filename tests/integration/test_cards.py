"""Cards on a channel say what is true, whoever changes it, however many replicas there are or die."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
from core import request

from fleet import wait_until
from placet.bots import delivery
from placet.bots.channel import CardGone, Undelivered
from placet.bots.delivery import Delivery
from placet.bots.routes import Routes
from placet.state.cards import Cards, PostedCard

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from core import Core

    from placet.bots.card import Card
    from placet.bots.reviews import Reviews

ALL = "routes:\n- to: wall:north\n"
A1, A2 = "a00000000001", "a00000000002"


@dataclass
class Wall:
    """A platform in the test's own memory: a list of messages, and what it refuses."""

    name: str = "wall"
    messages: dict[str, tuple[str, Card]] = field(default_factory=dict)
    refusals: list[Exception] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    hold: asyncio.Event | None = None
    """If set, posts wait for it."""

    async def serve(self, reviews: Reviews) -> None:
        raise NotImplementedError

    async def post(self, destination: str, card: Card) -> str:
        self.calls.append(f"post {destination}")
        if self.hold is not None:
            await self.hold.wait()
        if self.refusals:
            raise self.refusals.pop(0)
        reference = f"m{len(self.messages)}"
        self.messages[reference] = (destination, card)
        return reference

    async def update(self, reference: str, card: Card) -> None:
        self.calls.append(f"update {reference}")
        if self.refusals:
            raise self.refusals.pop(0)
        if reference not in self.messages:
            raise CardGone
        self.messages[reference] = (self.messages[reference][0], card)

    @property
    def shown(self) -> list[tuple[str, str]]:
        """Destination and state of each message."""
        return [(destination, card.state) for destination, card in self.messages.values()]

    async def shows(self, *shown: tuple[str, str]) -> None:
        """Wait until the messages are these."""

        async def look() -> bool:
            return sorted(self.shown) == sorted(shown)

        try:
            await wait_until(look, seconds=15)
        except TimeoutError:
            assert sorted(self.shown) == sorted(shown)
            raise


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(delivery, "AGAIN_SECONDS", 0.05)


@pytest.fixture
def routes(tmp_path: Path) -> Any:
    def make(text: str = ALL) -> Routes:
        path = tmp_path / "routes.yaml"
        path.write_text(text)
        return Routes.read(str(path), channel="wall")

    return make


@asynccontextmanager
async def looked_after(core: Core, wall: Wall, routes: Routes, *, replicas: int = 1) -> AsyncIterator[None]:
    cards = Cards(core.connection)
    running = [
        asyncio.create_task(Delivery(placet=core.placet, cards=cards, channel=wall, routes=routes).run())
        for _ in range(replicas)
    ]
    try:
        yield
    finally:
        for one in running:
            one.cancel()
        await asyncio.wait(running)


async def test_a_card_follows_its_request(core: Core, routes: Any) -> None:
    wall = Wall()
    async with looked_after(core, wall, routes()):
        await core.paused(request(A1))
        await wall.shows(("north", "Waits for a decision"))
        await core.decide(A1)
        await wall.shows(("north", "Approved by alice"))
        claim = await core.claim()
        await core.finish(claim)
        await wall.shows(("north", "Approved by alice: it ran"))
    (card,) = await core.placet.cards(A1)
    assert (card.destination, card.reference, card.tries) == ("north", "m0", 0)
    assert wall.calls.count("post north") == 1


@pytest.mark.parametrize("replicas", [1, 3])
async def test_what_waits_when_a_bot_starts_is_posted_once(core: Core, routes: Any, replicas: int) -> None:
    ids = [f"a0000000001{n}" for n in range(8)]
    for name in ids:
        await core.paused(request(name), run_id=name, thread_id=name)
    wall = Wall()
    async with looked_after(core, wall, routes(), replicas=replicas):
        await wall.shows(*[("north", "Waits for a decision")] * 8)
        for name in ids:
            await core.decide(name, kind="reject")
        await wall.shows(*[("north", "Rejected by alice")] * 8)
    assert wall.calls.count("post north") == 8


async def test_a_bot_that_was_down_mends_its_cards(core: Core, routes: Any) -> None:
    wall = Wall()
    for name in (A1, A2):
        await core.paused(request(name), run_id=name, thread_id=name)
    async with looked_after(core, wall, routes()):
        await wall.shows(*[("north", "Waits for a decision")] * 2)
    await core.decide(A1)
    await core.runs.cancel(A2, reason="no longer wanted")
    await core.redis.delete(core.connection.keys("approvals_stream"))  # what it missed is not kept for ever
    async with looked_after(core, wall, routes()):
        await wall.shows(("north", "Approved by alice"), ("north", "Cancelled: no longer wanted"))


async def test_what_a_replica_takes_while_it_is_stopped_is_the_others_at_once(
    core: Core, routes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, took, go_on = Cards.take, asyncio.Event(), asyncio.Event()

    async def late(*given: Any, **more: Any) -> Any:
        taken = await take(*given, **more)
        if taken[0]:
            took.set()
            await go_on.wait()
        return taken

    wall = Wall()
    await core.paused(request(A1))
    with monkeypatch.context() as patch:
        patch.setattr(Cards, "take", late)
        async with looked_after(core, wall, routes()):
            await took.wait()
            asyncio.get_running_loop().call_soon(go_on.set)
    assert wall.calls == []
    async with looked_after(core, wall, routes()):
        await wall.shows(("north", "Waits for a decision"))


async def test_what_a_platform_refuses_is_tried_again_and_told(core: Core, routes: Any) -> None:
    wall = Wall(refusals=[Undelivered("no such channel", retry_after=30), Undelivered("busy", retry_after=0)])
    await core.paused(request(A1))
    async with looked_after(core, wall, routes()):

        async def failed() -> Any:
            return [one for one in await core.placet.cards(A1) if one.tries]

        (card,) = await wait_until(failed)
        assert (card.error, card.tries, card.reference) == ("no such channel", 1, "")
        assert (await core.placet.approval(A1)).status == "pending"
        # it is not tried before its time, whatever happens to the request
        await Cards(core.connection).look_again("wall", [A1])
        await core.paused(request(A2), run_id="r2", thread_id="t2")
        await wall.shows(("north", "Waits for a decision"))
        assert [one.tries for one in await core.placet.cards(A1)] == [1]


async def test_an_update_that_failed_is_made_up_for(core: Core, routes: Any) -> None:
    wall = Wall()
    await core.paused(request(A1))
    async with looked_after(core, wall, routes()):
        await wall.shows(("north", "Waits for a decision"))
        wall.refusals = [Undelivered("away", retry_after=0), ConnectionResetError()]
        await core.decide(A1)
        await wall.shows(("north", "Approved by alice"))


async def test_a_message_that_was_deleted_is_posted_again_while_it_waits(core: Core, routes: Any) -> None:
    wall = Wall()
    await core.paused(request(A1))
    async with looked_after(core, wall, routes()):
        await wall.shows(("north", "Waits for a decision"))
        wall.messages.clear()
        await core.decide(A1)

        async def noticed() -> bool:
            return "update m0" in wall.calls

        await wait_until(noticed)
        await core.pause(await core.claim(), request(A1))  # its answer was not taken: it is asked again
        await wall.shows(("north", "Waits for a decision"))


async def test_a_dead_replicas_work_goes_to_another(
    core: Core, routes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await core.paused(request(A1))
    cards = Cards(core.connection)
    await cards.look_again("wall", [A1])
    assert (await cards.take("wall", "dead", keep_ms=300, most=1))[0] == [A1]
    await cards.look_again("wall", [A1])  # a hint does not take it from who has it
    assert (await cards.take("wall", "other", keep_ms=300, most=1))[0] == []
    wall = Wall()
    async with looked_after(core, wall, routes()):
        await wall.shows(("north", "Waits for a decision"))
    await cards.done("wall", "dead", A1, again_in_ms=None)  # who lost it has no say any more
    assert await cards.known("wall") == [A1]


async def test_a_change_while_its_card_is_posted_is_not_missed(core: Core, routes: Any) -> None:
    wall = Wall(hold=asyncio.Event())
    await core.paused(request(A1))
    async with looked_after(core, wall, routes(), replicas=2):

        async def posting() -> bool:
            return bool(wall.calls)

        await wait_until(posting)
        await core.decide(A1)
        assert wall.hold is not None
        wall.hold.set()
        await wall.shows(("north", "Approved by alice"))
    assert wall.calls.count("post north") == 1


async def test_escalations_and_reminders_are_posted_too(core: Core, routes: Any) -> None:
    text = "routes:\n- to: wall:north\n  remind_seconds: 3600\n  escalate:\n"
    text += "  - {after_seconds: 1800, to: [wall:south, other:x]}\n"
    await core.paused(request(A1))
    wall = Wall()
    async with looked_after(core, wall, routes(text)):
        await wall.shows(("north", "Waits for a decision"))
    key, hour = core.connection.keys("approval", A1), 3_600_000
    created = int(await core.redis.hget(key, "created_at"))
    await core.redis.hset(key, "created_at", created - hour // 2)
    async with looked_after(core, wall, routes(text)):
        await wall.shows(("north", "Waits for a decision"), ("south", "Waits for a decision"))
    await core.redis.hset(key, "created_at", created - 5 * hour)
    async with looked_after(core, wall, routes(text)):
        # one reminder for the five that it has missed
        first, again = ("north", "Waits for a decision"), ("north", "Waits for a decision (reminder 5)")
        await wall.shows(first, again, ("south", "Waits for a decision"))
        await core.decide(A1)
        await wall.shows(*[("north", "Approved by alice")] * 2, ("south", "Approved by alice"))


async def test_a_final_card_is_not_looked_at_again(core: Core, routes: Any) -> None:
    wall = Wall()
    await core.paused(request(A1))
    async with looked_after(core, wall, routes()):
        await wall.shows(("north", "Waits for a decision"))
        await core.decide(A1)
        await core.finish(await core.claim())
        await wall.shows(("north", "Approved by alice: it ran"))

        async def final() -> bool:
            return not await Cards(core.connection).known("wall")

        await wait_until(final)
    (card,) = await core.placet.cards(A1)
    await Cards(core.connection).save(A2, card)  # a slow replica brings nothing back of one that is gone
    assert await core.placet.cards(A2) == []


async def test_a_destination_that_no_route_names_any_more_is_tried_no_more(core: Core, routes: Any) -> None:
    wall = Wall(refusals=[Undelivered("no such place", retry_after=3600)])
    await core.paused(request(A1))
    async with looked_after(core, wall, routes("routes:\n- to: wall:nroth\n")):

        async def failed() -> bool:
            return bool([one for one in await core.placet.cards(A1) if one.tries])

        await wait_until(failed)
    async with looked_after(core, wall, routes()):
        await wall.shows(("north", "Waits for a decision"))
    assert [one.destination for one in await core.placet.cards(A1)] == ["north"]


async def test_a_replica_that_was_asleep_over_a_card_does_not_have_the_last_word(core: Core) -> None:
    await core.paused(request(A1))
    cards, there = Cards(core.connection), PostedCard(channel="wall", destination="north", reference="m0")
    await cards.look_again("wall", [A1])
    await cards.take("wall", "asleep", keep_ms=0, most=1)
    await cards.take("wall", "other", keep_ms=60_000, most=1)
    await cards.save(A1, replace(there, drawn="newer"), who="other")
    await cards.done("wall", "other", A1, again_in_ms=None)
    await cards.save(A1, replace(there, drawn="older"), who="asleep")
    assert [one.drawn for one in await cards.of(A1)] == [""]
    assert (await cards.take("wall", "third", keep_ms=1, most=1))[0] == [A1]


async def test_a_stream_that_is_gone_and_a_record_that_cannot_be_read_stop_no_bot(
    core: Core, routes: Any
) -> None:
    wall = Wall()
    await core.paused(request(A1))
    async with looked_after(core, wall, routes()):
        await wall.shows(("north", "Waits for a decision"))
        await core.redis.delete(core.connection.keys("approvals_stream"))
        await core.paused(request(A2), run_id="r2", thread_id="t2")
        await wall.shows(*[("north", "Waits for a decision")] * 2)
        key, shown = core.connection.keys("approval", A2), b"shown"
        kept = await core.redis.hget(key, shown)
        await core.redis.hset(key, shown, "no record")
        await core.decide(A1)
        await wall.shows(("north", "Approved by alice"), ("north", "Waits for a decision"))
        await core.redis.hset(key, shown, kept)


async def test_reminders_that_could_not_be_posted_do_not_come_all_at_once(core: Core, routes: Any) -> None:
    wall = Wall(refusals=[Undelivered("away", retry_after=3600)])
    await core.paused(request(A1))
    text = "routes:\n- to: wall:north\n  remind_seconds: 3600\n"
    async with looked_after(core, wall, routes(text)):

        async def failed() -> bool:
            return bool([one for one in await core.placet.cards(A1) if one.tries])

        await wait_until(failed)
    key = core.connection.keys("approval", A1)
    await core.redis.hincrby(key, "created_at", -2 * 3_600_000)
    async with looked_after(core, wall, routes(text)):
        await wall.shows(("north", "Waits for a decision (reminder 2)"))
    assert [one.number for one in await core.placet.cards(A1)] == [2]
