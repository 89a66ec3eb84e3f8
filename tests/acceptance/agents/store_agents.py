"""An agent that remembers in the store; acceptance_effects.py says what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acceptance_effects import logged
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.tools import ToolRuntime  # noqa: TC002 (LangChain reads the annotation)
from langchain_core.tools import tool
from langgraph.config import get_store
from tool_agents import gate, report

from placet.middleware.testing import Call, ScriptedModel, Step

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

NOTES = ("notes", "ann")


class Visits(AgentMiddleware):
    """A node that counts the runs, over all threads."""

    async def abefore_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:  # noqa: ARG002
        """Count this one."""
        assert runtime.store is not None
        seen = await runtime.store.aget(NOTES, "visits")
        await runtime.store.aput(NOTES, "visits", {"count": (seen.value["count"] if seen else 0) + 1})


@tool
async def note(text: str, runtime: ToolRuntime) -> str:
    """Remember a text."""
    assert runtime.store is not None
    await runtime.store.aput(NOTES, "text", {"text": text})
    return "noted"


@tool
def recall() -> str:
    """Say what is remembered, from a thread."""
    store = get_store()
    found = {item.key: item.value for item in store.search(NOTES)}
    with logged("recall", namespaces=store.list_namespaces()):
        return f"visit {found['visits']['count']}: {found['text']['text']}"


remembering = create_agent(
    ScriptedModel(
        script=[Step(calls=[Call("note", {"text": "日本語"})]), Step(calls=[Call("recall")]), report]
    ),
    tools=[note, recall],
    middleware=[Visits(), gate("recall")],
)
