"""Who may decide: reviewers, their groups and identities, and whether a gate's policy lets one of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from .errors import InvalidSettings, NotAllowed
from .policy import GROUP, policy_error
from .settings_files import is_function, load_function, read_yaml

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .state.approvals import Approval

    Find = Callable[[str], Awaitable["Reviewer | None"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewer:
    """A person who decides; `id` is what is kept with a decision."""

    id: str
    groups: frozenset[str] = frozenset()


class Reviewers:
    """Finds a reviewer by id (`alice`) or by an identity on a channel (`slack:U024BE7LH`).

    `source` is `PLACET_REVIEWERS`: a YAML file, which is read again when it has changed, or
    `package.module:function`, an async function that takes such a name and returns a `Reviewer` or None.
    Empty, anyone may decide what no policy keeps for others, under the name that they give.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._find: Find | None = None
        self._file: _ReviewersFile | None = None
        if is_function(source):
            self._find = load_function(source, "PLACET_REVIEWERS")
        elif source:
            self._file = _ReviewersFile(Path(source))

    @property
    def known(self) -> bool:
        """Whether it is said anywhere who reviewers are."""
        return bool(self._source)

    async def check(self) -> None:
        """Read what can be read beforehand.

        Raises:
            InvalidSettings: when the file cannot be used.
        """
        if self._file is not None:
            await self._file.read()

    async def find(self, name: str) -> Reviewer | None:
        """Find a reviewer; None if there is none of that id or identity.

        Raises:
            InvalidSettings: when the file cannot be used, or the function does not return a reviewer.
        """
        if self._find is not None:
            found: Any = await self._find(name)
            if found is None or isinstance(found, Reviewer):
                return found
            raise InvalidSettings(
                f"PLACET_REVIEWERS: {self._source} must return a placet.Reviewer or None,"
                f" not a {type(found).__name__}"
            )
        if self._file is not None:
            return (await self._file.read()).get(name)
        return Reviewer(id=name)

    async def allowed(self, name: str, approval: Approval) -> Reviewer:
        """Find out whether `name` may decide on a request, and as whom.

        Raises:
            NotAllowed: when not; it says why.
        """
        try:
            reviewer = await self.find(name)
        except InvalidSettings as error:
            raise NotAllowed(approval.id, name, str(error)) from error
        if reviewer is None:
            raise NotAllowed(approval.id, name, f"{name} is not listed in {self._source} (PLACET_REVIEWERS)")
        if why := self._against(reviewer, approval.policy):
            raise NotAllowed(approval.id, name, why)
        return reviewer

    def _against(self, reviewer: Reviewer, policy: dict[str, Any] | None) -> str:
        """Why a policy keeps a reviewer from deciding, empty if it does not."""
        if policy is None:
            return ""
        if wrong := policy_error(policy):
            return f"its policy cannot be used: {wrong}"
        asked: list[str] = policy["reviewers"]
        if reviewer.id in asked or any(f"{GROUP}{group}" in asked for group in reviewer.groups):
            return ""
        if not self.known and any(one.startswith(GROUP) for one in asked):
            return f"it is kept for {', '.join(asked)}, and PLACET_REVIEWERS does not say who that is"
        return f"it is kept for {', '.join(asked)}"


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
        self._version: tuple[int, int] | None = None
        self._by_name: dict[str, Reviewer] = {}

    async def read(self) -> dict[str, Reviewer]:
        """Reviewers by id and by identity."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> dict[str, Reviewer]:
        try:
            stat = self._path.stat()
            version = (stat.st_mtime_ns, stat.st_size)
            if version != self._version:
                self._by_name = _by_name(read_yaml(self._path, _Contents, "PLACET_REVIEWERS").reviewers)
                self._version = version
        except OSError as error:
            raise InvalidSettings(f"PLACET_REVIEWERS: {self._path}: {error.strerror}") from None
        return self._by_name


def _by_name(entries: dict[str, _Entry | None]) -> dict[str, Reviewer]:
    found: dict[str, Reviewer] = {}
    for key, given in entries.items():
        if not key or ":" in key:
            raise InvalidSettings(f"PLACET_REVIEWERS: reviewers: {key!r} must be a name without a colon")
        entry = given or _Entry()
        reviewer = Reviewer(id=key, groups=frozenset(entry.groups))
        for name in (key, *entry.identities):
            if name != key and ":" not in name:
                raise InvalidSettings(
                    f"PLACET_REVIEWERS: reviewers.{key}.identities: {name!r} must begin with its channel,"
                    " such as slack:U024BE7LH"
                )
            if name in found:
                raise InvalidSettings(
                    f"PLACET_REVIEWERS: reviewers.{key}: {name!r} is {found[name].id}'s already"
                )
            found[name] = reviewer
    return found
