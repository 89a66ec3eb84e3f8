"""LangChain's shell, which says when its session was lost and takes it up where that can be done."""

from __future__ import annotations

import asyncio
import re
import shlex
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from langchain.agents.middleware import PIIDetectionError
from langchain.agents.middleware import shell_tool as stock
from langchain_core.messages import ToolMessage

from .shared import current_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from langchain.agents.middleware._execution import BaseExecutionPolicy
    from langchain.agents.middleware.shell_tool import RedactionRule, ShellSession, _SessionResources
    from langgraph.runtime import Runtime

_ARTIFACT = "placet_shell"
_BASELINE = '__placet_env="$(export -p)"'
# the directory, then what is exported now and was not when the session began, one variable a line
_LOOK = 'pwd; comm -13 <(printf "%s\\n" "$__placet_env" | sort) <(export -p | sort)'
_EXPORTED = re.compile(r"declare -x (\w+)=\".*\"")
_NOT_KEPT = {"OLDPWD", "PWD", "SHLVL", "_"}
_LONGEST = 4096


class ShellToolMiddleware(stock.ShellToolMiddleware[Any, Any]):
    """LangChain's; a session lives in one process, so a run that goes on elsewhere gets another.

    The model is told, and what can be is as it was: the working directory, if this host has it, and variables
    that were exported. They are kept with each answer of the tool, in the artifact of its message; a value
    that a redaction rule finds something in is not. What is lost: shell functions, background processes, and
    the files of a temporary workspace (give a `workspace_root` that all hosts share).
    """

    def __init__(
        self,
        workspace_root: str | Path | None = None,
        *,
        startup_commands: tuple[str, ...] | list[str] | str | None = None,
        shutdown_commands: tuple[str, ...] | list[str] | str | None = None,
        execution_policy: BaseExecutionPolicy | None = None,
        redaction_rules: tuple[RedactionRule, ...] | list[RedactionRule] | None = None,
        tool_description: str | None = None,
        tool_name: str = stock.SHELL_TOOL_NAME,
        shell_command: Sequence[str] | str | None = None,
        env: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            workspace_root,
            startup_commands=startup_commands,
            shutdown_commands=shutdown_commands,
            execution_policy=execution_policy,
            redaction_rules=redaction_rules,
            tool_description=tool_description,
            tool_name=tool_name,
            shell_command=shell_command,
            env=env,
        )
        self._notices: WeakKeyDictionary[ShellSession, str] = WeakKeyDictionary()
        self._places: WeakKeyDictionary[ShellSession, dict[str, Any]] = WeakKeyDictionary()

    def before_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Start the run's session."""
        resources = super()._get_or_create_resources(state)
        if current_run() is not None:
            self._silent(resources.session, _BASELINE)
        return {"shell_session_resources": resources}

    def before_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Start another one if this process has none."""
        if current_run() is None or state.get("shell_session_resources") is not None:
            return None
        return {"shell_session_resources": self._get_or_create_resources(state)}

    async def abefore_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """As `before_model`."""
        return await asyncio.to_thread(self.before_model, state, runtime)

    async def aafter_agent(self, state: Any, runtime: Runtime[Any]) -> None:
        """End the session, off the event loop."""
        await asyncio.to_thread(self.after_agent, state, runtime)

    def _get_or_create_resources(self, state: Any) -> _SessionResources:
        lost = state.get("shell_session_resources") is None
        resources = super()._get_or_create_resources(state)
        if lost and (run := current_run()) is not None:
            if (kept := _last(state["messages"], self._tool_name, run.run_id)) is not None:
                self._places[resources.session] = kept
                self._take_up(resources)
            else:  # it had done nothing yet
                self._silent(resources.session, _BASELINE)
        return resources

    def _take_up(self, resources: _SessionResources) -> None:
        """Put a new session where the one before was."""
        session = resources.session
        self._silent(session, _BASELINE)
        kept = self._places.get(session)
        if kept is None:
            self._notices[session] = "The shell session was lost, a new one was started from the beginning"
            return
        for line in kept["env"]:
            self._silent(session, line)
        cwd, hidden = kept["cwd"], ", ".join(kept["hidden"])
        there = self._silent(session, f"cd {shlex.quote(cwd)}").exit_code == 0
        facts = [f"the working directory is {cwd} as before" if there else f"{cwd} is not there any more"]
        facts.append("exported variables were kept" + (f", except {hidden}" if hidden else ""))
        facts.append("functions and background processes are gone")
        if resources.tempdir:
            facts.append("so are the files of its temporary workspace")
        self._notices[session] = f"The shell session was lost, a new one was started: {'; '.join(facts)}"

    def _run_shell_tool(
        self, resources: _SessionResources, payload: dict[str, Any], *, tool_call_id: Any
    ) -> Any:
        run = current_run()
        session = resources.session
        if run is None:
            return super()._run_shell_tool(resources, payload, tool_call_id=tool_call_id)
        restarted = bool(payload.get("restart"))
        if not restarted and not _alive(session):
            session.restart()
            self._run_startup_commands(session)
            self._take_up(resources)
        process = session._process  # noqa: SLF001 - see `_alive`
        answer = super()._run_shell_tool(resources, payload, tool_call_id=tool_call_id)
        if restarted:
            self._places.pop(session, None)
            self._silent(session, _BASELINE)
        elif session._process is not process:  # noqa: SLF001 - after its time was up
            self._run_startup_commands(session)
            self._take_up(resources)
        if notice := self._notices.pop(session, ""):
            notice = f"[{notice}.]\n"
        if not isinstance(answer, ToolMessage):
            return f"{notice}{answer}"
        answer.content = f"{notice}{answer.text}"
        if (place := self._place(session)) is not None:
            self._places[session] = place
            answer.artifact = {**(answer.artifact or {}), _ARTIFACT: {"run_id": run.run_id, **place}}
        return answer

    def _place(self, session: ShellSession) -> dict[str, Any] | None:
        """Where a session is: its directory, what was exported in it, names of what is not kept."""
        if not _alive(session):
            return None
        result = self._silent(session, _LOOK)
        cwd, *lines = result.output.splitlines() or [""]
        if not cwd.startswith("/"):
            return None
        found = {m[1]: line for line in lines if (m := _EXPORTED.fullmatch(line)) and m[1] not in _NOT_KEPT}
        hidden = sorted(name for name, line in found.items() if len(line) > _LONGEST or self._redacted(line))
        env = [line for name, line in sorted(found.items()) if name not in hidden]
        return {"cwd": cwd, "env": env, "hidden": hidden}

    def _redacted(self, line: str) -> bool:
        try:
            return self._apply_redactions(line)[0] != line
        except PIIDetectionError:
            return True

    def _silent(self, session: ShellSession, command: str) -> Any:
        return session.execute(command, timeout=self._execution_policy.command_timeout)


def _alive(session: ShellSession) -> bool:
    process = session._process  # noqa: SLF001 - LangChain does not say it otherwise
    return process is not None and process.poll() is None


def _last(messages: list[Any], tool: str, run_id: str) -> dict[str, Any] | None:
    """Where the run's session was after its last command."""
    for message in reversed(messages):
        artifact = message.artifact if isinstance(message, ToolMessage) and message.name == tool else None
        place = artifact.get(_ARTIFACT) if isinstance(artifact, dict) else None
        if place and place["run_id"] == run_id:
            found: dict[str, Any] = place
            return found
    return None
