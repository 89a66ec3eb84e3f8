"""Asking a person in the terminal to decide one approval request; only words decide, never a bare Enter."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from ..approvals.response_schema import branches
from ..errors import PermanentError
from ..output import approval_details, plain, pretty

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import UnionType

    from ..state.approvals import Approval


class EndOfInput(PermanentError):
    """Raised when standard input ends before a decision."""

    def __init__(self, approval: Approval) -> None:
        super().__init__("end of input: nothing was decided; the demo ends and its server with it")
        self.approval_id = approval.id
        self.run_id = approval.run_id


class _Back(Exception):
    """Raised when the person would rather choose again."""


class Asker:
    """Asks on standard error and reads standard input, so that standard output stays free for events."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._buffer = b""

    async def decision(self, approval: Approval) -> dict[str, Any]:
        """Show the request and ask until there is a decision.

        Raises:
            EndOfInput: when the input ends before that.
        """
        self._console.print()
        self._console.print(approval_details(approval, commands=False))
        self._console.print()
        while True:
            try:
                return await self._rest(await self._word(approval.allowed), approval)
            except _Back:
                continue
            except EOFError:
                raise EndOfInput(approval) from None

    def say(self, text: str) -> None:
        """Print a line to the person."""
        self._console.print(Text(text))

    async def _word(self, allowed: tuple[str, ...]) -> str:
        """Ask until one of the words is given, or its beginning."""
        while True:
            text = (await self._line(f"{', '.join(allowed)}? ")).lower()
            chosen = [word for word in allowed if text and word.startswith(text)]
            if len(chosen) == 1:
                return chosen[0]
            self.say(f"Nothing is decided yet. Type one of: {', '.join(allowed)}.")

    async def _rest(self, type_: str, approval: Approval) -> dict[str, Any]:
        if type_ == "edit":
            self.say("Enter keeps what is in brackets; back: choose again.")
            types = _types(approval)
            args = {
                name: await self._argument(name, value, types.get(name) or _type(value))
                for name, value in approval.args.items()
            }
            return {"type": "edit", "edited_action": {"name": approval.tool, "args": args}}
        if type_ == "reject":
            message = await self._text("Why (the agent reads it; Enter for no reason; back: choose again): ")
            return {"type": "reject", "message": message} if message else {"type": "reject"}
        if type_ == "respond":
            message = ""
            while not message:
                message = await self._text("What the agent gets as the tool's result (back: choose again): ")
            return {"type": "respond", "message": message}
        return {"type": type_}

    async def _argument(self, name: str, value: Any, type_: str) -> Any:
        """Ask for one argument: a text needs no quotes, anything else is read as JSON."""
        read, kind = _READERS.get(type_, (_json_of(object), "JSON"))
        shown = plain(value) if isinstance(value, str) else pretty(value)
        while text := await self._text(f"  {name} [{shown}]: "):
            try:
                return read(text)
            except ValueError:
                self.say(f"That is not {kind}.")
        return value

    async def _text(self, prompt: str) -> str:
        """Ask for a line; `back` is none."""
        if (text := await self._line(prompt)) == "back":
            raise _Back
        return text

    async def _line(self, prompt: str) -> str:
        sys.stderr.write(prompt)
        sys.stderr.flush()
        while b"\n" not in self._buffer:
            chunk = await _read()
            if not chunk:
                sys.stderr.write("\n")
                raise EOFError
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode(errors="replace").strip()


def _json_of(type_: type | UnionType) -> Callable[[str], Any]:
    """Read JSON of one type; true and false are no numbers, as Python has it."""

    def read(text: str) -> Any:
        value = json.loads(text)
        if not isinstance(value, type_) or (isinstance(value, bool) and type_ not in (bool, object)):
            raise ValueError(text)
        return value

    return read


_READERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "string": (str, "a text"),
    "number": (_json_of(float | int), "a number"),
    "integer": (_json_of(int), "a whole number"),
    "boolean": (_json_of(bool), "true or false"),
}
_PYTHON = {"boolean": bool, "string": str, "number": float | int}


def _types(approval: Approval) -> dict[str, str]:
    """The JSON Schema types of the tool's arguments, of those that have one."""
    schema: Any = branches(approval.response_schema).get("edit", {})
    for step in ("edited_action", "args"):
        schema = schema.get("properties", {}).get(step, {})
    properties = schema.get("properties", {})
    return {name: one["type"] for name, one in properties.items() if isinstance(one.get("type"), str)}


def _type(value: Any) -> str:
    return next((name for name, type_ in _PYTHON.items() if isinstance(value, type_)), "")


async def _read() -> bytes:
    """Read what standard input has next, in a thread that does not keep a cancelled process alive."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[bytes] = loop.create_future()

    def deliver(chunk: bytes) -> None:
        if not result.done():
            result.set_result(chunk)

    def read() -> None:
        try:
            chunk = os.read(sys.stdin.fileno(), 4096)
        except (OSError, ValueError, AttributeError):  # closed, or there is none
            chunk = b""
        if not loop.is_closed():
            loop.call_soon_threadsafe(deliver, chunk)

    threading.Thread(target=read, daemon=True).start()
    return await result
