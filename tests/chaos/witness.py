"""What was seen from outside: a SQLite file of what tools did, what clients were told, what was broken."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_TABLES = """
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS effects (
    at REAL, what TEXT, run TEXT, call TEXT, tool TEXT, key TEXT, args TEXT, pid INTEGER, token INTEGER,
    result TEXT
);
CREATE INDEX IF NOT EXISTS effects_key ON effects (key);
CREATE TABLE IF NOT EXISTS replies (
    began REAL, ended REAL, client TEXT, call TEXT, run TEXT, approval TEXT, given TEXT, sound INTEGER,
    said TEXT, detail TEXT
);
CREATE TABLE IF NOT EXISTS faults (began REAL, ended REAL, kind TEXT, pid INTEGER, detail TEXT);
"""
_BUSY_SECONDS = 60.0
"""A process that is stopped within a write keeps all others waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One row of a tool: `start`, then `end` with its result, or `error`."""

    at: float
    what: str
    run: str
    call: str
    tool: str
    key: str
    """Names the call over all its attempts; part of its arguments."""
    args: dict[str, Any]
    pid: int
    token: int
    """Fencing token of the lease under which it was started."""
    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a client asked for (`enqueue`, `cancel`, `decide`) and what it was told."""

    began: float
    ended: float | None
    client: str
    call: str
    run: str
    approval: str
    given: dict[str, Any]
    sound: bool
    """Whether it could be taken: False for a wrong digest or a decision that does not fit."""
    said: str
    """`done`, an error's class name, or nothing when the client died first."""
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSeen:
    """A fault as it was done; times are the machine's, in seconds."""

    began: float
    ended: float
    kind: str
    pid: int
    detail: str


class Witness:
    """The file; each thread of each process has a connection of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()

    def create(self) -> None:
        self._connection.executescript(_TABLES)

    @property
    def _connection(self) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None)
            found.row_factory = sqlite3.Row
            found.execute("PRAGMA synchronous = OFF")  # processes are killed, the machine is not
            self._local.connection = found
        return found

    def effect(self, effect: Effect) -> None:
        self._connection.execute(
            "INSERT INTO effects VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(effect.at, effect.what, effect.run, effect.call, effect.tool, effect.key),
                *(json.dumps(effect.args, sort_keys=True), effect.pid, effect.token, effect.result),
            ),
        )

    def effects(self, key: str | None = None) -> list[Effect]:
        where, given = ("", ()) if key is None else (" WHERE key = ?", (key,))
        rows = self._connection.execute(f"SELECT * FROM effects{where} ORDER BY at", given)  # noqa: S608
        return [Effect(**{**dict(row), "args": json.loads(row["args"])}) for row in rows]

    def asked(
        self,
        client: str,
        call: str,
        *,
        run: str,
        approval: str = "",
        given: dict[str, Any] | None = None,
        sound: bool = True,
    ) -> int:
        """Note that a client is about to ask; returns what `told` wants."""
        cursor = self._connection.execute(
            "INSERT INTO replies VALUES (?, NULL, ?, ?, ?, ?, ?, ?, '', '')",
            (time.time(), client, call, run, approval, json.dumps(given or {}), sound),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def told(self, row: int, said: str, detail: str = "") -> None:
        self._connection.execute(
            "UPDATE replies SET ended = ?, said = ?, detail = ? WHERE rowid = ?",
            (time.time(), said, detail, row),
        )

    def replies(self) -> list[Reply]:
        rows = self._connection.execute("SELECT * FROM replies ORDER BY began")
        return [
            Reply(**{**dict(row), "given": json.loads(row["given"]), "sound": bool(row["sound"])})
            for row in rows
        ]

    def fault(self, kind: str, began: float, *, pid: int = 0, detail: str = "") -> None:
        self._connection.execute(
            "INSERT INTO faults VALUES (?, ?, ?, ?, ?)", (began, time.time(), kind, pid, detail)
        )

    def faults(self) -> list[FaultSeen]:
        rows = self._connection.execute("SELECT * FROM faults ORDER BY began")
        return [FaultSeen(**dict(row)) for row in rows]
