"""What the command line takes: the options that many commands share, and how their texts are read."""

from __future__ import annotations

import asyncio
import getpass
import json
import re
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

from ..settings import Settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..client import Placet

T = TypeVar("T")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON: one object, or one a line.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="At most so many.")]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]
OfAgent = Annotated[str | None, typer.Option("--agent", help="Only of this agent.")]
OfThread = Annotated[str | None, typer.Option("--thread", help="Only of this thread.")]
Processes = Annotated[int, typer.Option("--processes", min=1, help="Worker processes.")]
Concurrency = Annotated[
    int | None, typer.Option("--concurrency", min=1, help="Segments a process executes at once.")
]
Queues = Annotated[str | None, typer.Option("--queues", help="Queues to consume, comma-separated.")]
JSON_HELP = "JSON, @FILE or - for standard input."

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def read_json(text: str, option: str, *, hint: str = "") -> Any:
    """Read `JSON`, `@file` or `-` (standard input); `hint` ends the line that says it is none.

    Raises:
        typer.BadParameter: naming `option`, when it is not JSON or the file cannot be read.
    """
    try:
        if text == "-":
            text = sys.stdin.read()
        elif text.startswith("@"):
            text = Path(text[1:]).read_text(encoding="utf-8")
        return json.loads(text, parse_constant=_refuse)
    except OSError as error:
        raise typer.BadParameter(f"{error.filename}: {error.strerror}", param_hint=option) from None
    except ValueError as error:
        raise typer.BadParameter(f"not JSON: {error}{hint}", param_hint=option) from None
    except RecursionError:
        raise typer.BadParameter("is nested too deeply", param_hint=option) from None


def read_object(text: str | None, option: str) -> dict[str, Any] | None:
    """Read a JSON object the same way; None stays None.

    Raises:
        typer.BadParameter: naming `option`, when it is something else.
    """
    if text is None:
        return None
    value = read_json(text, option)
    if not isinstance(value, dict):
        raise typer.BadParameter("must be a JSON object", param_hint=option)
    return value


def read_time(text: str | None, option: str) -> datetime | timedelta | None:
    """Read `30s`, `5m`, `2h`, `1d` or a time in ISO 8601, local unless it has an offset.

    Raises:
        typer.BadParameter: naming `option`, when it is neither.
    """
    if text is None:
        return None
    try:
        if match := re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text):
            return timedelta(**{_UNITS[match[2]]: float(match[1])})
        return datetime.fromisoformat(text).astimezone()
    except OverflowError:
        raise typer.BadParameter("is too far away", param_hint=option) from None
    except ValueError:
        raise typer.BadParameter(
            "must be a time in ISO 8601 or a duration such as 30s, 5m, 2h, 1d", param_hint=option
        ) from None


def read_seconds(text: str | None, option: str) -> timedelta | None:
    """Read a duration such as `30s`, `5m`, `2h`, `1d`.

    Raises:
        typer.BadParameter: naming `option`, when it is none.
    """
    when = read_time(text, option)
    if isinstance(when, datetime):
        raise typer.BadParameter("must be a duration such as 30s, 5m, 2h, 1d", param_hint=option)
    return when


def current_user() -> str:
    """Who decides unless the command says so: the operating system's user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return ""


def connected(do: Callable[[Placet], Awaitable[T]]) -> T:
    """Run `do` with a client that the environment's settings connect."""
    from ..client import Placet  # noqa: PLC0415 - `placet --help` loads no Redis client
    from ..logs import configure_logs_later  # noqa: PLC0415

    settings = Settings.from_env()
    configure_logs_later(settings)  # to standard error: standard output is for what was asked

    async def run() -> T:
        async with Placet.connect(settings=settings) as placet:
            return await do(placet)

    return asyncio.run(run())


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not in JSON")
