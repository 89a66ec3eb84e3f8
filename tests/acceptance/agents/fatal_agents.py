"""An agent that takes its worker with it, and one that does no harm; see acceptance_effects.py."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
from typing import TYPE_CHECKING, Any, TypedDict

from acceptance_effects import is_open, logged
from langgraph.graph import START, StateGraph

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph


class Fate(TypedDict, total=False):
    """How to die, and how many steps were done."""

    how: str
    steps: int


async def step(state: Fate) -> Fate:
    """Take a moment and get past a checkpoint."""
    await asyncio.sleep(0.2)
    return {"steps": state.get("steps", 0) + 1}


async def die(state: Fate) -> Fate:
    """Kill the process, until the test has healed it."""
    with logged("die", how=state["how"]):
        if not is_open("healed"):
            if state["how"] == "segfault":
                ctypes.string_at(0)
            os.kill(os.getpid(), signal.SIGKILL)
        return {}


def _graph(*nodes: Any) -> CompiledStateGraph[Fate, None, Fate, Fate]:
    graph = StateGraph(Fate)
    graph.add_sequence([(f"{node.__name__}-{number}", node) for number, node in enumerate(nodes)])
    return graph.add_edge(START, f"{nodes[0].__name__}-0").compile()


poison = _graph(die)
brief = _graph(step, step)
