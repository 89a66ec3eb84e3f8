"""Every error Placet raises, under one root, retryable and permanent told apart by base class."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence


class Issue(TypedDict):
    """One thing wrong with a decision: where (`/edited_action/args/amount`) and what."""

    path: str
    message: str


class PlacetError(Exception):
    """Root of all errors that Placet raises."""


class RetryableError(PlacetError):
    """Base of errors that may pass by themselves: the same call can be made again."""


class PermanentError(PlacetError):
    """Base of errors that the same call will meet again."""


class StoreUnavailable(RetryableError):
    """Raised when Redis does not answer; nothing is known to have been changed."""


class NotConnected(PermanentError):
    """Raised when a client is used outside its `with`, or in another process than the one it connected in."""


class WaitTimeout(RetryableError):
    """Raised when `wait` or `stream` reached its timeout before the run did."""

    def __init__(self, run_id: str, seconds: float) -> None:
        super().__init__(f"run {run_id} has not ended within {seconds:g} s")
        self.run_id = run_id


class LeaseLost(RetryableError):
    """Raised when a write comes from a worker that no longer holds the thread's lease."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(f"the lease on thread {thread_id!r} is held by another worker")
        self.thread_id = thread_id


class InvalidSettings(PermanentError):
    """Raised when a setting, or a file it names, cannot be used; the message names it."""


class InvalidAgent(InvalidSettings):
    """Raised when `langgraph.json` or an agent it lists cannot be loaded."""


class UnknownAgent(PermanentError):
    """Raised when a run names an agent that no loaded `langgraph.json` lists."""


class InvalidInput(PermanentError, ValueError):
    """Raised when an argument is refused; the message names the field and what would be right."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


class NotFound(PermanentError):
    """Raised when a run, thread or approval request is not there (any more)."""

    def __init__(self, kind: str, key: str) -> None:
        super().__init__(f"no {kind} {key!r}")
        self.kind = kind
        self.key = key


class ThreadExpired(NotFound):
    """Raised when a thread was there and is no more: nothing goes on there, and nothing starts anew.

    `why` is `deleted`, `expired` or, where its checkpoints are gone for another reason, `lost`.
    """

    def __init__(self, thread_id: str, why: str = "lost") -> None:
        super().__init__("thread", thread_id)
        what = {"deleted": "was deleted", "expired": "has expired"}.get(why)
        gone = f"the checkpoints of thread {thread_id!r} are gone: they expired, were removed or lost"
        self.args = (f"thread {thread_id!r} {what}: use another thread_id" if what else gone,)
        self.thread_id = thread_id
        self.why = why


class Conflict(PermanentError):
    """Raised when the record's present state forbids the call; the message says which state."""


class ThreadBusy(Conflict):
    """Raised when a run was to be rejected if its thread has another; `run_id` is the one in the way."""

    def __init__(self, thread_id: str, run_id: str, status: str) -> None:
        super().__init__(f"thread {thread_id!r} is busy: its run {run_id} is {status}; nothing was enqueued")
        self.thread_id = thread_id
        self.run_id = run_id
        self.status = status


class AlreadyDecided(Conflict):
    """Raised when a request has its decision; `decided_by` and `decision` tell whose and which."""

    def __init__(self, approval_id: str, decided_by: str, decision: str) -> None:
        super().__init__(f"approval {approval_id} was already decided by {decided_by}: {decision}")
        self.approval_id = approval_id
        self.decided_by = decided_by
        self.decision = decision


class NotPending(Conflict):
    """Raised when a request is expired, superseded or cancelled and takes no decision."""

    def __init__(self, approval_id: str, status: str, reason: str = "") -> None:
        super().__init__(f"approval {approval_id} is {status}" + (f": {reason}" if reason else ""))
        self.approval_id = approval_id
        self.status = status
        self.reason = reason


class ChangedSinceSeen(Conflict):
    """Raised when the digest a reviewer saw is no longer the request's."""

    def __init__(self, approval_id: str) -> None:
        super().__init__(f"approval {approval_id} has changed since you saw it: look at it again")
        self.approval_id = approval_id


class NotAllowed(PermanentError):
    """Raised when a reviewer may not decide on a request; `why` says what is in the way."""

    def __init__(self, approval_id: str, reviewer: str, why: str) -> None:
        super().__init__(f"{reviewer} may not decide on approval {approval_id}: {why}")
        self.approval_id = approval_id
        self.reviewer = reviewer
        self.why = why


class InvalidDecision(PermanentError):
    """Raised when a decision does not fit its request; nothing was saved, `issues` say why."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        super().__init__("; ".join(f"{i['path'] or '/'}: {i['message']}" for i in issues))
        self.issues = list(issues)


class TooLarge(PermanentError):
    """Raised when something is larger than a setting allows; the message names both."""

    def __init__(self, what: str, size: int, most: int, setting: str) -> None:
        super().__init__(f"{what} has {size:,} bytes of JSON; the most is {most:,} ({setting})")
        self.size = size
        self.most = most


class IncompatibleGraph(RetryableError):
    """Raised when a run cannot go on in the graph that is deployed here; it is left as it was for another."""


class UnstorableType(PermanentError):
    """Raised when a value is about to be written to a checkpoint that would not come back as it is."""

    def __init__(self, type_name: str, message: str) -> None:
        super().__init__(f"a checkpoint cannot hold {type_name}: {message}")
        self.type_name = type_name


class UnreadableCheckpoint(PermanentError):
    """Raised when a stored checkpoint cannot be made again as it was written."""


class Unsealable(PermanentError):
    """Raised when a sealed value does not open: it was sealed under another key, or is damaged."""

    def __init__(self) -> None:
        super().__init__("PLACET_ENCRYPTION_KEY: a sealed value does not open with this key")


class ChangedArguments(PermanentError):
    """Raised when a tool call's arguments are not those that its digest stands for; it does not run."""

    def __init__(self, tool: str, tool_call_id: str) -> None:
        super().__init__(
            f"the arguments of {tool} are not those that were asked about (call {tool_call_id!r})"
        )
        self.tool = tool
        self.tool_call_id = tool_call_id


class OutcomeUnknown(PermanentError):
    """Raised when a tool call may have run in a worker that died, and its `on_unknown` is `fail`."""

    def __init__(self, tool: str, tool_call_id: str) -> None:
        super().__init__(f"it is not known whether {tool!r} ran (call {tool_call_id}): it is not run again")
        self.tool = tool
        self.tool_call_id = tool_call_id


class EarlierToolError(PermanentError):
    """Raised in place of the error that ended an attempt at a tool call in a worker that died later.

    Where that was one of Python's own exceptions, it is an instance of its class too.
    """

    def __init__(self, type_name: str, message: str) -> None:
        super().__init__(message)
        self.type_name = type_name


class AttemptLost(PermanentError):
    """Raised when all attempts at a call have been started, and nobody knows how the last one ended."""

    def __init__(self, what: str, attempts: int) -> None:
        super().__init__(f"the worker stopped in the last attempt ({attempts}) at {what}")
        self.what = what
        self.attempts = attempts


class CallChanged(PermanentError):
    """Raised when a tool is about to run otherwise than it was approved; it does not run."""

    def __init__(self, tool: str, tool_call_id: str) -> None:
        super().__init__(
            f"{tool!r} was about to run otherwise than its gate let it (call {tool_call_id}): middleware"
            " changed the call; one that is meant to says so with placet.middleware.amend"
        )
        self.tool = tool
        self.tool_call_id = tool_call_id


class NoToolCall(PermanentError):
    """Raised when the current tool call is asked for where none is under way."""


class NoRun(PermanentError):
    """Raised when middleware needs to know the run that is under way, and there is none."""
