"""From what LangGraph raised when a segment paused to the requests that reviewers see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from placet.middleware.shared import TIMER, UNKNOWN_CALL

from ..digest import digest_of, own_pause_id, short_id
from ..json_values import shown, shown_schema
from ..state.approvals import ApprovalRequest
from .response_schema import decision_schema
from .tool_calls import Draft, PendingCall, RaisedInterrupt, batched, per_call, policy_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ..agents.masks import Masks


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticBreakpoint:
    """A stop that `interrupt_before` or `interrupt_after` made, at this checkpoint."""

    checkpoint_id: str
    when: Literal["before", "after"]
    nodes: tuple[str, ...]
    """The nodes that come next (before), or that have just run (after)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """What a paused segment waits for."""

    requests: tuple[ApprovalRequest, ...]
    """For people, in the order of the interrupts."""
    wake_at_ms: int | None
    """When the earliest of our own timers is due."""
    sleeps: str
    """What that timer is for."""
    interrupts: list[dict[str, Any]]
    """The interrupts people answer, as JSON for the event: id, value, response_schema."""


def pause_of(
    *,
    run_id: str,
    agent: str,
    interrupts: Iterable[RaisedInterrupt] = (),
    pending: Sequence[PendingCall] = (),
    tool_schemas: Mapping[str, Mapping[str, Any]] | None = None,
    breakpoint_at: StaticBreakpoint | None = None,
    masks: Masks | None = None,
) -> Pause:
    """Turn what a segment raised into requests, the same ones in every process.

    An interrupt seen twice (a subgraph's is reported by its parents too) counts once. What has no
    shape that is understood whole becomes a question, whose answer opens nothing by itself.

    Args:
        run_id: The run that paused.
        agent: Its agent's name, part of what a reviewer is shown.
        interrupts: All that are open, in LangGraph's order.
        pending: `pending_tool_calls` of the state, and of the subgraphs' states.
        tool_schemas: JSON Schema of each tool's arguments by the tool's name, as far as known.
        breakpoint_at: The static breakpoint the graph stopped at, if it did.
        masks: What people are not to see of it.
    """
    requests: list[ApprovalRequest] = []
    listed: list[dict[str, Any]] = []
    due: list[tuple[int, str]] = []
    seen: set[str] = set()
    bound = {call.id: call.bound for call in pending}
    for raised in interrupts:
        if raised.id in seen:
            continue
        seen.add(raised.id)
        if (timer := _own_timer(raised)) is not None:
            due.append(timer)
            continue
        value, schema = shown(raised.value), shown_schema(raised.response_schema)
        drafts = (
            _unknown_call(raised)
            or batched(value, raised.value, pending, tool_schemas or {})
            or per_call(value, raised.value, schema)
            or [Draft("question", "raw", ("answer",), schema, value=value)]
        )
        if masks is not None:
            drafts = [_masked(draft, masks, bound.get(draft.tool_call_id, "")) for draft in drafts]
            value = masks.asked(value) if drafts[0].kind == "question" else masks.arguments(value)
        listed.append({"id": raised.id, "value": value, "response_schema": schema})
        requests += _numbered(run_id, agent, raised.id, drafts)
    if breakpoint_at is not None:
        requests += _numbered(run_id, agent, *_static(breakpoint_at))
    wake_at, sleeps = min(due, default=(None, ""))
    return Pause(requests=tuple(requests), wake_at_ms=wake_at, sleeps=sleeps, interrupts=listed)


def _masked(draft: Draft, masks: Masks, bound: str) -> Draft:
    """Mask what a draft shows; the digest is of what it stands for.

    Arguments are masked in the model's message where its agent's middleware does so. Those that are masked
    here alone cannot be restored in an edit, so that none is taken.
    """
    args, value = masks.arguments(draft.args), masks.asked(draft.value)
    if (args, value) != (draft.args, draft.value):
        bound = bound or masks.bound([draft.args, draft.value])
    allowed = draft.allowed
    if args != draft.args and set(allowed) - {"edit"}:
        allowed = tuple(kind for kind in allowed if kind != "edit")
    return draft._replace(
        args=args, value=value, description=masks.described(draft.description), allowed=allowed, bound=bound
    )


def _own_timer(raised: RaisedInterrupt) -> tuple[int, str] | None:
    """When a timer of our own is due, and what for; None for anything else, copies of one included."""
    value = raised.value
    if not isinstance(value, dict) or value.get("type") != TIMER or type(due := value.get("due")) is not int:
        return None
    return (due, str(value.get("why", ""))) if raised.id == _own_id(value) else None


def _unknown_call(raised: RaisedInterrupt) -> list[Draft]:
    """Ask what became of a tool call that the ledger has no result of; empty for anything else."""
    value = raised.value
    if not isinstance(value, dict) or value.get("type") != UNKNOWN_CALL or raised.id != _own_id(value):
        return []
    allowed = ("approve", "respond", "reject")
    return [
        Draft(
            "unknown_call",
            "own",
            allowed,
            decision_schema(allowed),
            tool=value["tool"],
            args=value["args"],
            tool_call_id=value["tool_call_id"],
            description=" ".join(filter(None, (value["description"], value.get("told")))),
            policy=policy_in(value),
        )
    ]


def _own_id(value: Any) -> str | None:
    try:
        return own_pause_id(value)
    except ValueError:
        return None


def _static(stop: StaticBreakpoint) -> tuple[str, list[Draft]]:
    """Ask about a static breakpoint: approve goes on, reject cancels the run."""
    nodes = sorted(stop.nodes)
    names = ", ".join(nodes)
    allowed = ("approve", "reject")
    schema = decision_schema(allowed)
    description = f"The run has stopped {stop.when} {names}."
    interrupt_id = digest_of([stop.checkpoint_id, stop.when, nodes])
    return interrupt_id, [Draft("breakpoint", "static", allowed, schema, tool=names, description=description)]


def _numbered(
    run_id: str, agent: str, interrupt_id: str, drafts: Sequence[Draft]
) -> Iterator[ApprovalRequest]:
    for index, draft in enumerate(drafts):
        parts = draft._asdict()
        # how the answer travels is no concern of a reviewer's
        seen = {name: part for name, part in parts.items() if name not in ("mode", "tool_call_id", "bound")}
        if draft.policy is None:
            del seen["policy"]  # requests made before there were policies keep their digests
        if bound := parts.pop("bound"):
            seen["bound"] = bound
        digest = digest_of({**seen, "agent": agent})
        yield ApprovalRequest(
            id=short_id(run_id, interrupt_id, index, digest),
            interrupt_id=interrupt_id,
            index=index,
            count=len(drafts),
            digest=digest,
            **parts,
        )
