r"""How a thread's hash is laid out: the names of its fields and the bytes in them.

One hash a thread, its parts told apart by the first letter (the separator is `\x1f`):

    i namespace                         id of the latest checkpoint
    c namespace id                      a checkpoint's record
    b namespace channel version         a channel's value: V and the value, or L and 16-byte digests
    e digest                            an element of a list
    p namespace id                      a checkpoint's pending writes: names, and behind each it, or nothing
    w namespace id task index           a pending write that is too large to stand there
"""

from __future__ import annotations

from typing import Any, NamedTuple

import ormsgpack

from ..errors import InvalidInput

SEPARATOR = "\x1f"
DIGEST_SIZE = 16

Typed = tuple[str, bytes]
"""What a serializer gives: the format's name and the data."""


class Record(NamedTuple):
    """What a checkpoint's field holds."""

    parent: str
    """The parent's id, or empty."""
    run_id: str
    """The run that made it, or empty."""
    versions: dict[str, str]
    """Version of each channel that has a value."""
    open_deltas: list[str]
    """Delta channels without a value here: rebuilt from ancestors."""
    payload: bytes
    """The rest of the checkpoint and its metadata, serialized."""


class Write(NamedTuple):
    """A pending write, with what its place in the order is made of; its name begins with its task's id."""

    task_path: str
    position: int
    channel: str
    type_name: str
    data: bytes


def pack(parts: Record | Write) -> bytes:
    """Return the bytes of a record or write: length of the head, head as msgpack for the scripts, data.

    The data is apart because the msgpack that Redis has in Lua knows no binary strings.
    """
    head = ormsgpack.packb(list(parts[:-1]))
    return b"".join((len(head).to_bytes(4), head, parts[-1]))


def unpack_record(packed: bytes) -> Record:
    """Read a record's bytes."""
    return Record(*_unpack(packed))


def unpack_write(packed: bytes) -> Write:
    """Read a write's bytes."""
    return Write(*_unpack(packed))


def _unpack(packed: bytes) -> list[Any]:
    end = 4 + int.from_bytes(packed[:4])
    return [*ormsgpack.unpackb(packed[4:end]), packed[end:]]


def name(kind: str, value: object) -> str:
    """Return `value` as part of a field's name.

    Raises:
        InvalidInput: when it holds a separator.
    """
    text = str(value)
    if SEPARATOR in text:
        raise InvalidInput(kind, f"{text!r} holds a control character (U+001F)")
    return text


def join(*names: str) -> str:
    """Return a field's name from its parts."""
    return SEPARATOR.join(names)


def split(at: bytes) -> tuple[str, str]:
    """Return namespace and checkpoint id from what follows the letter in a record's field."""
    namespace, _, checkpoint_id = at.decode().partition(SEPARATOR)
    return namespace, checkpoint_id


def task_of(write_name: bytes) -> str:
    """Return the task's id, with which a write's name begins."""
    return write_name.decode().rpartition(SEPARATOR)[0]


def element_field(digest: bytes) -> bytes:
    """Return the field of a list's element."""
    return b"e" + SEPARATOR.encode() + digest


def frame(typed: Typed) -> bytes:
    """Put the format's name and the data into one value."""
    kind = typed[0].encode()
    return bytes((len(kind),)) + kind + typed[1]


def unframe(data: bytes, start: int = 0) -> Typed:
    """Take a value apart again."""
    end = start + 1 + data[start]
    return data[start + 1 : end].decode(), data[end:]


def digests(blob: bytes) -> list[bytes]:
    """Return the digests in the value of a list."""
    return [blob[at : at + DIGEST_SIZE] for at in range(1, len(blob), DIGEST_SIZE)]


def pairs(flat: list[Any]) -> list[tuple[Any, Any]]:
    """Return the pairs of a flat reply."""
    return list(zip(flat[::2], flat[1::2], strict=True))
