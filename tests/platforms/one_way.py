"""What platforms have in common where nobody can click."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from platforms.platform import Answer, Shown


@dataclass
class OneWay:
    """A platform that takes messages and has no buttons: each keeps them in its own form."""

    folder: Path
    people: Mapping[str, str] = field(default_factory=lambda: {who: who for who in ("alice", "bob")})
    failures: int = 0

    def fail(self, times: int, *, retry_after: float | None = None) -> None:  # noqa: ARG002 - none tells it
        self.failures = times

    async def cards(self, approval_id: str) -> list[Shown]:
        raise NotImplementedError

    async def click(
        self, token: str, *, by: str, shown: Shown, typed: Mapping[str, str] | None = None, replica: int = 0
    ) -> Answer:
        raise NotImplementedError

    def acknowledged(self, token: str) -> bool:
        raise NotImplementedError

    async def delete(self, shown: Shown) -> None:
        raise NotImplementedError
