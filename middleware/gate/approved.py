"""What may run of a call that a gate has let through, looked at again where it is executed."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langgraph.errors import GraphBubbleUp

from placet import errors
from placet.digest import digest_of
from placet.json_values import to_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from langgraph.prebuilt.tool_node import ToolCallRequest


class CallChanged(errors.CallChanged, GraphBubbleUp):
    """Raised when a tool is about to run otherwise than it was approved; it passes all middleware."""


@dataclass(slots=True, kw_only=True)
class _Permit:
    """What one gate lets run of the call that it is around."""

    namespace: str
    gated: frozenset[str]
    digests: set[str] | None
    """Of tool and arguments; None: the call is of a tool that is not gated, whatever its arguments."""


_permits: ContextVar[tuple[_Permit, ...]] = ContextVar("placet_permits", default=())


def call_digest(tool: str, args: Any) -> str:
    """Digest a tool's name and arguments."""
    try:
        return digest_of([tool, to_json(args)])
    except ValueError:  # it cannot be shown whole
        return digest_of([tool, repr(args)])


@contextmanager
def permitted(request: ToolCallRequest, *, gated: frozenset[str], asked: bool) -> Iterator[None]:
    """Let the call run as it is within; `asked`: its tool is gated, or was when it was asked about."""
    digest = call_digest(request.tool_call["name"], request.tool_call["args"])
    permit = _Permit(
        namespace=namespace_of(request.runtime), gated=gated, digests={digest} if asked else None
    )
    token = _permits.set((*_permits.get(), permit))
    try:
        yield
    finally:
        _permits.reset(token)


def check_permitted(request: ToolCallRequest) -> None:
    """Check a call that is about to be executed against all gates around it.

    Raises:
        CallChanged: when it is not what they let through.
    """
    name = request.tool.name if request.tool is not None else request.tool_call["name"]
    permits = [one for one in _permits.get() if one.namespace == namespace_of(request.runtime)]
    digest = call_digest(name, request.tool_call["args"]) if permits else ""
    for permit in permits:
        if name in permit.gated if permit.digests is None else digest not in permit.digests:
            raise CallChanged(name, request.tool_call["id"] or "")


def amend(request: ToolCallRequest, args: Mapping[str, Any]) -> ToolCallRequest:
    """Change a call's arguments after a person has approved it, and answer for that.

    For middleware whose change belongs to the approval, as putting a secret in the place of its name. Hand
    the request that this returns to the handler; one that is changed in another way is refused.

    Raises:
        CallChanged: when the call as it comes in was not approved either.
    """
    check_permitted(request)
    amended = request.override(tool_call={**request.tool_call, "args": dict(args)})
    name = request.tool.name if request.tool is not None else request.tool_call["name"]
    for permit in _permits.get():
        if permit.namespace == namespace_of(request.runtime) and permit.digests is not None:
            permit.digests.add(call_digest(name, amended.tool_call["args"]))
    return amended


def namespace_of(runtime: Any) -> str:
    """The task that executes a call: an agent inside a tool has others."""
    config = getattr(runtime, "config", None) or {}
    namespace: str = config.get("configurable", {}).get("checkpoint_ns", "")
    return namespace
