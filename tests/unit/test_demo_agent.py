"""The demo agent and the README's: both pause before a refund and say what became of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from placet.agents.graphs import Agents
from placet.settings import Settings

EXAMPLE = Path(__file__).parents[2] / "examples" / "refund" / "langgraph.json"
EDIT = {
    "type": "edit",
    "edited_action": {"name": "refund", "args": {"order_id": "A-17", "amount": 20}},
}


async def last_text(file: Path, decision: dict[str, Any]) -> str:
    saver = InMemorySaver()
    config: Any = {"configurable": {"thread_id": "t"}}
    agents = await Agents.load(Settings(config=str(file)), checkpointer=saver)
    async with agents.open("support", config) as graph:
        paused = await graph.ainvoke({"messages": [("user", "My kettle is broken.")]}, config, version="v2")
        (pause,) = paused.interrupts
        (action,) = pause.value["action_requests"]
        assert (action["name"], action["args"]) == ("refund", {"order_id": "A-17", "amount": 42.0})
        done = await graph.ainvoke(
            Command(resume={pause.id: {"decisions": [decision]}}), config, version="v2"
        )
        assert not done.interrupts
        return str(done.value["messages"][-1].text)


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        ({"type": "approve"}, "Refunded 42.00 EUR for order A-17."),
        (EDIT, "Refunded 20.00 EUR for order A-17."),
        (
            {"type": "reject", "message": "too much"},
            "I did not refund anything. User rejected the tool call for `refund` with reason: too much",
        ),
        ({"type": "respond", "message": "Sent a new one."}, "Sent a new one."),
    ],
)
async def test_the_demo_agent_says_what_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decision: dict[str, Any], said: str
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv("PLACET_DEMO_MODEL", raising=False)
    file = tmp_path / "langgraph.json"
    file.write_text(json.dumps({"graphs": {"support": "placet.dev.demo_agent:agent"}}))
    assert await last_text(file, decision) == said


async def test_the_example_does_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv("PLACET_DEMO_MODEL", raising=False)
    said = await last_text(EXAMPLE, {"type": "approve"})
    assert said == "This is what came of it: Refunded 42.00 EUR for order A-17."
