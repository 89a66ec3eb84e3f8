"""A rule: what of a text is personal, and what stands in its place."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from langchain.agents.middleware import PIIDetectionError as StockPIIDetectionError
from langchain.agents.middleware import PIIMatch
from langchain.agents.middleware._redaction import apply_strategy

from ..retry.retryable import stamp_retryable
from .detectors import disjoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from placet.sealing import Seal

    from .detectors import Detector

Strategy = Literal["block", "redact", "mask", "hash"]
_ESCAPED = re.compile(r"\\[nrtbf]")
_LEAST_DIGITS = 12
"""Digits of a number that is looked at: what is shorter is an amount or a count."""


class PIIDetectionError(StockPIIDetectionError):
    """Raised when a rule blocks; its matches say where, and not what: errors are logged and stored."""

    def __init__(self, pii_type: str, matches: Sequence[PIIMatch]) -> None:
        super().__init__(pii_type, [{**match, "value": ""} for match in matches])
        stamp_retryable(self, retryable=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the arguments, which LangChain's cannot be."""
        return type(self), (self.pii_type, self.matches)


@dataclass(frozen=True, slots=True)
class Rule:
    """What one PIIMiddleware looks for; with a seal its hashes are keyed."""

    pii_type: str
    strategy: Strategy
    detector: Detector
    seal: Seal | None = None

    def matches(self, text: str) -> list[PIIMatch]:
        """What it finds, in order, disjoint."""
        if not text:
            return []
        found = list(self.detector(text))
        if "\\" in text:
            # in JSON or a `repr` a new line is written as a backslash and an n, which would begin a word
            found += self.detector(_ESCAPED.sub("  ", text))
        return disjoint(text, found)

    def replacement(self, match: PIIMatch) -> str:
        """What stands for a match; where the rule blocks, what it would with `redact`."""
        if self.strategy == "hash" and self.seal is not None:
            return f"<{match['type']}_hash:{self.seal.digest(match['value'])[:8]}>"
        value = match["value"]
        alone = PIIMatch(type=match["type"], value=value, start=0, end=len(value))
        return apply_strategy(value, [alone], "redact" if self.strategy == "block" else self.strategy)

    def apply(self, text: str) -> str:
        """The text with what was found replaced.

        Raises:
            PIIDetectionError: when something was found and the rule blocks.
        """
        found = self.matches(text)
        if found and self.strategy == "block":
            raise PIIDetectionError(found[0]["type"], found)
        return replaced(text, ((match, self.replacement(match)) for match in found))

    def hide(self, text: str) -> str:
        """As `apply`, but it never blocks: for what tells of a run beside its state."""
        return replaced(text, ((match, self.replacement(match)) for match in self.matches(text)))


def replaced(text: str, by: Iterable[tuple[PIIMatch, str]]) -> str:
    """Put texts in the place of disjoint matches, which are in order."""
    parts: list[str] = []
    end = 0
    for match, new in by:
        parts += [text[end : match["start"]], new]
        end = match["end"]
    return "".join([*parts, text[end:]]) if parts else text


def as_text(value: Any) -> str | None:
    """The text in which a leaf of plain data is looked through: numbers too, if they are long."""
    if isinstance(value, str):
        return value
    if type(value) is int and abs(value) >= 10 ** (_LEAST_DIGITS - 1):
        return str(value)
    return None
