"""Who may decide: reviewers, their groups and identities, and whether a gate's policy lets one of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import InvalidSettings, NotAllowed
from .policy import GROUP, policy_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..state.approvals import Approval

    Find = Callable[[str], Awaitable["Reviewer | None"]]


FIND_SECONDS = 5.0
"""How long finding a reviewer may take."""


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

    @property
    def known(self) -> bool:
        """Whether it is said anywhere who reviewers are."""
        return bool(self._source)

    def check(self) -> None:
        """Load the file or the function.

        Raises:
            InvalidSettings: when it cannot be used.
        """
        if self._source and self._find is None:
            from .reviewers_source import find_in  # noqa: PLC0415 - loads pydantic and yaml when they are used

            self._find = find_in(self._source)

    async def find(self, name: str) -> Reviewer | None:
        """Find a reviewer; None if there is none of that id or identity.

        Raises:
            InvalidSettings: when the file cannot be used, or the function fails, takes too long or does not
                return a reviewer.
        """
        self.check()
        if self._find is None:
            return Reviewer(id=name)
        try:
            async with asyncio.timeout(FIND_SECONDS):
                return await self._find(name)
        except InvalidSettings:
            raise
        except Exception as error:  # noqa: BLE001 - the operator's; its text may hold anything
            told = f"PLACET_REVIEWERS: {self._source} failed: {type(error).__name__}"
            raise InvalidSettings(told) from None

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
        # a group's name is nobody's, whatever a caller or a function says to be
        named = reviewer.id in asked and not reviewer.id.startswith(GROUP)
        if named or any(f"{GROUP}{group}" in asked for group in reviewer.groups):
            return ""
        if not self.known and any(one.startswith(GROUP) for one in asked):
            return f"it is kept for {', '.join(asked)}, and PLACET_REVIEWERS does not say who that is"
        return f"it is kept for {', '.join(asked)}"
