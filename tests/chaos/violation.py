"""A promise that was found broken."""

from __future__ import annotations

from dataclasses import dataclass

Found = tuple[str, str, str]
"""What an invariant yields: the run, what is wrong, which count of the report it adds to; empty for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One finding of one invariant."""

    invariant: str
    run: str
    text: str
    figure: str
