"""Agents that try again or fall back; the test serves their models (tests/wire.py), at PLACET_TEST_WIRE.

| agent         | what it does                                                                      |
|---------------|-----------------------------------------------------------------------------------|
| parked_tool   | flaky(name="parked") fails, three attempts; each wait of 3 s is a timer            |
| waiting_tool  | flaky(name="waiting"), as above; each wait is made on the worker                  |
| parked_model  | model `parked`, three attempts; each wait of 3 s is a timer                        |
| waiting_model | model `waiting`, as above; each wait is made on the worker                        |
| unsafe        | charge(), gated, has its effect and raises TimeoutError, under a retry of all tools |
| limited       | model `limited`, two attempts, no wait of its own                                  |
| falling_back  | model `first`, then `second`; breakers open after 8 failures, for two minutes      |
"""

from __future__ import annotations

import os

from acceptance_effects import logged
from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import SecretStr
from tool_agents import calling, gate

from placet.middleware import ModelFallbackMiddleware, ModelRetryMiddleware, ToolRetryMiddleware, idempotent
from placet.middleware.testing import Call


def served(model: str) -> ChatOpenAI:
    """A model of the test's server, without retries of its own."""
    url = os.environ.get("PLACET_TEST_WIRE", "http://127.0.0.1:1")
    return ChatOpenAI(model=model, base_url=f"{url}/v1", api_key=SecretStr("test"), max_retries=0)


@tool
@idempotent
async def flaky(name: str) -> str:
    """Fail."""
    with logged(name):
        raise ConnectionError("no line")


@tool
async def charge() -> str:
    """Charge, and do not hear of it."""
    with logged("charge"):
        raise TimeoutError("read timed out")


parked_tool = create_agent(
    calling(Call("flaky", {"name": "parked"})),
    tools=[flaky],
    middleware=[ToolRetryMiddleware(initial_delay=3.0, backoff_factor=0.0, jitter=False)],
)
waiting_tool = create_agent(
    calling(Call("flaky", {"name": "waiting"})),
    tools=[flaky],
    middleware=[ToolRetryMiddleware(initial_delay=3.0, backoff_factor=0.0, jitter=False, park_after=60)],
)
parked_model = create_agent(
    served("parked"),
    middleware=[ModelRetryMiddleware(initial_delay=3.0, backoff_factor=0.0, jitter=False)],
)
waiting_model = create_agent(
    served("waiting"),
    middleware=[ModelRetryMiddleware(initial_delay=3.0, backoff_factor=0.0, jitter=False, park_after=60)],
)
unsafe = create_agent(
    calling(Call("charge")), tools=[charge], middleware=[gate("charge"), ToolRetryMiddleware()]
)
limited = create_agent(served("limited"), middleware=[ModelRetryMiddleware(max_retries=1, initial_delay=0)])
falling_back = create_agent(
    served("first"),
    middleware=[ModelFallbackMiddleware(served("second"), failure_threshold=8, cool_down=120)],
)
