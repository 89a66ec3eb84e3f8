"""What the shell's model reads when its session is not the one it had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from placet.middleware import (
    AgentMiddleware,
    HostExecutionPolicy,
    InMemorySharedState,
    RedactionRule,
    RunContext,
    ShellToolMiddleware,
    before_model,
    run_context,
)
from placet.middleware.testing import Call, ScriptedModel, Step

if TYPE_CHECKING:
    from pathlib import Path

# LangChain's session does not close its pipes when it stops
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@before_model
def stop(state: Any, runtime: Any) -> None:
    """Pause before each model call that answers a `stop`."""
    if state["messages"][-1].text.startswith("STOP"):
        interrupt("go on?")


class Thread:
    """An agent with a shell; each `go` is another process, so that the session before is lost."""

    def __init__(self, *commands: str, workspace: Path | None = None, **options: Any) -> None:
        self.steps = [Step(calls=[Call("shell", {"command": command})]) for command in commands]
        self.saver = InMemorySaver()
        self.workspace, self.options = workspace, options
        self.shared = InMemorySharedState()

    async def go(self, given: Any, *, run_id: str = "r") -> list[str]:
        shell = ShellToolMiddleware(self.workspace, **self.options)
        stack: list[AgentMiddleware[Any, Any, Any]] = [shell, stop]
        model = ScriptedModel(script=[*self.steps, "done"])
        agent = create_agent(model, middleware=stack, checkpointer=self.saver)
        with run_context(RunContext(run_id=run_id, shared=self.shared)):
            out = await agent.ainvoke(given, {"configurable": {"thread_id": "t"}}, durability="sync")
        return [message.text for message in out["messages"] if isinstance(message, ToolMessage)]


GO = {"messages": [{"role": "user", "content": "go"}]}
LOST = "[The shell session was lost, a new one was started: "


async def test_a_session_that_was_not_lost_is_the_same() -> None:
    thread = Thread("cd /; x=1", 'echo "$PWD $x"')
    assert await thread.go(GO) == ["<no output>", "/ 1\n"]


async def test_directory_and_exported_variables_are_taken_up(tmp_path: Path) -> None:
    thread = Thread("export A='x \"y\" $z'; B=2; cd /tmp; echo STOP", 'echo "$A|$B|$PWD"', workspace=tmp_path)
    await thread.go(GO)
    _, second = await thread.go(Command(resume=True))
    notice, _, output = second.partition("]\n")
    assert output == 'x "y" $z||/tmp\n'
    assert notice == LOST + (
        "the working directory is /tmp as before; exported variables were kept;"
        " functions and background processes are gone."
    )


async def test_a_temporary_workspace_is_gone() -> None:
    thread = Thread("echo STOP > a; cat a", "ls")
    await thread.go(GO)
    _, second = await thread.go(Command(resume=True))
    assert "is not there any more; " in second
    assert "so are the files of its temporary workspace.]\n<no output>" in second


async def test_what_a_rule_finds_something_in_is_not_kept() -> None:
    thread = Thread(
        "export MAIL=ann@example.org; echo STOP",
        'echo "<$MAIL>"',
        redaction_rules=[RedactionRule(pii_type="email", strategy="block")],
    )
    await thread.go(GO)
    _, second = await thread.go(Command(resume=True))
    assert "exported variables were kept, except MAIL;" in second
    assert second.endswith("<>\n")
    (state,) = [value async for value in thread.saver.alist(None, limit=1)]
    assert "ann@example.org" not in str(
        [m.artifact for m in state.checkpoint["channel_values"]["messages"] if isinstance(m, ToolMessage)]
    )


QUICK = HostExecutionPolicy(command_timeout=1)


@pytest.mark.parametrize("last", ["exit 3", "kill -9 $$", "sleep 30"])
async def test_a_session_that_ended_is_taken_up_and_says_so(last: str) -> None:
    thread = Thread(
        "cd /; export A=1", last, 'echo "$PWD $A $B"', execution_policy=QUICK, startup_commands="B=2"
    )
    *earlier, final = await thread.go(GO)
    said = [
        text for text in [*earlier, final] if text.startswith(LOST + "the working directory is / as before;")
    ]
    assert len(said) == 1
    assert final.endswith("/ 1 2\n")


async def test_a_restart_is_what_was_asked_for() -> None:
    thread = Thread("cd /", "pwd")
    thread.steps.insert(1, Step(calls=[Call("shell", {"restart": True})]))
    _, restarted, last = await thread.go(GO)
    assert restarted == "Shell session restarted."
    assert last not in ("/\n", LOST)
    assert LOST not in last


async def test_another_run_begins_a_session_of_its_own() -> None:
    thread = Thread("cd /", "pwd")
    await thread.go(GO)
    answers = await thread.go(GO, run_id="s")
    assert answers[-1] == "/\n"
    assert not any(LOST in answer for answer in answers)
