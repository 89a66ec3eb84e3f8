"""Which files the workers of `placet dev` were started from, and which of them are other ones now."""

from __future__ import annotations

from hashlib import blake2b
from modulefinder import ModuleFinder
from pathlib import Path
from typing import TYPE_CHECKING

from ..agents.langgraph_json import read_project
from ..errors import InvalidAgent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..agents.langgraph_json import Project

_ENV = "the environment that langgraph.json names"


class ProjectFiles:
    """`langgraph.json`, its environment, the agents' modules and the local modules that these import.

    Imports are read from the code, which is not run: one that a module makes by a computed name is missed.
    """

    def __init__(self, config: Path) -> None:
        self._config = config
        self._modules: frozenset[Path] = frozenset()
        self._digests: dict[str, bytes] = {}
        self.broken = False
        """Whether the workers could not start: then any Python file may be what was amiss."""

    def read(self) -> Project:
        """Read the project anew, as workers do that start now.

        Raises:
            InvalidAgent: when `langgraph.json` cannot be used; what was read before is kept.
        """
        self.broken = False
        self._digests = self._digested()
        project = read_project(self._config)
        self._modules = _modules(project)
        self._digests = self._digested()
        return project

    def changed(self, touched: Iterable[Path]) -> set[str]:
        """Names of what differs from what was last read; `touched` are the files that were written to."""
        now = self._digested()
        names = {
            name for name in now.keys() | self._digests.keys() if now.get(name) != self._digests.get(name)
        }
        self._digests = now
        if self.broken:
            names |= {self._shown(path) for path in touched if path.suffix == ".py"}
        return names

    def _digested(self) -> dict[str, bytes]:
        found = {}
        for path in (self._config, *self._modules):
            try:
                found[self._shown(path)] = blake2b(path.read_bytes()).digest()
            except OSError:
                continue
        try:
            found[_ENV] = repr(read_project(self._config).env).encode()
        except InvalidAgent:
            found[_ENV] = self._digests.get(_ENV, b"")
        return found

    def _shown(self, path: Path) -> str:
        root = self._config.parent
        return str(path.relative_to(root) if path.is_relative_to(root) else path)


def _modules(project: Project) -> frozenset[Path]:
    """Follow the imports of the agents' modules within the project's own directories."""
    finder = ModuleFinder(path=[str(folder) for folder in project.directories])
    found = {source.path for source in project.agents if source.path is not None}
    for source in project.agents:
        try:
            if source.path is None:
                finder.import_hook(source.module)
            else:
                finder.run_script(str(source.path))
        except (ImportError, SyntaxError, ValueError, OSError):
            continue  # installed, so not the user's to edit, or not to be read: its worker says so
    found |= {Path(name) for one in finder.modules.values() if (name := getattr(one, "__file__", None))}
    return frozenset(path.resolve() for path in found)
