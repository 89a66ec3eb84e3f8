"""Each agent of tests/acceptance/agents does what its table says, here on a saver in memory."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from placet.agents.graphs import Agents
from placet.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from langchain_core.runnables import RunnableConfig
    from langgraph.types import Interrupt

FILE = Path(__file__).parents[1] / "acceptance" / "agents" / "langgraph.json"
MESSAGES = {"messages": [{"role": "user", "content": "gate-1"}]}


class Thread:
    """One thread of an agent; every step loads the agents anew, as another process would."""

    def __init__(self, name: str, tmp_path: Path) -> None:
        self.name = name
        self.saver = InMemorySaver()
        self.config: RunnableConfig = {"configurable": {"thread_id": "t"}}
        self.tmp_path = tmp_path

    @asynccontextmanager
    async def graph(self) -> AsyncIterator[Any]:
        agents = await Agents.load(Settings(config=str(FILE)), checkpointer=self.saver)
        async with agents.open(self.name, self.config) as graph:
            yield graph

    async def go(self, given: object) -> tuple[Any, list[Interrupt]]:
        """Invoke once; give the state's values and the interrupts."""
        async with self.graph() as graph:
            out = await graph.ainvoke(given, self.config, version="v2", durability="sync")
            return (await graph.aget_state(self.config)).values, list(out.interrupts)

    async def answer(self, interrupts: list[Interrupt], *answers: object) -> tuple[Any, list[Interrupt]]:
        ids = [interrupt.id for interrupt in interrupts]
        return await self.go(Command(resume=dict(zip(ids, answers, strict=True))))

    def effects(self) -> list[tuple[str, str, Any]]:
        file = self.tmp_path / "log"
        lines = file.read_text().splitlines() if file.exists() else []
        effects = []
        for line in lines:
            pid, what, name, args = line.split(" ", 3)
            assert int(pid) == os.getpid()
            effects.append((what, name, json.loads(args)))
        return effects

    def started(self) -> list[str]:
        return [name for what, name, _ in self.effects() if what == "start"]


@pytest.fixture
def thread(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Thread:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PLACET_TEST_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("PLACET_TEST_BARRIERS", str(tmp_path))
    return Thread(request.param, tmp_path)


def agent(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("thread", [name], indirect=True)


@agent("plain")
async def test_plain(thread: Thread) -> None:
    values, pauses = await thread.go(MESSAGES)
    assert (values["messages"][-1].text, pauses) == ("done: found a", [])
    assert thread.effects() == [("start", "look_up", {"key": "a"}), ("end", "look_up", {"key": "a"})]


@agent("batched")
async def test_batched(thread: Thread) -> None:
    _, pauses = await thread.go(MESSAGES)
    (pause,) = pauses
    assert [(a["name"], a["args"]) for a in pause.value["action_requests"]] == [
        ("pay", {"to": "ann", "amount": 10}),
        ("mail", {"to": "bob", "text": "hello"}),
    ]
    assert thread.effects() == []
    decisions = [{"type": "approve"}, {"type": "reject", "message": "no"}]
    values, pauses = await thread.answer(pauses, {"decisions": decisions})
    assert pauses == []
    assert values["messages"][-1].text.startswith("done: ")
    assert "paid ann 10" in values["messages"][-1].text
    assert sorted(thread.started()) == ["look_up", "pay"]


@agent("per_call")
async def test_per_call(thread: Thread) -> None:
    _, pauses = await thread.go(MESSAGES)
    pauses.sort(key=lambda p: p.value["name"], reverse=True)  # they are raised at once, in any order
    assert [p.value["name"] for p in pauses] == ["pay", "mail"]
    assert thread.started() == ["look_up"]
    _, left = await thread.answer(pauses[1:], {"type": "approve"})
    assert [p.id for p in left] == [pauses[0].id]
    values, left = await thread.answer(pauses[:1], {"type": "respond", "message": "not now"})
    assert (values["messages"][-1].text, left) == ("done: not now; found a; mailed bob", [])
    assert sorted(thread.started()) == ["look_up", "mail"]


@agent("tool_question")
async def test_tool_question(thread: Thread) -> None:
    _, pauses = await thread.go(MESSAGES)
    assert [p.value for p in pauses] == ["Which colour?"]
    values, _ = await thread.answer(pauses, "")
    assert values["messages"][-1].text == "done: painted door "
    assert thread.effects()[0] == ("start", "paint", {"thing": "door", "colour": ""})


@agent("sync_tool")
async def test_sync_tool(thread: Thread) -> None:
    _, pauses = await thread.go(MESSAGES)
    edit = {"type": "edit", "edited_action": {"name": "count", "args": {"n": 4}}}
    values, _ = await thread.answer(pauses, {"decisions": [edit]})
    assert values["messages"][-1].text.endswith("counted 4")
    assert thread.effects()[0] == ("start", "count", {"n": 4})


@pytest.mark.parametrize(
    ("thread", "said"),
    [("slow_tool", "done: passed gate-1"), ("slow_model", "done: gate-1")],
    indirect=["thread"],
)
async def test_slow_ones_wait_at_their_barrier(thread: Thread, said: str) -> None:
    running = asyncio.create_task(thread.go(MESSAGES))
    async with asyncio.timeout(10):
        while not thread.started():  # noqa: ASYNC110 (a file has no event)
            await asyncio.sleep(0)
    assert not running.done()
    (thread.tmp_path / "gate-1").touch()
    values, _ = await running
    assert values["messages"][-1].text == said
    assert [what for what, _, _ in thread.effects()] == ["start", "end"]


@agent("gated_slow_tool")
async def test_gated_slow_tool(thread: Thread) -> None:
    (thread.tmp_path / "gate-1").touch()
    _, pauses = await thread.go(MESSAGES)
    assert thread.effects() == []
    values, _ = await thread.answer(pauses, {"decisions": [{"type": "approve"}]})
    assert values["messages"][-1].text == "done: passed gate-1"


@pytest.mark.parametrize(
    ("thread", "error"),
    [("failing_tool", RuntimeError("boom")), ("failing_model", ConnectionError("no model"))],
    indirect=["thread"],
)
async def test_failing_ones(thread: Thread, error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        await thread.go(MESSAGES)
    assert [what for what, _, _ in thread.effects()] in ([], ["start"])


@agent("questions")
async def test_questions(thread: Thread) -> None:
    _, first = await thread.go({})
    assert [p.value for p in first] == ["first?"]
    _, second = await thread.answer(first, 0)
    assert [p.value for p in second] == [{"ask": "second?"}]
    assert second[0].id != first[0].id
    values, _ = await thread.answer(second, False)
    assert values == {"answers": [0, False]}
    assert thread.started() == ["ask"]


@agent("parallel")
async def test_parallel(thread: Thread) -> None:
    _, pauses = await thread.go({})
    assert sorted(p.value for p in pauses) == ["left?", "right?"]
    _, left = await thread.answer([p for p in pauses if p.value == "right?"], "R")
    assert [p.value for p in left] == ["left?"]
    values, _ = await thread.answer(left, "L")
    assert values == {"left": "L", "right": "R"}
    assert thread.started() == ["join"]


@agent("subgraph")
async def test_subgraph(thread: Thread) -> None:
    _, pauses = await thread.go({})
    assert [p.value for p in pauses] == ["inner?"]
    assert (await thread.answer(pauses, "yes"))[0] == {"answer": "yes"}
    assert thread.started() == ["inner"]


@pytest.mark.parametrize(
    ("thread", "effects", "steps"),
    [("before", [], ["plan"]), ("after", ["act"], ["plan", "act"])],
    indirect=["thread"],
)
async def test_static_breakpoints(thread: Thread, effects: list[str], steps: list[str]) -> None:
    values, pauses = await thread.go({})
    assert (values, pauses) == ({"steps": steps}, [])
    assert thread.started() == effects
    values, _ = await thread.go(None)
    assert values == {"steps": ["plan", "act", "finish"]}
    assert thread.started() == ["act"]


@agent("schema_question")
async def test_schema_question(thread: Thread) -> None:
    _, pauses = await thread.go({})
    assert pauses[0].value == "How much?"
    assert isinstance(pauses[0].response_schema, dict)
    assert pauses[0].response_schema["title"] == "Budget"
    with pytest.raises(ValueError, match="greater than 0"):
        await thread.answer(pauses, {"amount": "-1"})
    values, _ = await thread.answer(pauses, {"amount": "12.50"})
    assert values["budget"].amount == Decimal("12.50")
    assert type(values["budget"]).__name__ == "Budget"
    assert thread.effects()[0] == ("start", "spend", {"amount": "12.50"})


@agent("typed")
async def test_typed(thread: Thread) -> None:
    _, pauses = await thread.go({})
    assert {name: type(value).__name__ for name, value in pauses[0].value.items()} == {
        "amount": "Decimal",
        "at": "datetime",
        "id": "UUID",
        "raw": "bytes",
        "text": "str",
    }
    values, _ = await thread.answer(pauses, {"ok": None})
    assert values["answer"] == {"ok": None}
    assert values["kinds"] == {
        "amount": "Decimal",
        "at": "datetime",
        "id": "UUID",
        "level": "Level",
        "order": "Order",
    }


@agent("made")
async def test_made(thread: Thread) -> None:
    thread.config["configurable"]["question"] = "which?"
    _, pauses = await thread.go({})
    assert [p.value for p in pauses] == ["which?"]
    assert (await thread.answer(pauses, "this"))[0] == {"answer": "this"}
