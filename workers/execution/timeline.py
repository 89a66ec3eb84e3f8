"""A run's events as they come: time since the first one, process, what happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from ..output import as_data, compact, console, error_line, plain, print_json

if TYPE_CHECKING:
    from datetime import datetime

    from ..state.events import Event
    from ..state.runs import RunError

_COLOURS = ("cyan", "magenta", "green", "blue", "bright_red", "bright_yellow")
_LIMIT = 100


class Timeline:
    """Prints events, a line each; tokens of the model only as JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._console = console()
        self._began: datetime | None = None
        self._colours: dict[int, str] = {}
        self._calls: dict[str, Any] = {}

    def event(self, event: Event, *, error: RunError | None = None) -> None:
        """Print one event of the run; `error` is why it failed, if this is its end."""
        if self._as_json:
            print_json(as_data(event))
        elif (
            event.type != "messages" and (text := describe(event, error=error, calls=self._calls)) is not None
        ):
            self._line(event.at, event.pid, event.type, text)

    def note(self, at: datetime, pid: int, type_: str, text: str) -> None:
        """Print something that happened beside the run, to the process `pid`."""
        if self._as_json:
            print_json({"type": type_, "data": text, "at": at.isoformat(), "pid": pid})
        else:
            self._line(at, pid, type_, text)

    def _line(self, at: datetime, pid: int | None, type_: str, text: str) -> None:
        self._began = self._began or at
        offset = (at - self._began).total_seconds()
        line = Text()
        line.append(f"{offset:7.2f}s  ", style="dim")
        if pid is None:
            line.append(" " * 14)
        else:
            style = self._colours.setdefault(pid, _COLOURS[len(self._colours) % len(_COLOURS)])
            line.append(f"process {pid:<6}", style=style)
        line.append(f"  {type_:<17} ", style="bold")
        line.append(text)
        line.rstrip()
        self._console.print(line, soft_wrap=True)


def describe(
    event: Event, *, error: RunError | None = None, calls: dict[str, Any] | None = None
) -> str | None:
    """What an event says beyond its type, on one line; None if there is nothing to see in it.

    `calls` is what was told of tool calls so far, by their ids: what a node only repeats is left out.
    """
    data = event.data
    if event.type == "updates" and isinstance(data, dict):
        told = {node: _update(update, {} if calls is None else calls) for node, update in data.items()}
        text = "; ".join(f"{node}: {what}" for node, what in told.items() if what)
        if not text:
            return None
    elif event.type == "run.interrupted":
        text = f"waits for a person: {', '.join(data.get('approvals', []))}"
    elif event.type == "approval.decided":
        text = f"{data.get('decision')} by {data.get('reviewer')}: {data.get('approval_id')}"
    elif event.type == "run.incompatible":
        text = f"waits for another deployment: {data.get('reason')}"
    elif event.type == "run.ended":
        why = data.get("reason") if error is None else error_line(error)
        text = " ".join(filter(None, (data.get("status"), why)))
    elif isinstance(data, dict):
        text = ", ".join(f"{name} {compact(value, limit=_LIMIT)}" for name, value in data.items())
    else:
        text = compact(data, limit=_LIMIT)
    return plain(f"in {'/'.join(event.ns)}: {text}" if event.ns else text)


def _update(update: Any, calls: dict[str, Any]) -> str:
    if not update:
        return ""
    messages = update.get("messages") if isinstance(update, dict) else None
    if not isinstance(messages, list) or not messages:
        return compact(update, limit=_LIMIT)
    return ", ".join(filter(None, (_message(message, calls) for message in messages)))


def _message(message: Any, told: dict[str, Any]) -> str:
    if not isinstance(message, dict):
        return compact(message, limit=_LIMIT)
    calls = message.get("tool_calls") or []
    if not calls:
        return compact(message.get("content"), limit=_LIMIT)
    new = []
    for call in calls:
        what = (call.get("name"), call.get("args"))
        if call.get("id") is None or told.get(call["id"]) != what:
            new.append(f"calls {call.get('name')}({compact(call.get('args'))})")
            told[call.get("id")] = what
    return ", ".join(new)
