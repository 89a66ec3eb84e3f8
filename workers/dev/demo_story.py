"""What `placet demo` saw happen, and the last line it makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import PermanentError

if TYPE_CHECKING:
    from ..state.approvals import Approval
    from ..state.events import Event
    from ..state.runs import Run

_DONE = {"approve": "Approved", "edit": "Edited", "reject": "Rejected", "respond": "Responded"}


class DemoFailed(PermanentError):
    """Raised when the demo did not show what it promises; the message says what happened instead."""


@dataclass(slots=True, kw_only=True)
class Story:
    """What the demo saw: which worker process executed the run, what was decided, what tools returned."""

    process: int | None = None
    """The process of the run's latest event from a worker."""
    paused_in: int | None = None
    decided: list[Approval] = field(default_factory=list)
    results: list[tuple[str, int | None]] = field(default_factory=list)
    """Tool and process of each result that a tool itself gave."""

    def follow(self, event: Event) -> None:
        """Take in one event of the run."""
        if event.pid is not None and event.type != "approval.decided":
            self.process = event.pid
        if event.type == "updates" and isinstance(event.data, dict):
            self.results += [(tool, event.pid) for tool in _tool_results(event.data)]

    def summary(self, run: Run) -> dict[str, Any]:
        """Put it in one record; `message` is the demo's last line.

        Raises:
            DemoFailed: when something else happened than what was decided.
        """
        if run.status != "success" or not self.decided:
            why = run.error["message"] if run.error else "it asked for no approval"
            raise DemoFailed(f"the run ended as {run.status}: {why}")
        approval = self.decided[-1]
        decision = approval.decision or {}
        kind = decision["type"]
        args = decision["edited_action"]["args"] if kind == "edit" else approval.args
        what = f"{approval.tool} of {float(args.get('amount', 0)):.2f} EUR"
        expected = sum((one.decision or {})["type"] in {"approve", "edit"} for one in self.decided)
        ran_in = [process for tool, process in self.results if tool == approval.tool]
        if len(ran_in) != expected or self.process == self.paused_in:
            raise DemoFailed(
                f"{what} ran {len(ran_in)} times (in {ran_in}), expected {expected}; "
                f"paused in {self.paused_in}, ended in {self.process}"
            )
        if kind in {"approve", "edit"}:
            done = f"ran once, in process {ran_in[-1]} (paused in {self.paused_in})"
        else:
            done = f"never ran; process {self.process} finished (paused in {self.paused_in})"
        return {
            "type": "summary",
            "pid": self.process,
            "run_id": run.id,
            "status": run.status,
            "decision": kind,
            "tool": approval.tool,
            "args": args,
            "executions": len(ran_in),
            "paused_in": self.paused_in,
            "finished_in": self.process,
            "message": f"{_DONE[kind]}: {what} {done}.",
        }


def _tool_results(updates: dict[str, Any]) -> list[str]:
    """Names of the tools whose results a node has written; a reviewer's answer comes from another node."""
    found = []
    for node, update in updates.items():
        messages = update.get("messages", []) if isinstance(update, dict) else []
        if node == "tools":
            found += [m["name"] for m in messages if m.get("type") == "tool" and m.get("status") == "success"]
    return found
