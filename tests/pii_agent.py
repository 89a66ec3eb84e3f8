"""An agent that sends things to people, on one thread of one process, and what it has written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from placet.middleware import (
    HumanInTheLoopMiddleware,
    InMemorySharedState,
    PIIMiddleware,
    RunContext,
    ToolLedgerMiddleware,
    run_context,
)
from placet.middleware.testing import Call, ScriptedModel, Step

if TYPE_CHECKING:
    from collections.abc import Sequence

MAIL, OTHER = "jane.doe@example.com", "joe@example.org"
CARD = "4532015112830366"
HELLO: Any = {"messages": [{"role": "user", "content": "hello"}]}


class World:
    """What the tools were given."""

    def __init__(self) -> None:
        self.given: list[Any] = []
        self.fails: list[Exception] = []
        self.answers = "sent to {to}"


class Driver:
    """An agent on one thread."""

    def __init__(
        self,
        world: World,
        *,
        guarded: bool,
        middleware: Sequence[Any],
        script: Sequence[Any],
        ledger_last: bool = False,
    ) -> None:
        @tool
        async def send(to: Any, text: str = "") -> str:
            """Send a text to somebody."""
            world.given.append({"to": to, "text": text})
            if world.fails:
                raise world.fails.pop(0)
            return world.answers.format(to=to)

        self.saver = InMemorySaver()
        self.run = RunContext(run_id="r", shared=InMemorySharedState(), guarded=guarded)
        ledger = [] if guarded else [ToolLedgerMiddleware()]
        rules = [one for one in middleware if isinstance(one, PIIMiddleware)]
        chain = [*(one for one in middleware if one not in rules), *ledger, *rules]
        if ledger_last:
            chain = [*middleware, *ledger]
        self.agent: Any = create_agent(
            ScriptedModel(script=list(script)), [send], middleware=chain, checkpointer=self.saver
        )
        self.config: Any = {"configurable": {"thread_id": "t"}}
        self.asked: Any = None

    async def go(self, given: object) -> list[Any]:
        """Drive to a pause or the end; the thread's messages."""
        with run_context(self.run):
            out = await self.agent.ainvoke(given, self.config, version="v2", durability="sync")
        self.asked = out.interrupts[0].value if out.interrupts else None
        messages: list[Any] = out.value["messages"]
        return messages

    async def decide(self, *decisions: dict[str, Any]) -> list[Any]:
        return await self.go(Command(resume={"decisions": list(decisions)}))

    @property
    def written(self) -> str:
        """All that the checkpointer and the ledger hold."""
        calls = vars(self.run.shared)
        return repr((dict(self.saver.storage), dict(self.saver.writes), dict(self.saver.blobs), calls))


def gate(**more: Any) -> HumanInTheLoopMiddleware[Any, Any, Any]:
    config: Any = {"allowed_decisions": ["approve", "edit"], **more}
    return HumanInTheLoopMiddleware({"send": config})


def sealing(kind: str = "email", **more: Any) -> PIIMiddleware:
    return PIIMiddleware(kind, apply_to_tool_args=True, **more)


def sends(*to: Any, **more: Any) -> list[Any]:
    return [Step(calls=[Call("send", {"to": one, **more}) for one in to]), "end"]
