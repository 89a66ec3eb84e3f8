"""Agents whose state and questions hold more than JSON; acceptance_effects.py says what each does."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, TypedDict
from uuid import UUID

from acceptance_effects import logged
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from pydantic import BaseModel, Field


class Budget(BaseModel):
    """What a reviewer grants."""

    amount: Decimal = Field(gt=0)
    note: str = ""


class Level(Enum):
    """How urgent it is."""

    LOW = "low"
    HIGH = "high"


class Order(BaseModel):
    """A model within the state."""

    id: UUID
    placed_at: datetime
    level: Level


class Granted(TypedDict, total=False):
    """What was granted."""

    budget: Budget


class Typed(TypedDict, total=False):
    """One field of each kind."""

    amount: Decimal
    at: datetime
    id: UUID
    level: Level
    order: Order
    kinds: dict[str, str]
    answer: Any


AMOUNT = Decimal("42.10")
AT = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
ID = UUID("12345678-1234-5678-1234-567812345678")


async def spend(state: Granted) -> Granted:
    """Ask for a budget that fits the schema."""
    budget = interrupt("How much?", response_schema=Budget)
    with logged("spend", amount=str(budget.amount)):
        return {"budget": budget}


async def fill(state: Typed) -> Typed:
    """Put one value of each kind into the state."""
    order = Order(id=ID, placed_at=AT, level=Level.HIGH)
    return {"amount": AMOUNT, "at": AT, "id": ID, "level": Level.LOW, "order": order}


async def show(state: Typed) -> Typed:
    """Show the values to a person and record what kinds came out of the checkpoint."""
    shown = {"amount": state["amount"], "at": state["at"], "id": state["id"]}
    answer = interrupt({**shown, "raw": b"\x00\xff", "text": "日本語 🚀"})
    kinds = {name: type(value).__name__ for name, value in state.items()}
    with logged("typed", kinds=kinds):
        return {"kinds": kinds, "answer": answer}


schema_question = StateGraph(Granted).add_node(spend).add_edge(START, "spend").compile()
typed = StateGraph(Typed).add_sequence([fill, show]).add_edge(START, "fill").compile()
