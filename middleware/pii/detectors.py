"""Finding personal data in text: as LangChain does, in linear time, IPv6 addresses and secrets too."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from langchain.agents.middleware import PIIMatch
from langchain.agents.middleware import pii as stock
from langchain.agents.middleware._redaction import BUILTIN_DETECTORS, resolve_detector

from placet.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Detector = Callable[[str], list[PIIMatch]]

# LangChain's, but it looks at each character once: theirs takes minutes for a megabyte of "a.a.a."
_EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+-])[.%+-]*+(?P<address>\w[A-Za-z0-9._%+-]*+@[A-Za-z0-9.-]+\.[A-Z|a-z]{2,}\b)",
    re.ASCII,
)
_WORD = re.compile(r"\S+")
_LONGEST_WORD = 10_000
"""Characters of a word that may be a URL; a longer one with a dot and a slash is taken for one."""

# what may be an IPv6 address: hexadecimal digits, colons, and the dots of an IPv4 address at its end
_IPV6 = re.compile(r"(?<![\w:.])(?=[0-9A-Fa-f.]*:)[0-9A-Fa-f:][0-9A-Fa-f:.]*[0-9A-Fa-f:](?:%\w+)?(?![\w:])")

# secrets that say themselves what they are, as their makers document it
_SECRETS = re.compile(
    r"""
      -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----[\s\S]*?(?:-----END\ [A-Z ]*PRIVATE\ KEY-----|\Z)
    | \bxox[a-z]-[A-Za-z0-9-]{8,} | \bxapp-\d-[A-Za-z0-9-]{4,}        # Slack
    | \b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,} | \bgithub_pat_\w{20,}
    | \bglpat-[\w-]{16,}                                              # GitLab
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b                                   # Amazon
    | \bAIza[\w-]{30,}                                                # Google
    | \b(?:sk|rk|pk)[-_][\w-]{16,}                                    # OpenAI, Anthropic, Stripe
    | \bhf_[A-Za-z0-9]{20,}                                           # Hugging Face
    | \beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*                               # a JSON Web Token
    | \b(?i:Bearer|Basic|Token)\s+(?P<credentials>[\w.~+/=-]{8,})     # an Authorization header
    | ://[^\s/:@]*:(?P<password>[^\s/@]+)@                            # a URL
    """,
    re.VERBOSE | re.ASCII,
)


def detect_email(content: str) -> list[PIIMatch]:
    """Find e-mail addresses."""
    found = _EMAIL.finditer(content) if "@" in content else ()
    spans = (match.span("address") for match in found)
    return [PIIMatch(type="email", value=content[start:end], start=start, end=end) for start, end in spans]


def detect_url(content: str) -> list[PIIMatch]:
    """Find URLs, as LangChain does, word by word."""
    found: list[PIIMatch] = []
    for word in _WORD.finditer(content):
        text, at = word.group(), word.start()
        if "/" not in text and "www." not in text:
            continue
        if len(text) <= _LONGEST_WORD:
            spans = [(match["start"], match["end"]) for match in stock.detect_url(text)]
        else:
            spans = [(0, len(text))] if "." in text else []
        found += [
            PIIMatch(type="url", value=text[start:end], start=at + start, end=at + end)
            for start, end in spans
        ]
    return found


def detect_ip(content: str) -> list[PIIMatch]:
    """Find IPv4 and IPv6 addresses."""
    found = [match for match in _IPV6.finditer(content) if _is_ipv6(match.group())]
    longer = [PIIMatch(type="ip", value=m.group(), start=m.start(), end=m.end()) for m in found]
    return disjoint(content, [*stock.detect_ip(content), *longer])


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return text != "::"


def detect_secret(content: str) -> list[PIIMatch]:
    """Find keys, tokens and passwords that can be told by their form.

    Those of well-known makers, of `Authorization` headers, private keys, passwords in URLs.
    """
    found = []
    for match in _SECRETS.finditer(content):
        start, end = match.span(match.lastgroup or 0)
        found.append(PIIMatch(type="secret", value=content[start:end], start=start, end=end))
    return found


OWN: dict[str, Detector] = {
    "email": detect_email,
    "ip": detect_ip,
    "secret": detect_secret,
    "url": detect_url,
}
"""Detectors by type where LangChain has another one, or none."""
TYPES = sorted({*OWN, *BUILTIN_DETECTORS})
"""All types that need no detector of the author's."""


def detector_of(pii_type: str, detector: Detector | str | re.Pattern[str] | None) -> Detector:
    """The detector that an author means.

    Raises:
        InvalidInput: when there is none of that type, or it is neither a function nor a pattern.
    """
    if detector is None:
        if pii_type in OWN:
            return OWN[pii_type]
        if pii_type not in TYPES:
            known = ", ".join(TYPES)
            message = f"Unknown PII type: {pii_type}. Must be one of {known}, or give it a detector"
            raise InvalidInput("pii_type", message)
    if isinstance(detector, str):
        try:
            detector = re.compile(detector)
        except re.error as error:
            raise InvalidInput("detector", f"{detector!r} is no pattern: {error}") from None
    if not isinstance(detector, re.Pattern):
        if detector is not None and not callable(detector):
            raise InvalidInput("detector", f"a function or a pattern, not a {type(detector).__name__}")
        return resolve_detector(pii_type, detector)
    pattern = detector

    def search(content: str) -> list[PIIMatch]:
        found = pattern.finditer(content)
        return [PIIMatch(type=pii_type, value=m.group(), start=m.start(), end=m.end()) for m in found]

    return search


def disjoint(content: str, matches: Iterable[PIIMatch]) -> list[PIIMatch]:
    """In order, and those that overlap as one: nothing of either is left."""
    found: list[PIIMatch] = []
    for match in sorted(matches, key=lambda one: (one["start"], -one["end"])):
        kind, start, end = match["type"], max(0, match["start"]), min(match["end"], len(content))
        if start >= end:
            continue
        if found and start < found[-1]["end"]:
            last = found.pop()
            kind, start, end = last["type"], last["start"], max(end, last["end"])
        found.append(PIIMatch(type=kind, value=content[start:end], start=start, end=end))
    return found
