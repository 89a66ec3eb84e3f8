"""Agents made with `create_agent`; acceptance_effects.py says what each does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from acceptance_effects import logged
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import tool
from langgraph.types import interrupt

from placet.middleware import ModelFallbackMiddleware, ModelRetryMiddleware, ToolRetryMiddleware, idempotent
from placet.middleware.testing import Call, ScriptedModel, Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain.agents.middleware.human_in_the_loop import InterruptOnConfig


@tool
@idempotent
async def look_up(key: str) -> str:
    """Find something; nobody is asked."""
    with logged("look_up", key=key):
        return f"found {key}"


@tool
async def pay(to: str, amount: float) -> str:
    """Pay someone."""
    with logged("pay", to=to, amount=amount):
        return f"paid {to} {amount:g}"


@tool
async def mail(to: str, text: str) -> str:
    """Write to someone."""
    with logged("mail", to=to, text=text):
        return f"mailed {to}"


@tool
async def paint(thing: str) -> str:
    """Paint a thing in the colour that a person says."""
    colour = interrupt("Which colour?")
    with logged("paint", thing=thing, colour=colour):
        return f"painted {thing} {colour}"


@tool
def count(n: int) -> str:
    """Count, in a thread."""
    with logged("count", n=n):
        return f"counted {n}"


@tool
async def explode() -> str:
    """Fail."""
    with logged("explode"):
        raise RuntimeError("boom")


def report(messages: Sequence[BaseMessage]) -> str:
    """Say what the last turn's calls came to, in the order in which they were made."""
    last = max(index for index, message in enumerate(messages) if isinstance(message, AIMessage))
    return "done: " + "; ".join(message.text for message in messages[last + 1 :])


def gate(*tools: str, mode: Literal["batched", "per_call"] = "batched") -> HumanInTheLoopMiddleware:
    """Ask about these tools, all four decisions allowed."""
    asked: InterruptOnConfig = {"allowed_decisions": ["approve", "edit", "reject", "respond"]}
    return HumanInTheLoopMiddleware(interrupt_on=dict.fromkeys(tools, asked), interrupt_mode=mode)


def calling(*calls: Call) -> ScriptedModel:
    """Make a model that makes these calls in one message, then reports."""
    return ScriptedModel(script=[Step("working", calls=calls), report])


_three = calling(
    Call("pay", {"to": "ann", "amount": 10}),
    Call("look_up", {"key": "a"}),
    Call("mail", {"to": "bob", "text": "hello"}),
)

plain = create_agent(calling(Call("look_up", {"key": "a"})), tools=[look_up])
batched = create_agent(_three, tools=[pay, mail, look_up], middleware=[gate("pay", "mail")])
per_call = create_agent(_three, tools=[pay, mail, look_up], middleware=[gate("pay", "mail", mode="per_call")])
tool_question = create_agent(calling(Call("paint", {"thing": "door"})), tools=[paint])
sync_tool = create_agent(calling(Call("count", {"n": 3})), tools=[count], middleware=[gate("count")])
failing_tool = create_agent(calling(Call("explode")), tools=[explode])
failing_model = create_agent(ScriptedModel(script=[Step(error=ConnectionError("no model"))]))
again = create_agent(
    ScriptedModel(
        script=[
            Step("paying", calls=[Call("pay", {"to": "ann", "amount": 10})]),
            Step("once more", calls=[Call("pay", {"to": "ann", "amount": 10})]),
            report,
        ]
    ),
    tools=[pay],
    middleware=[gate("pay")],
)
wrapped = create_agent(
    calling(Call("paint", {"thing": "door"})),
    tools=[paint],
    middleware=[
        ToolRetryMiddleware(max_retries=3, initial_delay=0),
        ModelRetryMiddleware(max_retries=3, initial_delay=0),
        ModelFallbackMiddleware(calling(), calling()),
    ],
)
