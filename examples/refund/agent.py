import os

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model

from placet.middleware import HumanInTheLoopMiddleware
from placet.middleware.testing import Call, ScriptedModel, Step


def lookup_order(order_id: str) -> str:
    """Look up what an order cost and how it went."""
    return f"Order {order_id}: one kettle, 42.00 EUR, delivered broken."


def refund(order_id: str, amount: float) -> str:
    """Pay an amount in EUR back to the customer."""
    return f"Refunded {amount:.2f} EUR for order {order_id}."


script = [
    Step("Let me look at the order.", calls=[Call("lookup_order", {"order_id": "A-17"})]),
    Step("I will refund it.", calls=[Call("refund", {"order_id": "A-17", "amount": 42.0})]),
    lambda messages: f"This is what came of it: {messages[-1].text}",
]
name = os.environ.get("PLACET_DEMO_MODEL")  # any string that init_chat_model takes: "openai:gpt-5"

agent = create_agent(
    init_chat_model(name) if name else ScriptedModel(script=script),
    tools=[lookup_order, refund],
    middleware=[
        HumanInTheLoopMiddleware(
            interrupt_on={"refund": {"allowed_decisions": ["approve", "edit", "reject", "respond"]}}
        )
    ],
)
