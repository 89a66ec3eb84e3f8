"""Where reviewers come from: `reviewers.yaml`, or the operator's own function."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from ..errors import InvalidSettings
from ..named_functions import is_function, load_function
from ..settings_files import read_yaml
from .reviewers import Reviewer

if TYPE_CHECKING:
    from .reviewers import Find

_SETTING = "PLACET_REVIEWERS"


def find_in(source: str) -> Find:
    """Make what finds reviewers by id or identity in `source`, a file or `package.module:function`.

    Raises:
        InvalidSettings: when it cannot be used. A file is read again when it has changed.
    """
    if is_function(source):
        return _function(source)
    file = _ReviewersFile(Path(source))
    file.read()
    return file.find


def _function(source: str) -> Find:
    function = load_function(source, _SETTING)

    async def find(name: str) -> Reviewer | None:
        found: Any = function(name)
        if hasattr(found, "__await__"):
            found = await found
        if found is None or isinstance(found, Reviewer):
            return found
        wanted = f"must return a placet.Reviewer or None, not a {type(found).__name__}"
        raise InvalidSettings(f"{_SETTING}: {source} {wanted}")

    return find


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    groups: list[str] = []
    identities: list[str] = []


class _Contents(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    reviewers: dict[str, _Entry | None]


class _ReviewersFile:
    """`reviewers.yaml`, read again when it has changed: who was taken out decides nothing more."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version: tuple[int, ...] | None = None
        self._by_name: dict[str, Reviewer] = {}

    async def find(self, name: str) -> Reviewer | None:
        """Find a reviewer by id or identity."""
        return (await asyncio.to_thread(self.read)).get(name)

    def read(self) -> dict[str, Reviewer]:
        """Read who there is, by id and by identity.

        Raises:
            InvalidSettings: when the file cannot be used; nobody is found until it can.
        """
        try:
            stat = self._path.stat()
            version = (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_size)
            if version != self._version:
                self._by_name = _by_name(read_yaml(self._path, _Contents, _SETTING).reviewers)
                self._version = version
        except OSError as error:
            raise InvalidSettings(f"{_SETTING}: {self._path}: {error.strerror}") from None
        return self._by_name


def _by_name(entries: dict[str, _Entry | None]) -> dict[str, Reviewer]:
    found: dict[str, Reviewer] = {}
    for key, given in entries.items():
        if not key or ":" in key:
            raise InvalidSettings(f"{_SETTING}: reviewers: {key!r} must be a name without a colon")
        entry = given or _Entry()
        reviewer = Reviewer(id=key, groups=frozenset(entry.groups))
        for name in (key, *entry.identities):
            if name != key and ":" not in name:
                raise InvalidSettings(
                    f"{_SETTING}: reviewers.{key}.identities: {name!r} must begin with its channel,"
                    " such as slack:U024BE7LH"
                )
            if name in found:
                raise InvalidSettings(f"{_SETTING}: reviewers.{key}: {name!r} is {found[name].id}'s already")
            found[name] = reviewer
    return found
