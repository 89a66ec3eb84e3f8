"""Values sealed under `PLACET_ENCRYPTION_KEY`, and digests of them that nobody finds by hashing guesses."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from .errors import InvalidSettings, Unsealable
from .json_values import canonical

MARK = "placet.sealed:"
"""What sealed text begins with; no JSON text does."""
_NONCE, _TAG = 16, 16


class Unreadable(str):
    """Stands for a sealed value that this process cannot open."""

    __slots__ = ()


UNREADABLE = Unreadable("sealed under another PLACET_ENCRYPTION_KEY than this process has")


class Seal:
    """AES-EAX under one key, and a secret made of that key for digests."""

    __slots__ = ("_key", "_secret")

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        if len(self._key) not in (16, 24, 32):
            raise InvalidSettings(
                "PLACET_ENCRYPTION_KEY: must have 16, 24 or 32 bytes, as from openssl rand -hex 16"
            )
        self._secret = blake2b(self._key, digest_size=32, person=b"placet seal").digest()
        self._cipher(b"")  # says now if the library is not there

    def seal(self, value: Any, about: str) -> str:
        """Seal a JSON value; it opens again only as what it is `about`."""
        cipher = self._cipher(about.encode())
        sealed, tag = cipher.encrypt_and_digest(json.dumps(value, separators=(",", ":")).encode())
        return MARK + b64encode(cipher.nonce + tag + sealed).decode()

    def open(self, text: str, about: str) -> Any:
        """Give back what was sealed.

        Raises:
            Unsealable: when it was sealed under another key, about something else, or is damaged.
        """
        try:
            data = b64decode(text.removeprefix(MARK), validate=True)
            cipher = self._cipher(about.encode(), data[:_NONCE])
            plain = cipher.decrypt_and_verify(data[_NONCE + _TAG :], data[_NONCE : _NONCE + _TAG])
        except ValueError:
            raise Unsealable from None
        return json.loads(plain)

    def digest(self, value: Any) -> str:
        """Digest a JSON value under the secret: 32 hex digits, the same in every process with the key."""
        return blake2b(canonical(value), digest_size=16, key=self._secret).hexdigest()

    @property
    def key_id(self) -> str:
        """Tells this key from others, and nothing else of it."""
        return self.digest("key")[:8]

    def _cipher(self, about: bytes, nonce: bytes | None = None) -> Any:
        try:
            from Crypto.Cipher import AES  # noqa: PLC0415 - an extra of its own
        except ImportError:
            raise InvalidSettings(
                "PLACET_ENCRYPTION_KEY: needs pycryptodome: pip install 'placet[encryption]'"
            ) from None
        return AES.new(self._key, AES.MODE_EAX, nonce=nonce).update(about)


@lru_cache(maxsize=4)
def seal_of(key: str) -> Seal | None:
    """The seal of a setting's value; None if it is empty.

    Raises:
        InvalidSettings: when the key cannot be used.
    """
    return Seal(key) if key else None


def is_sealed(text: object) -> bool:
    """Whether what is stored is a sealed text."""
    return isinstance(text, str) and text.startswith(MARK)


def opened_or_unreadable(seal: Seal | None, text: str, about: str) -> Any:
    """Open a sealed text for a reader, who may lack the key."""
    if seal is None:
        return UNREADABLE
    try:
        return seal.open(text, about)
    except Unsealable:
        return UNREADABLE
