"""Commands on approval requests: list, show, watch and the five ways to decide one."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..output import approval_details, approvals_table, as_data, call, decision_line, lay_out, print_json, say
from .arguments import (
    JSON_HELP,
    AsJson,
    Limit,
    OfAgent,
    OfThread,
    connected,
    current_user,
    read_json,
    read_object,
)

if TYPE_CHECKING:
    from ..client import Placet
    from ..state.approvals import Approval
    from ..state.cards import PostedCard

OfRun = Annotated[str | None, typer.Option("--run", help="Only of this run.")]
ApprovalId = Annotated[str, typer.Argument(metavar="ID", help="The approval request's id.")]
Reviewer = Annotated[
    str | None, typer.Option("--reviewer", help="Who decides.", show_default="your user name")
]
Seen = Annotated[
    str | None, typer.Option("--seen", help="Digest of what you saw; refused if it has changed.")
]

_QUOTE = """; a text needs its quotes, and the shell's around them: --value '"yes"'"""

approvals = typer.Typer(no_args_is_help=True, help="Look at approval requests.")

_DONE = {
    "approve": "approved",
    "edit": "edited and approved",
    "reject": "rejected",
    "respond": "responded to",
    "answer": "answered",
}


@approvals.command("list")
def list_approvals(
    *,
    every: Annotated[bool, typer.Option("--all", help="Decided and expired ones too.")] = False,
    run: OfRun = None,
    thread: OfThread = None,
    agent: OfAgent = None,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """List what waits for a decision, newest first."""
    found = connected(
        lambda placet: placet.approvals(
            status=None if every else "pending", run_id=run, thread_id=thread, agent=agent, limit=limit
        )
    )
    if as_json:
        for approval in found:
            print_json(as_data(approval))
    elif found:
        lay_out(approvals_table(found))
    else:
        say("no approval requests" if every else "nothing waits for a decision")


@approvals.command()
def show(approval_id: ApprovalId, as_json: AsJson = False) -> None:
    """Show one request in full, with the commands that decide it."""

    async def do(placet: Placet) -> tuple[Approval, list[PostedCard]]:
        return await placet.approval(approval_id), await placet.cards(approval_id)

    approval, cards = connected(do)
    if as_json:
        print_json({**as_data(approval), "cards": [asdict(card) for card in cards]})
    else:
        lay_out(approval_details(approval, cards=cards))


@approvals.command()
def watch(as_json: AsJson = False) -> None:
    """Print pending requests, then each new one as it comes."""

    async def do(placet: Placet) -> None:
        async for approval in placet.watch_approvals():
            if as_json:
                print_json(as_data(approval))
            else:
                lay_out(approval_details(approval))
                say("")

    connected(do)


def approve(
    approval_ids: Annotated[list[str], typer.Argument(metavar="ID…", help="Ids of approval requests.")],
    reviewer: Reviewer = None,
    seen: Seen = None,
    as_json: AsJson = False,
) -> None:
    """Let calls run as they were shown: all of those that are named, or none."""
    if seen is not None and len(approval_ids) > 1:
        raise typer.BadParameter("goes with one ID only", param_hint="--seen")
    digests = {} if seen is None else {approval_ids[0]: seen}
    decisions = {approval_id: {"type": "approve"} for approval_id in approval_ids}
    by = _reviewer(reviewer)
    for approval in connected(lambda placet: placet.decide_many(decisions, reviewer=by, seen=digests)):
        _tell(approval, as_json)


def reject(
    approval_id: ApprovalId,
    message: Annotated[str | None, typer.Option("--message", help="Why; the agent reads it.")] = None,
    reviewer: Reviewer = None,
    seen: Seen = None,
    as_json: AsJson = False,
) -> None:
    """Refuse the call; it never runs."""
    decision = {"type": "reject"} if message is None else {"type": "reject", "message": message}
    _decide(approval_id, decision, reviewer, seen, as_json)


def edit(
    approval_id: ApprovalId,
    args: Annotated[str, typer.Option("--args", help=f"All arguments of the call: {JSON_HELP}")],
    reviewer: Reviewer = None,
    seen: Seen = None,
    as_json: AsJson = False,
) -> None:
    """Let the call run with other arguments."""
    given = read_object(args, "--args")
    tool = connected(lambda placet: placet.approval(approval_id)).tool
    decision = {"type": "edit", "edited_action": {"name": tool, "args": given}}
    _decide(approval_id, decision, reviewer, seen, as_json)


def respond(
    approval_id: ApprovalId,
    message: Annotated[str, typer.Option("--message", help="What the agent gets as the tool's result.")],
    reviewer: Reviewer = None,
    seen: Seen = None,
    as_json: AsJson = False,
) -> None:
    """Answer in the tool's place; the call does not run."""
    _decide(approval_id, {"type": "respond", "message": message}, reviewer, seen, as_json)


def answer(
    approval_id: ApprovalId,
    value: Annotated[str, typer.Option("--value", help=f"The answer: {JSON_HELP}")],
    reviewer: Reviewer = None,
    seen: Seen = None,
    as_json: AsJson = False,
) -> None:
    """Answer an agent's question."""
    decision = {"type": "answer", "value": read_json(value, "--value", hint=_QUOTE)}
    _decide(approval_id, decision, reviewer, seen, as_json)


def _decide(
    approval_id: str, decision: dict[str, Any], reviewer: str | None, seen: str | None, as_json: bool
) -> None:
    by = _reviewer(reviewer)
    _tell(connected(lambda placet: placet.decide(approval_id, decision, reviewer=by, seen=seen)), as_json)


def _reviewer(given: str | None) -> str:
    reviewer = current_user() if given is None else given
    if not reviewer.strip():
        raise typer.BadParameter("must name who decides", param_hint="--reviewer")
    return reviewer


def _tell(approval: Approval, as_json: bool) -> None:
    if as_json:
        print_json(as_data(approval))
    else:
        say(decided(approval))


def decided(approval: Approval) -> str:
    """What was decided, on one line: `approved by alice: refund(amount=42.0) [run r-1]`."""
    type_, _, rest = decision_line(approval).partition(" ")
    text = f"{_DONE.get(type_, approval.status)} by {approval.decided_by}: {call(approval)}"
    return f"{text} {rest} [run {approval.run_id}]" if rest else f"{text} [run {approval.run_id}]"
