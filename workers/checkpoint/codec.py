"""Values to bytes and back: serialized, list elements apart by digest, deflated, encrypted with a key."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from ..compact import deflated, inflated
from ..errors import InvalidSettings, UnreadableCheckpoint
from .layout import DIGEST_SIZE, Record, Typed, Write, frame, unframe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langgraph.checkpoint.base import CheckpointMetadata
    from langgraph.checkpoint.serde.base import SerializerProtocol

_SCALARS = (str, bytes, int, float, type(None))
_DEFLATED = "/z"  # ends the name of a format whose data is deflated
_WORTH_SPLITTING = 64  # bytes an element on average: below, a digest and its field cost more than they save


class Codec:
    """The serializer at work; with a cipher it needs a secret to take digests, or lists stay whole."""

    __slots__ = ("_cipher", "_plain", "_secret")

    def __init__(self, serde: SerializerProtocol, secret: bytes) -> None:
        self._secret = secret
        self._cipher, self._plain = None, serde
        if isinstance(serde, EncryptedSerializer):
            self._cipher, self._plain = serde.cipher, serde.serde

    def split(self, value: Any) -> list[tuple[bytes, Typed]] | None:
        """Return digest and serialized plain text of each element, or None for a value to store whole.

        Elements are serialized anew each time: LangChain's own middleware changes messages in place, so
        what an object was stored as before says nothing about it now.
        """
        if type(value) is not list or not value or isinstance(value[0], _SCALARS):
            return None
        if self._cipher is not None and not self._secret:
            return None
        elements = [self._plain.dumps_typed(element) for element in value]
        if sum(len(data) for _, data in elements) < _WORTH_SPLITTING * len(elements):
            return None
        begun = {kind: self._begun(kind) for kind in {kind for kind, _ in elements}}
        return [(_digest(begun[typed[0]], typed[1]), typed) for typed in elements]

    def element(self, typed: Typed) -> bytes:
        """Return the bytes to store of an element that `split` gave."""
        return frame(self._seal(typed))

    def whole(self, value: Any) -> bytes:
        """Return the bytes of a value that is not split."""
        return b"V" + frame(self._seal(self._plain.dumps_typed(value)))

    def payload(self, *parts: Any) -> bytes:
        """Return the bytes of a checkpoint's rest."""
        return frame(self._seal(self._plain.dumps_typed(list(parts))))

    def write(self, task_path: str, position: int, channel: str, value: Any) -> Write:
        """Serialize a pending write."""
        return Write(task_path, position, channel, *self._seal(self._plain.dumps_typed(value)))

    def load(self, blob: bytes | None, elements: Iterator[bytes | None]) -> Any:
        """Make a channel's value again, taking a list's elements from `elements`."""
        if blob is None:
            raise UnreadableCheckpoint("a channel's value is missing")
        if blob[:1] == b"V":
            return self.load_typed(unframe(blob, 1))
        value = []
        for _ in range((len(blob) - 1) // DIGEST_SIZE):
            if (data := next(elements)) is None:
                raise UnreadableCheckpoint("an element of a list is missing")
            value.append(self.load_typed(unframe(data)))
        return value

    def load_payload(self, record: Record) -> tuple[dict[str, Any], CheckpointMetadata]:
        """Return the checkpoint without its id and values, and the metadata without the run's id."""
        rest, metadata = self.load_typed(unframe(record.payload))
        return rest, metadata

    def load_typed(self, typed: Typed) -> Any:
        """Make a value again."""
        if self._cipher is None:
            if "+" in typed[0]:
                raise UnreadableCheckpoint("it is encrypted, and PLACET_ENCRYPTION_KEY is not set")
            return self._load(*typed)
        kind, encrypted, cipher_name = typed[0].partition("+")
        if not encrypted:
            # LangGraph's serializer would take it: whoever writes to Redis could forge a checkpoint
            raise UnreadableCheckpoint("it is not encrypted, and a key is set")
        try:
            data = self._cipher.decrypt(cipher_name, typed[1])
        except ValueError as exc:
            raise UnreadableCheckpoint(f"it cannot be decrypted with this key: {exc}") from exc
        return self._load(kind, data)

    def _load(self, kind: str, data: bytes) -> Any:
        if not kind.endswith(_DEFLATED):
            return self._plain.loads_typed((kind, data))
        try:
            plain = inflated(data)
        except ValueError as exc:
            raise UnreadableCheckpoint(f"its data is damaged: {exc}") from exc
        return self._plain.loads_typed((kind.removesuffix(_DEFLATED), plain))

    def _begun(self, kind: str) -> blake2b:
        """Return the digest of what all data of a format begins with."""
        return blake2b(frame((kind, b"")), digest_size=DIGEST_SIZE, key=self._secret)

    def _seal(self, typed: Typed) -> Typed:
        kind, data = typed
        if (made := deflated(data)) is not None:
            kind, data = kind + _DEFLATED, made
        if self._cipher is None:
            return kind, data
        cipher_name, sealed = self._cipher.encrypt(data)
        return f"{kind}+{cipher_name}", sealed


def _digest(begun: blake2b, data: bytes) -> bytes:
    digest = begun.copy()
    digest.update(data)
    return digest.digest()


def encrypted(serde: SerializerProtocol, key: str) -> tuple[EncryptedSerializer, bytes]:
    """Wrap a serializer in AES; returns it and the secret for digests.

    Raises:
        InvalidSettings: when the key has the wrong length or pycryptodome is not installed.
    """
    raw = key.encode()
    if len(raw) not in (16, 24, 32):
        raise InvalidSettings(
            "PLACET_ENCRYPTION_KEY: must have 16, 24 or 32 bytes, as from openssl rand -hex 16"
        )
    try:
        serializer = EncryptedSerializer.from_pycryptodome_aes(serde, key=raw)
    except ImportError:
        raise InvalidSettings(
            "PLACET_ENCRYPTION_KEY: needs pycryptodome: pip install 'placet[encryption]'"
        ) from None
    return serializer, blake2b(raw, digest_size=32, person=b"placet digests").digest()
