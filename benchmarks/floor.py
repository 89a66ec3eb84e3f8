"""The floor: the same agents in one process, in memory, with nothing around them."""

from __future__ import annotations

import asyncio
import time
from uuid import uuid4

from agents import APPROVE, INPUT, long_history, make_cycle, make_turns, make_waits, thread_of, tool_started
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command


class Floor:
    """LangGraph alone, with a checkpointer; in memory if it is not told otherwise."""

    def __init__(self, checkpointer: object = None) -> None:
        saver = checkpointer or InMemorySaver()
        self._cycle, self._waits, self._turns = make_cycle(saver), make_waits(saver), make_turns(saver)

    async def cycle(self) -> int:
        """One approval cycle; nanoseconds from the resume to the start of the tool."""
        config = thread_of(uuid4().hex)
        await self._cycle.ainvoke(INPUT, config)
        decided = time.monotonic_ns()
        result = await self._cycle.ainvoke(Command(resume=APPROVE), config, durability="sync")
        return tool_started(result) - decided

    async def wait_all(self, count: int) -> None:
        """`count` runs at once that wait twice for a second."""
        threads = [uuid4().hex for _ in range(count)]
        await asyncio.gather(*(self._waits.ainvoke(INPUT, thread_of(thread)) for thread in threads))

    async def long_thread(self) -> str:
        """A thread of a thousand messages."""
        thread = uuid4().hex
        await self._turns.ainvoke(long_history(), thread_of(thread))
        return thread

    async def turn(self, thread: str) -> None:
        """A further turn on it."""
        await self._turns.ainvoke(INPUT, thread_of(thread))
