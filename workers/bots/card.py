"""What a reviewer is shown of a request, before any platform draws it: text, buttons and their tokens."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast, get_args

from ..digest import digest_of
from ..errors import InvalidInput
from ..output import decision_line, plain, pretty

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..state.approvals import Approval

Action = Literal["approve", "edit", "reject", "respond", "answer", "details"]
"""What a button does; all but `details` are decision types."""

_ACTIONS: tuple[Action, ...] = get_args(Action)
_TOKEN = re.compile(r"placet:(\w+):([0-9a-z]{12}):([0-9a-f]{32})")
_HEADINGS = {
    "tool_call": "{tool}: may it run?",
    "question": "A question",
    "breakpoint": "The run has stopped at {tool}: may it go on?",
    "unknown_call": "{tool} may have run already: what became of it?",
}
_LABELS = {
    "approve": "Approve",
    "edit": "Edit",
    "reject": "Reject",
    "respond": "Respond",
    "answer": "Answer",
    "details": "Details",
}
_LABELS_UNKNOWN = {"approve": "Run it again", "respond": "It is done", "reject": "Give it up"}
_DONE = {
    "approve": "Approved",
    "edit": "Edited and approved",
    "reject": "Rejected",
    "respond": "Answered in the tool's place",
    "answer": "Answered",
}
_OUTCOMES = {
    "started": "it is running",
    "succeeded": "it ran",
    "failed": "it ran and failed",
    "unknown": "whether it ran is not known",
    "not_run": "it did not run",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A request as text; all of it may hold what a model wrote, so a platform escapes all of it.

    Characters that cannot be seen, and those that turn the direction, are written out by number already.
    """

    approval: Approval
    heading: str
    """One line, without a model's words but for the tool's name."""
    state: str
    """What has become of it: `Waits for a decision`, `Approved by alice: it ran`, `Cancelled: …`."""
    facts: tuple[tuple[str, str], ...]
    """Label and text: who may decide, for whom, agent, run, thread."""
    description: str
    """What the agent's author says of it; may be empty."""
    content: str
    """The arguments as JSON, or the question; may be empty (a breakpoint)."""
    actions: tuple[Action, ...]
    """Decisions that it takes; empty once it takes none."""
    reminder: int = 0
    """Which posting of the request at a place it is: 0 the first, then each reminder."""

    @property
    def open(self) -> bool:
        """Whether it takes a decision."""
        return self.approval.status == "pending"

    @property
    def drawn(self) -> str:
        """Digest of all that is shown: a card that was drawn with another one has to be drawn anew."""
        shown = [self.heading, self.state, self.facts, self.description, self.content, self.actions]
        return digest_of(json.loads(json.dumps([shown, self.approval.digest])))

    def label(self, action: Action) -> str:
        """What a button says."""
        unknown = _LABELS_UNKNOWN if self.approval.kind == "unknown_call" else {}
        return unknown.get(action) or _LABELS[action]

    def button(self, action: Action) -> str:
        """What a button carries: `placet:approve:ID:DIGEST`, 60 characters at most."""
        return f"placet:{action}:{self.approval.id}:{self.approval.digest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """What came back from a button; nothing in it is trusted: it says what the person looked at."""

    action: Action
    approval_id: str
    digest: str


def read_button(token: str) -> Button:
    """Read what a button carried.

    Raises:
        InvalidInput: when it is none of ours.
    """
    found = _TOKEN.fullmatch(token)
    if found is None or found[1] not in _ACTIONS:
        raise InvalidInput("button", "is none of Placet's")
    return Button(action=cast("Action", found[1]), approval_id=found[2], digest=found[3])


def card_of(approval: Approval) -> Card:
    """Tell a request as a card."""
    pending = approval.status == "pending"
    return Card(
        approval=approval,
        heading=_HEADINGS[approval.kind].format(tool=plain(approval.tool or "").replace("\n", " ")),
        state=_state(approval),
        facts=tuple((label, plain(text)) for label, text in _facts(approval) if text),
        description=plain(approval.description),
        content=_content(approval),
        actions=cast("tuple[Action, ...]", approval.allowed) if pending else (),
    )


def _state(approval: Approval) -> str:
    if approval.status == "pending":
        why = approval.incompatible
        return plain(f"Waits for another deployment: {why}") if why else "Waits for a decision"
    if approval.decision is None:
        reason = f": {approval.reason}" if approval.reason else ""
        return plain(f"{approval.status.capitalize()}{reason}")
    type_, _, rest = decision_line(approval).partition(" ")
    done = f"{_DONE.get(type_, 'Decided')} by {approval.decided_by}"
    told = [f"{done} {rest}" if rest else done]
    if approval.kind in ("tool_call", "unknown_call") and type_ in ("approve", "edit"):
        told.append(_OUTCOMES.get(approval.outcome, ""))
    return plain(": ".join(one for one in told if one))


def _facts(approval: Approval) -> Sequence[tuple[str, str]]:
    reviewers = (approval.policy or {}).get("reviewers")
    return (
        ("For", approval.principal or ""),
        ("Who may decide", ", ".join(map(str, reviewers)) if isinstance(reviewers, list) else ""),
        ("Agent", approval.agent),
        ("Run", approval.run_id),
        ("Thread", approval.thread_id),
        ("Asked", f"{approval.created_at:%Y-%m-%d %H:%M} UTC"),
        ("Request", approval.id),
    )


def _content(approval: Approval) -> str:
    if approval.kind == "question":
        return plain(approval.value) if isinstance(approval.value, str) else pretty(approval.value)
    return "" if approval.args is None else pretty(approval.args)
