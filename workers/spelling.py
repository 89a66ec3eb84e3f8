"""What somebody may have meant who wrote a name that there is not."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def meant(name: str, known: Iterable[str]) -> str:
    """Ask whether a known name was meant, `, did you mean 'message'?`; empty if none is like it."""
    close = get_close_matches(name, list(known), n=1)
    return f", did you mean {close[0]!r}?" if close else ""
