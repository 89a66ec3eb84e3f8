"""Agents with Placet's own gate, by its mode; ../acceptance_effects.py says what their tools do.

| agent    | what it does and where it pauses                                                            |
|----------|---------------------------------------------------------------------------------------------|
| three    | pay(to="ann", amount=10), look_up(key="a"), mail(to="bob", text="hello"); pay and mail are  |
|          | gated, pay with a policy; middleware before the gate logs `entered` for each call           |
| judged   | pay and mail, gated when the number of verdicts (logged as `judged`) in the log is odd       |
| again    | pay(to="ann", amount=10), then the same call once more                                      |
| wrapped  | pay inside three tool retries, three model retries and two fallbacks                         |
| typed    | send(…) of five types, logged with what the tool got                                        |
| waiting  | pay; between gate and tool, logged as `between`, it blocks at barrier `between`             |
| changing | as waiting, and the second time that it comes there it asks for 1000                        |
"""

from __future__ import annotations

import os
from datetime import datetime  # noqa: TC003 - the tool's schema is made of it
from decimal import Decimal  # noqa: TC003
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from acceptance_effects import barrier, logged
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    ToolRetryMiddleware,
)
from langchain_core.tools import tool
from tool_agents import calling, look_up, mail, pay, report

from placet.middleware import HumanInTheLoopMiddleware
from placet.middleware.testing import Call, ScriptedModel, Step

if TYPE_CHECKING:
    from langgraph.prebuilt.tool_node import ToolCallRequest

Mode = Literal["batched", "per_call"]
_PAY = Call("pay", {"to": "ann", "amount": 10})
_MAIL = Call("mail", {"to": "bob", "text": "hello"})


def _times(what: str) -> int:
    return Path(os.environ["PLACET_TEST_LOG"]).read_text().count(f" start {what} ")


def gate(mode: Mode, **interrupt_on: Any) -> HumanInTheLoopMiddleware[Any, Any, Any]:
    """Ask about these tools."""
    return HumanInTheLoopMiddleware(interrupt_on, interrupt_mode=mode)


class Entered(AgentMiddleware[Any, Any, Any]):
    """Has an effect of its own around each tool call."""

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Log the call."""
        with logged("entered", tool=request.tool_call["name"]):
            pass
        return await handler(request)


class Between(AgentMiddleware[Any, Any, Any]):
    """Stands between the gate and the tool."""

    def __init__(self, *, changes: bool) -> None:
        super().__init__()
        self.changes = changes

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Wait, and ask for more the second time."""
        with logged("between", args=request.tool_call["args"]):
            await barrier("between")
        if self.changes and _times("between") > 1:
            args = {**request.tool_call["args"], "amount": 1000}
            request = request.override(tool_call={**request.tool_call, "args": args})
        return await handler(request)


@tool
async def send(amount: Decimal, at: datetime, key: UUID, data: bytes, word: str) -> str:
    """Send values of several types."""
    given = {"amount": amount, "at": at, "key": key, "data": data, "word": word}
    with logged("send", **{name: [type(one).__name__, str(one)] for name, one in given.items()}):
        return f"sent {word}"


def odd(_: ToolCallRequest) -> bool:
    """Say another thing each time."""
    with logged("judged"):
        return _times("judged") % 2 == 1


def agents(mode: Mode) -> dict[str, Any]:
    """All of them, with gates of one mode."""
    policy = {"allowed_decisions": ["approve", "edit", "reject"], "policy": {"reviewers": ["ann", "bob"]}}
    judged = {"allowed_decisions": ["approve", "reject"], "when": odd}
    twice = ScriptedModel(script=[Step(calls=[_PAY]), Step(calls=[_PAY]), report])
    args = {"amount": "1.10", "at": "2026-01-02T00:00:00Z", "key": str(UUID(int=7)), "data": "raw"}
    sending = calling(Call("send", args | {"word": "日本語 🚀"}))
    retries: list[Any] = [
        ToolRetryMiddleware(max_retries=3, initial_delay=0),
        ModelRetryMiddleware(max_retries=3, initial_delay=0),
        ModelFallbackMiddleware(calling(), calling()),
    ]
    between = [gate(mode, pay=True), Between(changes=False)]
    changing = [gate(mode, pay=True), Between(changes=True)]
    tools = [pay, mail, look_up]
    three = calling(_PAY, Call("look_up", {"key": "a"}), _MAIL)
    return {
        "three": create_agent(three, tools, middleware=[Entered(), gate(mode, pay=policy, mail=True)]),
        "judged": create_agent(calling(_PAY, _MAIL), tools, middleware=[gate(mode, pay=judged, mail=judged)]),
        "again": create_agent(twice, tools, middleware=[gate(mode, pay=True)]),
        "wrapped": create_agent(calling(_PAY), tools, middleware=[*retries, gate(mode, pay=True)]),
        "typed": create_agent(sending, [send], middleware=[gate(mode, send=True)]),
        "waiting": create_agent(calling(_PAY), tools, middleware=between),
        "changing": create_agent(calling(_PAY), tools, middleware=changing),
    }


for _mode in ("batched", "per_call"):
    globals().update({f"{name}_{_mode}": graph for name, graph in agents(_mode).items()})
