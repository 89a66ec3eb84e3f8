"""What `placet dev` shows of what its workers print: what a person waits for, and what goes wrong."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ..output import console, error_line, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

_COLOURS = ("cyan", "magenta", "green", "blue", "bright_red", "bright_yellow")
_CELERY = re.compile(r"\[[^]]*: (?P<level>[A-Z]+)/[^]]*\] (?P<text>.*)")
_SEVERE = frozenset({"warning", "error", "critical"})
_FARE_WELL = ("worker: Warm shutdown", "worker: Cold shutdown")
_INPUT = json.dumps({"messages": [{"role": "user", "content": "hi"}]})


class Log:
    """Prints lines behind the name of their process, in its colour."""

    def __init__(self) -> None:
        self._console = console()
        self._colours: dict[int, str] = {}

    def line(self, pid: int, line: str) -> None:
        """Print what a worker process said."""
        style = self._colours.setdefault(pid, _COLOURS[len(self._colours) % len(_COLOURS)])
        self._console.print(Text(f"{pid:>8} | ", style=style), Text.from_ansi(line), sep="", soft_wrap=True)

    def say(self, text: str) -> None:
        """Print a line of our own."""
        self._console.print(Text("  placet | ", style="bold"), Text(plain(text)), sep="", soft_wrap=True)


class WorkerLines:
    """Reads the lines of workers that log JSON: Placet's events, Celery's log, and what agents print.

    Shown are approvals that wait, runs that end, warnings, errors and all that agents print; with `verbose`
    everything.
    """

    def __init__(self, *, log: Log, processes: int, verbose: bool) -> None:
        self._log = log
        self._processes = processes
        self._verbose = verbose
        self._ready: set[int] = set()
        self._errors: set[str] = set()
        self._agents: Sequence[str] = ()
        self._tried = False

    def begin(self) -> None:
        """Take it that other workers start now."""
        self._ready.clear()
        self._errors.clear()

    def line(self, pid: int, line: str) -> None:
        """Take in one line of the worker `pid`."""
        if (event := _event(line)) is not None:
            self._event(pid, event)
        elif (match := _CELERY.match(line)) is not None:
            if self._verbose or match["level"].lower() in _SEVERE:
                self._log.line(pid, f"{match['level'].lower():<8} {match['text']}")
            if match["text"].endswith(" ready."):
                self._is_ready(pid)
        elif line.startswith("error: "):  # all workers meet the same
            if line not in self._errors:
                self._log.say(line)
            self._errors.add(line)
        elif self._verbose or (line.strip() and not line.startswith(_FARE_WELL)):
            self._log.line(pid, line)

    def _event(self, pid: int, event: dict[str, Any]) -> None:
        name, level = event.pop("event"), event.pop("level")
        event.pop("timestamp", None)
        if self._verbose or level in _SEVERE:
            rest = " ".join(f"{key}={value}" for key, value in event.items())
            self._log.line(pid, plain(f"{level:<8} {name} {rest}"))
        if name == "worker.started":
            self._agents = event["agents"]
        elif name == "run.interrupted":
            for key in event["approvals"]:
                self._log.say(
                    f"approval {key} waits: placet approve {key}  (all about it: approvals show {key})"
                )
        elif name == "run.ended":
            why = f", {error_line(event['error'])}" if event.get("error") else ""
            self._log.say(f"run {event['run_id']} ended: {event['status']}{why}")

    def _is_ready(self, pid: int) -> None:
        self._ready.add(pid)
        if len(self._ready) != self._processes:
            return
        workers = "1 worker" if self._processes == 1 else f"{self._processes} workers"
        self._log.say(f"ready: {workers}, agents: {', '.join(self._agents)}")
        if not self._tried:
            self._log.say(f"try: placet enqueue {self._agents[0]} --input '{_INPUT}'")
            self._tried = True


def _event(line: str) -> dict[str, Any] | None:
    """Read a line of structlog's JSON."""
    if not line.startswith("{"):
        return None
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "event" in found and "level" in found else None
