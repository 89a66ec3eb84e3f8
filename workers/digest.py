"""Names derived from content: a request's digest, its short id, the id of a pause of our own."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from .json_values import canonical, to_json

ID_LENGTH = 12
# Crockford's base32 in lower case: no i, l, o, u
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def digest_of(value: Any) -> str:
    """Digest a JSON value: BLAKE2b with 128 bits over its canonical form, 32 hex digits."""
    return blake2b(canonical(value), digest_size=16).hexdigest()


def short_id(*parts: str | int) -> str:
    """Derive an id that a person can read out: 12 characters, 60 bits of a hash of `parts`."""
    number = int.from_bytes(blake2b(canonical(parts), digest_size=8).digest())
    return "".join(_ALPHABET[number >> 5 * place & 31] for place in reversed(range(ID_LENGTH)))


def own_pause_id(value: Any) -> str:
    """Derive the interrupt id of a pause of our own from what it holds, but for what it is `told` beside.

    `interrupt(value)` takes its id from LangGraph, so a value that only copies ours has another id.
    """
    if isinstance(value, dict):
        value = {name: item for name, item in value.items() if name != "told"}
    return blake2b(canonical(to_json(value)), digest_size=16, person=b"placet.own").hexdigest()
