"""What the command line prints: tables for people, JSON lines for programs."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .state.approvals import Approval
    from .state.events import Event
    from .state.runs import Run

STYLES = {
    "pending": "yellow",
    "running": "cyan",
    "interrupted": "magenta",
    "success": "green",
    "error": "red",
    "timeout": "red",
    "cancelled": "dim",
    "decided": "green",
    "expired": "dim",
    "superseded": "dim",
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
}
_WIDE = 200
_DAY = 86_400


def console() -> Console:
    """Standard output; a pipe is wide, so that no id is cut."""
    return Console(width=None if sys.stdout.isatty() else _WIDE, highlight=False)


def plain(text: str) -> str:
    """Make what cannot be seen visible: a model's text must not steer the reviewer's terminal."""
    return "".join(c if c.isprintable() or c == "\n" else f"\\u{ord(c):04x}" for c in text)


def compact(value: Any, *, limit: int = 60) -> str:
    """One line of JSON, cut at `limit` characters; a string as it is."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = plain(text.replace("\n", " "))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def pretty(value: Any) -> str:
    """JSON as a person reads it."""
    return plain(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def as_data(record: Run | Approval | Event) -> dict[str, Any]:
    """A record as JSON values, times in ISO 8601."""
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in asdict(record).items()
    }


def print_json(data: Any) -> None:
    """One JSON value on one line, at once."""
    sys.stdout.write(json.dumps(data, ensure_ascii=False, default=str) + "\n")
    sys.stdout.flush()


def age(when: datetime) -> str:
    """How long ago, in its largest unit: `42s`, `3m`, `5h`, `2d`."""
    seconds = max(0, int((datetime.now(UTC) - when).total_seconds()))
    for unit, length in (("d", _DAY), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def call(approval: Approval, *, limit: int = 60) -> str:
    """What the request is about, on one line: `refund(order="A-1", amount=42.0)`."""
    if approval.kind == "question":
        return compact(approval.value, limit=limit)
    if approval.kind == "breakpoint":
        return plain(f"breakpoint at {approval.tool}")
    args = approval.args if isinstance(approval.args, dict) else {}
    text = ", ".join(f"{k}={json.dumps(v, ensure_ascii=False, default=str)}" for k, v in args.items())
    return compact(f"{approval.tool}({text})", limit=limit)


def status(name: str) -> Text:
    """A status in its colour."""
    return Text(name, style=STYLES.get(name, ""))


def runs_table(runs: Iterable[Run]) -> Table:
    """One line a run."""
    table = _table("run", "status", "agent", "thread", "age", "worker")
    for run in runs:
        table.add_row(
            run.id,
            status(run.status),
            *_texts(run.agent, run.thread_id, age(run.created_at), run.worker or ""),
        )
    return table


def approvals_table(approvals: Iterable[Approval]) -> Table:
    """One line a request."""
    table = _table("approval", "status", "what", "agent", "thread", "age", "by")
    for one in approvals:
        table.add_row(
            one.id,
            status(one.status),
            *_texts(call(one), one.agent, one.thread_id, age(one.created_at), one.decided_by or ""),
        )
    return table


def run_details(run: Run) -> Table:
    """A run, one line a field; empty fields are left out."""
    data = asdict(run)
    return _details({name: data[name] for name in data if data[name] not in (None, {}, "", 0)})


def approval_details(approval: Approval, *, commands: bool = True) -> Table:
    """A request as a reviewer needs it, with the commands that decide it while it is pending."""
    fields: dict[str, Any] = {"approval": approval.id, "status": approval.status}
    if approval.reason:
        fields["reason"] = approval.reason
    if approval.kind == "question":
        fields["question"] = approval.value
    else:
        fields["tool" if approval.kind == "tool_call" else "node"] = approval.tool
    if approval.args is not None:
        fields["arguments"] = approval.args
    if approval.description:
        fields["description"] = approval.description
    fields |= {"agent": approval.agent, "run": approval.run_id, "thread": approval.thread_id}
    if approval.principal:
        fields["for"] = approval.principal
    if approval.decision is not None:
        fields |= {"decision": approval.decision, "by": approval.decided_by, "outcome": approval.outcome}
    if commands and approval.status == "pending":
        fields["decide"] = "\n".join(
            f"placet {name} {approval.id} --seen {approval.digest}{_OPTIONS.get(name, '')}"
            for name in approval.allowed
        )
    return _details(fields)


_OPTIONS = {
    "edit": " --args JSON",
    "reject": " --message TEXT",
    "respond": " --message TEXT",
    "answer": " --value JSON",
}


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=column in {"run", "approval", "status", "age"}, overflow="fold")
    return table


def _details(fields: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields.items():
        if isinstance(value, datetime):
            text = f"{value.astimezone():%Y-%m-%d %H:%M:%S} ({_distance(value)})"
        else:
            text = plain(value) if isinstance(value, str) else pretty(value)
        table.add_row(name, status(value) if name == "status" else Text(text))
    return table


def _distance(when: datetime) -> str:
    return f"{age(when)} ago" if when <= datetime.now(UTC) else "to come"


def _texts(*values: str) -> list[Text]:
    return [Text(plain(value)) for value in values]
