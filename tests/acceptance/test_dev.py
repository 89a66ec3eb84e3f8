"""`placet dev`: data that stays, workers that follow the code, a clean end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT
from typing import TYPE_CHECKING

import psutil

from placet import Placet
from placet.dev.embedded import free_port

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from pathlib import Path

PATIENCE = 90
AGENT = """
from typing import TypedDict
from langgraph.graph import StateGraph
import words

class State(TypedDict, total=False):
    said: str

agent = StateGraph(State).add_node("say", lambda state: {"said": words.WORD})
agent.set_entry_point("say")
"""


class Dev:
    """One `placet dev` in a project of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.said: list[str] = []
        self.process: Process
        (folder / "langgraph.json").write_text(json.dumps({"graphs": {"sayer": "./agent.py:agent"}}))
        self.write("one")

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def write(self, word: str) -> None:
        (self.folder / "agent.py").write_text(AGENT)
        (self.folder / "words.py").write_text(f"WORD = {word!r}\n")

    async def start(self, *options: str) -> None:
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "placet.cli", "dev", "--port", str(self.port), "--processes", "1"),
            *options,
            cwd=self.folder,
            env=os.environ,
            stdout=PIPE,
            stderr=STDOUT,
        )

    async def line(self, *parts: str) -> str:
        """Read on until a line holds all these parts."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            while line := (await self.process.stdout.readline()).decode():
                self.said.append(line)
                if all(part in line for part in parts):
                    return line
        raise AssertionError("".join(self.said))

    async def stop(self) -> None:
        """Ctrl-C; it ends well and leaves no process."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        assert len(children) >= 2
        self.process.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE):
            rest, _ = await self.process.communicate()
        assert self.process.returncode == 0
        assert "Traceback" not in rest.decode()
        assert [child for child in children if child.is_running()] == []


async def test_it_follows_the_code_keeps_data_and_ends_clean(tmp_path: Path) -> None:
    dev = Dev(tmp_path)
    await dev.start()
    await dev.line("ready: 1 worker, agents: sayer")
    async with Placet.connect(dev.url) as placet:
        first = await placet.wait((await placet.enqueue("sayer", {})).id, timeout=PATIENCE)
        assert first.result == {"said": "one"}
        (tmp_path / "client.py").write_text("a client's script: no worker imports it")
        (tmp_path / "words.py").write_text("WORD = 'two'")
        await dev.line("changed: words.py")
        await dev.line("ready: 1 worker, agents: sayer")
        second = await placet.wait((await placet.enqueue("sayer", {})).id, timeout=PATIENCE)
        assert second.result == {"said": "two"}

    other = Dev(tmp_path)
    await other.start()
    await other.line("error: ", "another embedded server uses it")
    assert await other.process.wait() == 1
    await dev.stop()

    (tmp_path / "agent.py").write_text("a mistake")
    await dev.start()
    await dev.line("error: ", "graphs.sayer")
    await dev.line("waiting for a change")
    async with Placet.connect(dev.url) as placet:
        assert (await placet.get(first.id)).result == {"said": "one"}
    assert sum("graphs.sayer" in line for line in dev.said) == 1
    dev.write("three")
    await dev.line("ready: 1 worker, agents: sayer")
    await dev.stop()

    await dev.start("--reset")
    await dev.line("ready: 1 worker, agents: sayer")
    async with Placet.connect(dev.url) as placet:
        assert await placet.runs() == []
    await dev.stop()


async def test_it_says_what_matters_and_nothing_else(tmp_path: Path) -> None:
    dev = Dev(tmp_path)
    (tmp_path / "agent.py").write_text(AGENT + "agent = agent.compile(interrupt_before=['say'])\n")
    await dev.start("--processes", "2")
    await dev.line("ready: 2 workers, agents: sayer")
    await dev.line("try: placet enqueue sayer --input ")
    async with Placet.connect(dev.url) as placet:
        run = await placet.enqueue("sayer", {})
        await placet.wait(run.id, until="pause", timeout=PATIENCE)
        [asked] = await placet.approvals()
        await dev.line(f"approval {asked.id} waits: placet approve {asked.id}")
        await placet.decide(asked.id, {"type": "approve"}, reviewer="ann")
        await dev.line(f"run {run.id} ended: success")
        failing = await placet.enqueue("nobody", {})
        await dev.line(f"run {failing.id} ended: error, UnknownAgent: ")
    assert [line for line in dev.said if "  placet | " not in line] == []
    await dev.stop()


async def test_it_starts_nothing_without_a_langgraph_json(tmp_path: Path) -> None:
    dev = Dev(tmp_path)
    for text in ("{", '{"graphs": {"sayer": "./agent.py"}}', None):
        config = tmp_path / "langgraph.json"
        config.write_text(text) if text else config.unlink()
        await dev.start()
        out, _ = await dev.process.communicate()
        assert dev.process.returncode == 1
        assert out.decode().startswith("error: ")
        assert len(out.decode().splitlines()) == 1
        assert not (tmp_path / ".placet").exists()
