"""The agent that `placet demo` runs: it looks an order up and asks before it refunds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.tools import tool

from placet.middleware import HumanInTheLoopMiddleware
from placet.middleware.testing import Call, ScriptedModel, Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.language_models import BaseChatModel


@tool
async def lookup_order(order_id: str) -> str:
    """Look up what an order cost and how it went."""
    return f"Order {order_id}: one kettle, 42.00 EUR, delivered broken."


@tool
async def refund(order_id: str, amount: float) -> str:
    """Pay an amount in EUR back to the customer."""
    return f"Refunded {amount:.2f} EUR for order {order_id}."


def _report(messages: Sequence[BaseMessage]) -> str:
    """Say what became of the refund, from what the reviewer or the tool answered."""
    answer = messages[-1]
    if isinstance(answer, ToolMessage) and answer.status == "error":
        return f"I did not refund anything. {answer.text}"
    _, _, result = answer.text.rpartition("Tool response:\n")  # what LangChain puts before an edited call's
    return result


def _model() -> BaseChatModel:
    if name := os.environ.get("PLACET_DEMO_MODEL"):
        return init_chat_model(name)
    return ScriptedModel(
        script=[
            Step("Let me look at the order.", calls=[Call("lookup_order", {"order_id": "A-17"})]),
            Step("I will refund it.", calls=[Call("refund", {"order_id": "A-17", "amount": 42.0})]),
            _report,
        ]
    )


agent = create_agent(
    _model(),
    tools=[lookup_order, refund],
    system_prompt="You are a shop's support agent. Look orders up; refund what arrived broken.",
    middleware=[
        HumanInTheLoopMiddleware(
            interrupt_on={"refund": {"allowed_decisions": ["approve", "edit", "reject", "respond"]}}
        )
    ],
    name="support",
)
