"""Calls that share a pipeline have nothing else in common."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import DataError, ResponseError

from placet.dev.embedded import free_port
from placet.state.batches import Batches

if TYPE_CHECKING:
    from redis.commands.core import AsyncScript

GIVE_BACK = "if ARGV[1] == 'bad' then return redis.error_reply('BAD luck') end return ARGV[1]"


def script_on(redis: Redis) -> AsyncScript:
    return redis.register_script(GIVE_BACK)


async def test_each_has_its_own_reply_or_error(redis: Redis) -> None:
    batches, script = Batches(redis), script_on(redis)
    given = ["a", "bad", "c"]
    replies = await asyncio.gather(
        *(batches.call(script, [], [one]) for one in given), return_exceptions=True
    )
    assert replies[::2] == [b"a", b"c"]
    assert isinstance(replies[1], ResponseError)
    assert str(replies[1]).startswith("BAD luck")


async def test_what_cannot_be_sent_is_its_callers_own_error(redis: Redis) -> None:
    batches, script = Batches(redis), script_on(redis)
    given = ["a", "\ud800", None, "d"]
    replies = await asyncio.gather(
        *(batches.call(script, [], [one]) for one in given), return_exceptions=True
    )
    assert replies[::3] == [b"a", b"d"]
    assert isinstance(replies[1], UnicodeEncodeError)
    assert isinstance(replies[2], DataError)


async def test_calls_of_one_turn_share_a_connection(redis: Redis) -> None:
    batches, script = Batches(redis), script_on(redis)
    await redis.ping()
    before = (await redis.info("clients"))["connected_clients"]
    await asyncio.gather(*(batches.call(script, [], [n]) for n in range(50)))
    assert (await redis.info("clients"))["connected_clients"] == before


async def test_a_script_that_the_server_has_forgotten_is_told_again(redis: Redis) -> None:
    batches, script = Batches(redis), script_on(redis)
    for _ in range(2):
        await redis.script_flush()
        replies = await asyncio.gather(*(batches.call(script, [], [n]) for n in range(3)))
        assert replies == [b"0", b"1", b"2"]


async def test_a_caller_that_is_cancelled_takes_no_other_with_it(redis: Redis) -> None:
    batches, script = Batches(redis), script_on(redis)
    tasks = [asyncio.create_task(batches.call(script, [], [n])) for n in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    replies = await asyncio.gather(*tasks, return_exceptions=True)
    assert replies[::2] == [b"0", b"2"]
    assert isinstance(replies[1], asyncio.CancelledError)
    assert await batches.call(script, [], ["after"]) == b"after"


async def test_a_server_that_is_away_is_told_to_all() -> None:
    async with Redis(host="127.0.0.1", port=free_port()) as client:
        batches, script = Batches(client), script_on(client)
        replies = await asyncio.gather(
            *(batches.call(script, [], [n]) for n in range(3)), return_exceptions=True
        )
    assert [type(reply) for reply in replies] == [RedisConnectionError] * 3


async def test_a_silent_server_is_not_waited_for_longer_than_allowed() -> None:
    async def hold(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    held: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    async with server, Redis(port=server.sockets[0].getsockname()[1], socket_timeout=None) as client:
        with pytest.raises(TimeoutError):
            await Batches(client, seconds=0.2).call(script_on(client), [], ["a"])
    for writer in held:
        writer.close()


async def test_nothing_of_a_cancelled_call_happens_after_what_its_caller_does_next(redis_url: str) -> None:
    """It was taken back, or is over; a connection still being made would let a later call overtake it."""
    dice = random.Random(1)  # noqa: S311 - the same moments each time
    for _ in range(100):
        async with Redis.from_url(redis_url) as client, Redis.from_url(redis_url) as other:
            batches = Batches(client)
            script = client.register_script("return redis.call('SET', KEYS[1], 1)")
            await other.ping()
            tasks = [asyncio.create_task(batches.call(script, ["late"], []))]
            await asyncio.sleep(0)
            tasks[0].cancel()  # nobody waits any more: the next ones do
            tasks += [asyncio.create_task(batches.call(script, ["late"], [])) for _ in range(2)]
            for _ in range(dice.randrange(30)):  # each turn of the loop is another moment
                await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await other.delete("late")
            while len(asyncio.all_tasks()) > 1:  # noqa: ASYNC110 - whatever is on its way still
                await asyncio.sleep(0)
            assert await other.exists("late") == 0


async def test_a_caller_that_is_cancelled_twice_leaves_at_once() -> None:
    async def hold(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)
        connected.set()

    held: list[asyncio.StreamWriter] = []
    connected = asyncio.Event()
    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    async with server, Redis(port=server.sockets[0].getsockname()[1], socket_timeout=None) as client:
        task = asyncio.create_task(Batches(client, seconds=60).call(script_on(client), [], ["a"]))
        await connected.wait()
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    for writer in held:
        writer.close()
