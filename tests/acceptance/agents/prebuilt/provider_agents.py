"""An agent of a provider whose own search finds its tools; WIRE_URL is the server that it talks to."""

from __future__ import annotations

import os

from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from pydantic import SecretStr
from tool_agents import gate, look_up, pay

from placet.middleware import ProviderToolSearchMiddleware

_url = os.environ.get("WIRE_URL", "http://127.0.0.1:9")
_model = ChatAnthropic(model="claude-test", base_url=_url, api_key=SecretStr("test"), max_retries=0)
searched = create_agent(
    _model,
    tools=[pay, look_up],
    middleware=[ProviderToolSearchMiddleware(searchable_tools=["look_up"]), gate("pay")],
)
