"""A graph's fingerprint: what a run that was left by the graph needs of the one it goes on in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """One graph's fingerprint; kept once for all runs that refer to it by its digest."""

    digest: str
    content: dict[str, Any]
    """`level` of the graph, and `types`: a digest of the fields of each class its state may hold."""
    text: str
    """The content as JSON text."""
    versions: str
    """Versions of the libraries as JSON text: recorded with it, never compared."""
