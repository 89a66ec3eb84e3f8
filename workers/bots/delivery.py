"""Keeps every card on a channel true: posts what is missing, draws anew what has changed, tries again."""

from __future__ import annotations

import asyncio
import time
import traceback
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4

import structlog

from ..errors import NotFound, RetryableError
from ..state.cards import PostedCard
from .card import card_of
from .channel import CardGone, Undelivered

if TYPE_CHECKING:
    from ..client import Placet
    from ..state.approvals import Approval
    from ..state.cards import Cards
    from .card import Card
    from .channel import Channel
    from .routes import Routes

AT_ONCE = 8
"""Requests whose cards one process looks after at once."""
KEEP_SECONDS = 20.0
"""How long a request is this replica's, should it die over it."""
IDLE_SECONDS = 1.0
"""How often it looks whether a card is due that nothing has called attention to."""
RECHECK_SECONDS = 600.0
"""How often a card that is not final is compared with its request, should an entry of the stream be lost."""
AGAIN_SECONDS = 1.0
"""How soon it goes on when the store was away."""
MOST_BACKOFF_SECONDS = 300.0
MOST_RETRY_AFTER_SECONDS = 86_400.0
"""Of what a platform asks for no more is believed."""
SHUTDOWN_SECONDS = 10.0

log = structlog.get_logger(__name__)


class Delivery:
    """Looks after the cards of one channel, together with the other replicas of its bot.

    The records say which card shows what; the stream of changes only says where to look. So a bot that was
    down for long, or lost entries, does the same as one that was there: it compares and draws what differs.
    """

    def __init__(self, *, placet: Placet, cards: Cards, channel: Channel, routes: Routes) -> None:
        self._placet = placet
        self._cards = cards
        self._channel = channel
        self._name = channel.name
        self._routes = routes
        self._who = uuid4().hex
        self._due = asyncio.Event()

    async def run(self) -> None:
        """Look after the cards until cancelled; what is under way is brought to its end then."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            tasks.create_task(self._deliver())

    async def _follow(self) -> None:
        """Call attention to what is pending or posted, then to each request that changes."""
        while True:
            try:
                await self._cards.look_again(self._name, await self._cards.known(self._name))
                self._due.set()
                changes = self._placet.watch_approvals(status=None, group=f"bot:{self._name}")
                async with aclosing(changes):
                    async for approval in changes:
                        await self._cards.look_again(self._name, [approval.id])
                        self._due.set()
            except RetryableError:
                pass
            except Exception as error:  # noqa: BLE001 - a stream that is gone, a record that cannot be read
                log.warning("changes.missed", channel=self._name, **_told(error))
            await asyncio.sleep(AGAIN_SECONDS)

    async def _deliver(self) -> None:
        free = asyncio.Semaphore(AT_ONCE)
        under_way: set[asyncio.Task[None]] = set()
        try:
            while True:
                await free.acquire()
                self._due.clear()
                taken, wait_ms = await self._take()
                if not taken:
                    free.release()
                    await self._rest(wait_ms)
                for approval_id in taken:
                    task = asyncio.create_task(self._look(approval_id))
                    under_way.add(task)
                    task.add_done_callback(under_way.discard)
                    task.add_done_callback(lambda _: free.release())
        finally:
            if under_way:
                await asyncio.wait(under_way, timeout=SHUTDOWN_SECONDS)

    async def _take(self) -> tuple[list[str], int | None]:
        """Take a request to look after; cancelled meanwhile, it is the other replicas' at once."""
        keep_ms = int(KEEP_SECONDS * 1000)
        taking = asyncio.create_task(self._cards.take(self._name, self._who, keep_ms=keep_ms, most=1))
        try:
            return await asyncio.shield(taking)
        except RetryableError:
            return [], None
        except asyncio.CancelledError:
            with suppress(RetryableError):
                for approval_id in (await taking)[0]:
                    await self._cards.done(self._name, self._who, approval_id, again_in_ms=0)
            raise

    async def _rest(self, wait_ms: int | None) -> None:
        seconds = IDLE_SECONDS if wait_ms is None else min(IDLE_SECONDS, wait_ms / 1000)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._due.wait()

    async def _look(self, approval_id: str) -> None:
        """Look after the cards of one request, whatever happens on the way."""
        again: float | None = AGAIN_SECONDS
        try:
            async with asyncio.timeout(KEEP_SECONDS * 0.8):
                again = await self._bring_up_to_date(approval_id)
        except (RetryableError, TimeoutError) as error:
            log.warning("cards.delayed", channel=self._name, approval_id=approval_id, error=repr(error))
        except Exception as error:  # noqa: BLE001 - the others' cards go on
            log.warning("cards.failed", channel=self._name, approval_id=approval_id, **_told(error))
            again = MOST_BACKOFF_SECONDS
        # if it cannot be said now, the request is due again when it is this replica's no more
        with suppress(RetryableError):
            again_in_ms = None if again is None else int(again * 1000)
            await self._cards.done(self._name, self._who, approval_id, again_in_ms=again_in_ms)

    async def _bring_up_to_date(self, approval_id: str) -> float | None:
        """Post and draw what has to be; seconds until there may be more to do."""
        try:
            approval = await self._placet.approval(approval_id)
        except NotFound:
            return None
        card = card_of(approval)
        posted = [one for one in await self._cards.of(approval_id) if one.channel == self._name]
        waited = max(0.0, (datetime.now(UTC) - approval.created_at).total_seconds())
        wanted = self._routes.wanted(approval, self._name, waited) if card.open else {}
        for destination, number in wanted.items():
            if not any(one.destination == destination and one.number >= number for one in posted):
                posted.append(PostedCard(channel=self._name, destination=destination, number=number))
        for one in [*posted]:
            if card.open and not one.reference and one.number != wanted.get(one.destination):
                posted.remove(one)  # no route leads there any more, or a later reminder is due there
                await self._cards.forget(approval_id, one)
        now_there = await asyncio.gather(*(self._bring(one, card) for one in posted))
        ahead = [one.due_ms / 1000 - time.time() for one in now_there if one and one.drawn != card.drawn]
        if card.open and (change := self._routes.next_change(approval, waited)) is not None:
            ahead.append(change)
        if any(now_there) and not _is_final(approval):
            ahead.append(RECHECK_SECONDS)
        return max(0.0, min(ahead)) if ahead else None

    async def _bring(self, there: PostedCard, card: Card) -> PostedCard | None:
        """Make one message show the card; what is known of it then, None if there is none and need not be."""
        approval_id = card.approval.id
        if there.gone and not card.open:
            return replace(there, drawn=card.drawn)
        if there.drawn == card.drawn or there.due_ms > time.time() * 1000:
            return there
        if not there.reference and not card.open:
            await self._cards.forget(approval_id, there)
            return None
        now = await self._tried(there, card)
        await self._cards.save(approval_id, now, who=self._who)
        return now

    async def _tried(self, there: PostedCard, card: Card) -> PostedCard:
        """Post or update a message."""
        bound = log.bind(channel=self._name, destination=there.destination, approval_id=card.approval.id)
        retry_after: float | None = None
        try:
            reference = "" if there.gone else there.reference
            if reference:
                await self._channel.update(reference, card)
            else:
                numbered = replace(card, reminder=there.number)
                if there.number:
                    numbered = replace(numbered, state=f"{card.state} (reminder {there.number})")
                reference = await self._channel.post(there.destination, numbered)
        except CardGone:
            bound.info("card.gone")
            if card.open:  # it is posted again
                return replace(there, reference="", drawn="", tries=0, error="", due_ms=0)
            return replace(there, drawn=card.drawn, gone=True, tries=0, error="", due_ms=0)
        except Undelivered as error:
            text, retry_after = str(error), error.retry_after
        except Exception as error:  # noqa: BLE001 - whatever a platform's library raises
            bound.warning("card.failed", **_told(error))
            text = type(error).__name__
        else:
            bound.info("card.updated" if reference == there.reference else "card.posted")
            return replace(
                there, reference=reference, drawn=card.drawn, gone=False, tries=0, error="", due_ms=0
            )
        tries = there.tries + 1
        wait = min(2.0 ** min(tries, 30), MOST_BACKOFF_SECONDS)
        if retry_after is not None and retry_after >= 0:
            wait = min(retry_after, MOST_RETRY_AFTER_SECONDS)
        bound.warning("card.undelivered", error=text, tries=tries, retry_seconds=round(wait, 1))
        return replace(there, tries=tries, error=text, due_ms=int((time.time() + wait) * 1000))


def _told(error: Exception) -> dict[str, str]:
    """What is logged of an error nobody expected: its message may hold a token or what a model wrote."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return {"error": type(error).__name__, "where": f"{frame.filename}:{frame.lineno}"}


def _is_final(approval: Approval) -> bool:
    """Whether a request will not change any more, as far as is known."""
    if approval.status == "decided":
        return approval.outcome not in ("none", "started")
    return approval.status != "pending"
