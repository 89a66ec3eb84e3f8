"""Drives an agent from where it stands, as another process would: a context of its own each time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from placet.execution.tool_guard import guard_tools
from placet.middleware import InMemorySharedState, RunContext, run_context

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest
    from langgraph.types import Interrupt

    from placet.middleware import SharedState

HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "go"}]}


class Driver:
    """An agent on one thread of one run; `waiting` is what it paused at."""

    def __init__(self, agent: Any, *, shared: SharedState | None = None, run_id: str = "r") -> None:
        guard_tools()
        self.agent = agent
        self.shared = shared or InMemorySharedState()
        self.run_id = run_id
        self.config: Any = {"configurable": {"thread_id": run_id, "__pregel_strict_resume": True}}
        self.waiting: tuple[Interrupt, ...] = ()

    async def go(self, given: object = None, **answers: dict[str, Any]) -> list[Any]:
        """Drive it to its end or its next pause; the messages then."""
        run = RunContext(run_id=self.run_id, shared=self.shared, answers=answers, guarded=True)
        with run_context(run):
            out = await self.agent.ainvoke(given, self.config, version="v2", durability="sync")
            await run.settled()
        self.waiting = out.interrupts
        messages: list[Any] = out.value["messages"]
        return messages

    def backs_off_after(self, number: int) -> bool:
        """Whether an attempt of that number has failed, and the next is not due."""
        tries = (
            self.shared._tries.get(self.run_id, {}) if isinstance(self.shared, InMemorySharedState) else {}
        )
        return any(one.number == number and one.due_ms and not one.running for one in tries.values())

    async def die(self, given: object, *, when: Callable[[], bool]) -> None:
        """Drive it, and end it there and then once something has happened."""
        task = asyncio.create_task(self.go(given))
        async with asyncio.timeout(10):
            while not when():  # noqa: ASYNC110 - what it looks at has no event
                await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])


class InThread:
    """An agent that is invoked synchronously, in a thread."""

    def __init__(self, agent: Any) -> None:
        self.agent = agent

    async def ainvoke(self, *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(self.agent.invoke, *args, **kwargs)


class Clock:
    """The clock of shared states in memory, moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ms = 1_000_000
        for module in ("tries", "models"):
            monkeypatch.setattr(f"placet.middleware.shared.{module}.now_ms", lambda: self.ms)

    def move(self, seconds: float) -> None:
        self.ms += round(seconds * 1000)
