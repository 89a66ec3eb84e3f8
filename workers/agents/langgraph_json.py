"""Reading `langgraph.json`, the LangGraph CLI's own file: which agents there are and where they live.

Format: https://docs.langchain.com/langsmith/cli#configuration-file. Placet reads `graphs`,
`dependencies` and `env`; the other keys concern LangGraph's own server and are left alone.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dotenv import dotenv_values

from ..errors import InvalidAgent
from ..settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSource:
    """Where one agent is: `variable` in `module`, which is the file `path` if there is one."""

    name: str
    module: str
    """For a file a name made of the path as it is written: checkpoints hold it, and all workers agree."""
    variable: str
    path: Path | None = None
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """What one `langgraph.json` says; all paths are absolute."""

    file: Path
    agents: tuple[AgentSource, ...]
    directories: tuple[Path, ...]
    """Where imports of the agents look: the file's own folder, then its local dependencies."""
    env: dict[str, str]

    def enter(self) -> None:
        """Add the directories to `sys.path` and set the variables that the process does not have."""
        sys.path.extend(str(d) for d in self.directories if str(d) not in sys.path)
        # Placet's own were read before this file was, and by processes that do not read it
        settings = {f"PLACET_{name.upper()}" for name in Settings.__slots__}
        for name, value in self.env.items():
            if name not in settings:
                os.environ.setdefault(name, value)


def read_project(file: Path) -> Project:
    """Read and check the file; nothing is imported.

    Raises:
        InvalidAgent: one line that names the file and the key.
    """
    file = file.absolute()
    content = _parse(file)
    graphs = content.get("graphs")
    if not isinstance(graphs, dict) or not graphs:
        raise InvalidAgent(f"{file}: graphs: must map at least one name to 'path.py:variable'")
    return Project(
        file=file,
        agents=tuple(_agent(file, name, value) for name, value in graphs.items()),
        directories=(file.parent, *_directories(file, content.get("dependencies", []))),
        env=_env(file, content.get("env", {})),
    )


def _parse(file: Path) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        if twice := [name for name in names if names.count(name) > 1]:
            raise InvalidAgent(f"{file}: {twice[0]!r} is listed twice")
        return dict(pairs)

    try:
        content = json.loads(file.read_text(encoding="utf-8-sig"), object_pairs_hook=unique)
    except FileNotFoundError:
        raise InvalidAgent(
            f"{file}: no such file; it lists the agents (PLACET_CONFIG names another)"
        ) from None
    except OSError as error:
        raise InvalidAgent(f"{file}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InvalidAgent(f"{file}: not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise InvalidAgent(f"{file}: must hold a JSON object with the key 'graphs'")
    return content


def _agent(file: Path, name: str, value: object) -> AgentSource:
    where = f"{file}: graphs.{name}"
    entry = value if isinstance(value, dict) else {"path": value}
    source = entry.get("path")
    if not isinstance(source, str):
        raise InvalidAgent(f"{where}: must be 'path.py:variable' or an object with a 'path'")
    place, colon, variable = source.rpartition(":")
    if not colon or not place or not variable:
        raise InvalidAgent(f"{where}: {source!r} does not end in ':variable'")
    if not name:
        raise InvalidAgent(f"{where}: an agent's name must not be empty")
    description = str(entry.get("description") or "")
    if "/" not in place and not place.endswith(".py"):
        return AgentSource(name=name, variable=variable, module=place, description=description)
    path = file.parent / place
    if path.suffix != ".py":
        raise InvalidAgent(f"{where}: {place!r} is not a Python file")
    if not path.is_file():
        raise InvalidAgent(f"{where}: no such file {place!r}")
    parts = Path(os.path.normpath(place)).with_suffix("").parts
    module = "__".join(["langgraph_json", *(part for part in parts if part not in ("..", "/"))])
    return AgentSource(
        name=name, module=module, variable=variable, path=path.resolve(), description=description
    )


def _directories(file: Path, dependencies: object) -> list[Path]:
    """Pick the local directories; the others are packages, which the user has installed."""
    if not isinstance(dependencies, list) or not all(isinstance(d, str) for d in dependencies):
        raise InvalidAgent(f"{file}: dependencies: must be a list of strings")
    found = []
    for dependency in dependencies:
        path = (file.parent / dependency).resolve()
        if path.is_dir():
            found.append(path)
        elif dependency.startswith((".", "/")):
            raise InvalidAgent(f"{file}: dependencies: no such directory {dependency!r}")
    return found


def _env(file: Path, env: object) -> dict[str, str]:
    if isinstance(env, str):
        # the file may be missing: deployed workers have their secrets in the environment
        return {name: value for name, value in dotenv_values(file.parent / env).items() if value is not None}
    if not isinstance(env, dict):
        raise InvalidAgent(f"{file}: env: must be a path or an object of variables")
    return {name: str(value) for name, value in env.items()}
