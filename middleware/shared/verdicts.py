"""Verdicts that are given once a run: what a classifier said is not asked again after a pause."""

from __future__ import annotations

from typing import Protocol


class Verdicts(Protocol):
    """What was decided in a run, by name."""

    async def verdict(self, run_id: str, name: str) -> str | None:
        """Return what was decided, if anything was."""

    async def keep_verdict(self, run_id: str, name: str, verdict: str) -> str:
        """Keep the first that comes, and return it."""


class InMemoryVerdicts:
    """Verdicts in this process."""

    def __init__(self) -> None:
        self._verdicts: dict[tuple[str, str], str] = {}

    async def verdict(self, run_id: str, name: str) -> str | None:
        """See `Verdicts`."""
        return self._verdicts.get((run_id, name))

    async def keep_verdict(self, run_id: str, name: str, verdict: str) -> str:
        """See `Verdicts`."""
        return self._verdicts.setdefault((run_id, name), verdict)
