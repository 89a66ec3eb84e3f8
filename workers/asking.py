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

from .errors import PermanentError
from .output import approval_details, pretty

if TYPE_CHECKING:
    from .state.approvals import Approval


class EndOfInput(PermanentError):
    """Raised when standard input ends before a decision."""

    def __init__(self, approval: Approval) -> None:
        super().__init__(f"end of input, nothing was decided: run {approval.run_id} still waits for a person")
        self.approval_id = approval.id
        self.run_id = approval.run_id


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
        try:
            return await self._rest(await self._word(approval.allowed), approval)
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
            args = {name: await self._argument(name, value) for name, value in approval.args.items()}
            return {"type": "edit", "edited_action": {"name": approval.tool, "args": args}}
        if type_ == "reject":
            message = await self._line("Why (the agent reads it; Enter for no reason): ")
            return {"type": "reject", "message": message} if message else {"type": "reject"}
        if type_ == "respond":
            message = ""
            while not message:
                message = await self._line("What the agent gets in place of the tool's result: ")
            return {"type": "respond", "message": message}
        return {"type": type_}

    async def _argument(self, name: str, value: Any) -> Any:
        """Ask for one argument; Enter keeps it, a text stays a text, anything else is read as JSON."""
        while text := await self._line(f"  {name} [{pretty(value)}]: "):
            if isinstance(value, str):
                return text
            try:
                return json.loads(text)
            except ValueError:
                self.say("That is not JSON.")
        return value

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
