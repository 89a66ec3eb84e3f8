"""What the command line prints: tables for people, JSON lines for programs."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from .state.approvals import Approval
    from .state.cards import PostedCard
    from .state.events import Event
    from .state.runs import Run, RunError

# rich is imported where something is laid out: a command that prints a line does not load it
# ruff: noqa: PLC0415

NO_SERVER = "start `placet dev`, or set PLACET_REDIS_URL"
"""What to do when no server answers."""

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
_LONG = 4_000
"""Characters of one value of a run or a thread that are shown."""
_ALL = 60_000
"""Of a request that a person decides on: all there is, but for what would stall the terminal."""
_DAY = 86_400


def console() -> Console:
    """Standard output; a pipe is wide, so that no id is cut."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _WIDE, highlight=False)


def say(text: str) -> None:
    """Print a line as it is, but for what could steer the terminal."""
    sys.stdout.write(plain(text) + "\n")
    sys.stdout.flush()


def warn(text: str, *, as_json: bool) -> None:
    """Tell on standard error what is doubtful and was done anyway."""
    line = json.dumps({"warning": text}, ensure_ascii=False) if as_json else f"warning: {plain(text)}"
    sys.stderr.write(line + "\n")


def lay_out(what: Table) -> None:
    """Print a table, without the blanks that fill its lines."""
    screen = console()
    with screen.capture() as captured:
        screen.print(what)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))
    sys.stdout.flush()


def plain(text: str) -> str:
    """Make what cannot be seen visible: a model's text must not steer the reviewer's terminal."""
    return "".join(c if _is_seen(c) else _written_out(c) for c in text)


_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""What Unicode calls printable or a mark, and nobody sees: variation selectors, fillers, blanks."""


def _is_seen(character: str) -> bool:
    return character == "\n" or (character.isprintable() and not _UNSEEN.match(character))


def _written_out(character: str) -> str:
    """As JSON writes it, in UTF-16: read back as JSON it is the same again."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def compact(value: Any, *, limit: int = 60) -> str:
    """One line of JSON, cut at `limit` characters; a string as it is."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    # cut before it is made plain, which takes its time, and after, which may make it longer
    text = plain(text[: limit + 1].replace("\n", " "))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def pretty(value: Any) -> str:
    """JSON as a person reads it."""
    return plain(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def beginning(value: Any, *, limit: int) -> str:
    """A text as it is, or JSON as a person reads it, cut at `limit` characters; it tells when it is cut."""
    if isinstance(value, str):
        text = value[: limit + 1]
    else:
        text = ""
        for chunk in json.JSONEncoder(ensure_ascii=False, indent=2, default=str).iterencode(value):
            text += chunk[: limit + 1]
            if len(text) > limit:
                break
    return plain(text) if len(text) <= limit else f"{plain(text[:limit])}… (--json shows all of it)"


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
    doubt = "may have run: " if approval.kind == "unknown_call" else ""
    return compact(f"{doubt}{approval.tool}({_arguments(args)})", limit=limit)


def decision_line(approval: Approval) -> str:
    """What was decided: `approve`, `edit -> amount=21.0`, `reject (no)`, `answer -> false`; or why not."""
    decision = approval.decision
    if decision is None:
        return approval.reason
    text = str(decision.get("type", ""))
    if text == "edit":
        text += f" -> {_arguments(edited_arguments(decision))}"
    if "message" in decision:
        text += f" ({decision['message']})"
    if text == "answer":
        text += f" -> {json.dumps(decision.get('value'), ensure_ascii=False)}"
    return plain(text)


def edited_arguments(decision: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that an edit decided."""
    found: dict[str, Any] = decision.get("edited_action", {}).get("args", {})
    return found


def error_line(error: RunError) -> str:
    """Why a run failed: `ZeroDivisionError: division by zero (node slow)`."""
    node = f" (node {error['node']})" if error.get("node") else ""
    return plain(f"{error['type']}: {error['message']}{node}")


def _arguments(args: Mapping[str, Any]) -> str:
    return ", ".join(f"{k}={json.dumps(v, ensure_ascii=False, default=str)}" for k, v in args.items())


def status(name: str) -> Text:
    """A status in its colour."""
    from rich.text import Text

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
    approvals = list(approvals)
    settled = any(one.status != "pending" for one in approvals)
    table = _table(
        *("approval", "status", "what", "agent", "thread", "age"), *(("decision", "by") if settled else ())
    )
    for one in approvals:
        texts = [call(one), one.agent, one.thread_id, age(one.created_at)]
        if settled:
            texts += [compact(decision_line(one)), one.decided_by or ""]
        table.add_row(one.id, status(one.status), *_texts(*texts))
    return table


def run_details(run: Run, *, waits_for: Iterable[Approval] = ()) -> Table:
    """A run, one line a field, with the requests it waits for; empty fields are left out."""
    data = {one.name: getattr(run, one.name) for one in fields(run)}
    if run.error is not None:
        data["error"] = error_line(run.error)
    data["waits for"] = "\n".join(f"{call(one)}: placet approvals show {one.id}" for one in waits_for)
    return details({name: data[name] for name in data if data[name] not in (None, {}, "", 0)})


def approval_details(approval: Approval, *, commands: bool = True, cards: Iterable[PostedCard] = ()) -> Table:
    """A request as a reviewer needs it, with the commands that decide it while it is pending."""
    shown: dict[str, Any] = {"approval": approval.id, "kind": approval.kind, "status": approval.status}
    if approval.reason:
        shown["reason"] = approval.reason
    if approval.incompatible:
        shown["incompatible"] = approval.incompatible
    if approval.kind == "question":
        shown["question"] = approval.value
    else:
        shown["node" if approval.kind == "breakpoint" else "tool"] = approval.tool
    if approval.args is not None:
        shown["arguments" if approval.decision is None else "asked"] = approval.args
    about = {"description": approval.description, "policy": approval.policy}
    shown |= {name: value for name, value in about.items() if value}
    shown |= {"agent": approval.agent, "run": approval.run_id, "thread": approval.thread_id}
    if approval.principal:
        shown["for"] = approval.principal
    if approval.decision is not None:
        if approval.decision.get("type") == "edit":
            shown["decided"] = edited_arguments(approval.decision)
            shown["decision"] = "edit"
        else:
            shown["decision"] = decision_line(approval)
        shown |= {"by": approval.decided_by, "outcome": _outcome(approval)}
    if lines := [_card_line(card) for card in cards]:
        shown["cards"] = "\n".join(lines)
    if commands and approval.status == "pending":
        meant = _MEANT if approval.kind == "unknown_call" else {}
        shown["decide"] = "\n".join(
            f"placet {name} {approval.id} --seen {approval.digest}{_OPTIONS.get(name, '')}"
            + meant.get(name, "")
            for name in approval.allowed
        )
    return details(shown, limit=_ALL)


def _card_line(card: PostedCard) -> str:
    """Where a request is shown, and what keeps a message from being there or from being true."""
    place = f"{card.channel}:{card.destination}" + (f" (reminder {card.number})" if card.number else "")
    if not card.error:
        posted = "posted, there no more" if card.gone else "posted"
        return f"{place} {posted if card.reference else 'to be posted'}"
    when = datetime.fromtimestamp(card.due_ms / 1000).astimezone()
    what = "not up to date" if card.reference else "not posted"
    return f"{place} {what} after {card.tries} tries: {card.error}; again at {when:%H:%M:%S}"


def _outcome(approval: Approval) -> str:
    why = f" ({approval.outcome_reason})" if approval.outcome_reason else ""
    return approval.outcome + why


_OPTIONS = {
    "edit": " --args JSON",
    "reject": " --message TEXT",
    "respond": " --message TEXT",
    "answer": " --value JSON",
}


_MEANT = {
    "approve": "  # run it again",
    "respond": "  # it is done, this is its result",
    "reject": "  # give it up",
}
"""What deciding on a call that may have run comes to."""


def _table(*columns: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=column in {"run", "approval", "status", "age"}, overflow="fold")
    return table


def details(shown: dict[str, Any], *, limit: int = _LONG) -> Table:
    """One line a field; a text as it is, other values as JSON, each cut at `limit` characters."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in shown.items():
        if isinstance(value, datetime):
            text = f"{value.astimezone():%Y-%m-%d %H:%M:%S} ({_distance(value)})"
        else:
            text = beginning(value, limit=limit)
        table.add_row(name, status(value) if name == "status" else Text(text))
    return table


def _distance(when: datetime) -> str:
    return f"{age(when)} ago" if when <= datetime.now(UTC) else "to come"


def _texts(*values: str) -> list[Text]:
    from rich.text import Text

    return [Text(plain(value)) for value in values]
