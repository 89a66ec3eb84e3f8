"""Agents with a gate, driven step by step; each step makes the agent anew, as another process would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from langchain.agents import create_agent
from langchain_core.messages import AnyMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from placet.approvals.interrupts import pause_of
from placet.approvals.tool_calls import pending_tool_calls
from placet.middleware import (
    HumanInTheLoopMiddleware,
    InMemorySharedState,
    RunContext,
    ToolLedgerMiddleware,
    run_context,
)
from placet.middleware.gate.tool_arguments import arguments_of
from placet.middleware.testing import Call, ScriptedModel, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langgraph.types import Interrupt

    from placet.state.approvals import ApprovalRequest

Mode = Literal["batched", "per_call"]
HELLO: Any = {"messages": [{"role": "user", "content": "go"}]}
PAY = Call("pay", {"amount": 1, "to": "ann"}, id="c-pay")
MAIL = Call("mail", {"to": "bob"}, id="c-mail")
LOOK = Call("look", {}, id="c-look")


class Shop:
    """A thread of an agent that makes these calls; `ran` is what its tools did."""

    def __init__(
        self, *calls: Call, mode: Mode = "batched", gates: Any = None, guarded: bool = False, **options: Any
    ) -> None:
        self.ran: list[Any] = []
        self.calls: Sequence[Call] = calls
        self.turns = 1
        self.gate: Any = HumanInTheLoopMiddleware
        self.mode = mode
        self.gates: Any = gates or {"pay": True, "mail": True}
        self.options = options
        self.before: list[Callable[[], Any]] = []
        self.after: list[Callable[[], Any]] = []
        self.guarded = guarded
        self.shared = InMemorySharedState()
        self.saver = InMemorySaver()
        self.config: Any = {"configurable": {"thread_id": "t", "__pregel_strict_resume": True}}
        self.interrupts: list[Interrupt] = []
        self.messages: list[AnyMessage] = []

        @tool
        async def pay(amount: int, to: str = "nobody") -> str:
            """Pay."""
            self.ran.append(("pay", amount, to))
            return "paid"

        @tool
        async def mail(to: str) -> str:
            """Mail."""
            self.ran.append(("mail", to))
            return "mailed"

        @tool
        async def look() -> str:
            """Look."""
            self.ran.append(("look",))
            return "seen"

        self.tools: list[Any] = [pay, mail, look]

    def agent(self) -> Any:
        """Make the agent, its gate between the middleware before and after it."""
        gate = self.gate(self.gates, interrupt_mode=self.mode, **self.options)
        makers = [*self.before, lambda: gate, *self.after]
        chain: list[Any] = [make() for make in makers]
        if not self.guarded:
            chain.append(ToolLedgerMiddleware())
        model = ScriptedModel(script=[*[Step(calls=self.calls)] * self.turns, "end"])
        return create_agent(model, self.tools, middleware=chain, checkpointer=self.saver)

    async def go(self, given: Any = HELLO) -> Shop:
        """Drive to a pause or to the end."""
        run = RunContext(run_id="r", shared=self.shared, guarded=self.guarded)
        with run_context(run):
            out = await self.agent().ainvoke(given, self.config, version="v2", durability="sync")
            await run.settled()
        self.interrupts = list(out.interrupts)
        self.messages = out.value["messages"]
        return self

    async def answer(self, *answers: Any) -> Shop:
        """Answer the open pauses in order, or the first of them."""
        ids = [one.id for one in self.interrupts]
        return await self.go(Command(resume=dict(zip(ids, answers, strict=False))))

    async def decide(self, *decisions: Any) -> Shop:
        """Give decisions, in the form that the mode has."""
        if self.mode == "batched":
            return await self.answer({"decisions": list(decisions)})
        return await self.answer(*decisions)

    async def requests(self) -> tuple[ApprovalRequest, ...]:
        """What Placet would ask of reviewers."""
        state = await self.agent().aget_state(self.config)
        return pause_of(
            run_id="r",
            agent="shop",
            interrupts=state.interrupts,
            pending=pending_tool_calls(state.values["messages"]),
            tool_schemas={one.name: arguments_of(one)["schema"] for one in self.tools},
        ).requests

    @property
    def asked(self) -> list[str]:
        """The tools that are asked about."""
        names: list[str] = []
        for one in self.interrupts:
            actions = one.value.get("action_requests", [one.value])
            names += [action["name"] for action in actions]
        return names

    @property
    def results(self) -> dict[str, str]:
        """What the model reads of each call."""
        return {m.tool_call_id: str(m.content) for m in self.messages if isinstance(m, ToolMessage)}
