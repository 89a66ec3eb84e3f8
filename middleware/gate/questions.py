"""How a gate asks: one pause for a batch of calls, or one for each call."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from langgraph.types import interrupt

from ..shared import current_run
from .answer_schema import arguments_type, batched_type, decision_type
from .approved import namespace_of
from .reviews import reviews_in, seal
from .tool_arguments import arguments_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from langchain.agents.middleware.human_in_the_loop import Decision
    from langchain_core.messages import ToolCall
    from langchain_core.tools import BaseTool

    from .reviews import Review
    from .tool_arguments import ToolArguments


class Asked(NamedTuple):
    """A call that a person is asked about: `call`, the model's `original` or what an edit made of it."""

    original: ToolCall
    call: ToolCall
    review: Review


def ask_batched(asked: Sequence[Asked], tools: Mapping[str, ToolArguments]) -> list[Decision]:
    """Ask about several calls at once; the decisions, one for each, in order.

    Raises:
        GraphInterrupt: until there is an answer.
    """
    actions: list[dict[str, Any]] = []
    configs: list[dict[str, Any]] = []
    for one in asked:
        call_id = {"tool_call_id": one.call["id"]} if one.call["id"] else {}
        action = {"name": one.call["name"], "args": one.call["args"]}
        actions.append(action | call_id | {"description": one.review["description"]})
        config = {"action_name": one.call["name"], "allowed_decisions": one.review["allowed"]}
        configs.append(config | _more(one.review))
    run = current_run()
    kind = batched_type(
        [
            (one.review["allowed"], one.call["name"], {name: tools.get(name) for name in one.review["tools"]})
            for one in asked
        ],
        shown=run is None or not run.guarded,  # each of Placet's requests has a schema of its own
    )
    value = {"action_requests": actions, "review_configs": configs}
    decisions: list[Decision] = interrupt(value, response_schema=kind)["decisions"]
    return decisions


def ask_one(call: ToolCall, review: Review, tools: Mapping[str, BaseTool]) -> Decision:
    """Ask about one call.

    Raises:
        GraphInterrupt: until there is an answer.
        ValueError: when the call has no id, which its result would need.
    """
    if call["id"] is None:
        raise ValueError(
            f"Tool call `{call['name']}` has no ID, so its result can't be matched to it. "
            "Make sure the chat model returns tool call IDs."
        )
    value = {
        "type": "tool_approval",
        "tool_call_id": call["id"],
        "name": call["name"],
        "args": call["args"],
        "description": review["description"],
    }
    named = {
        name: arguments_type(arguments_of(tools[name]), tools[name].tool_call_schema)
        if name in tools
        else arguments_type(None)
        for name in review["tools"]
    }
    kind = decision_type(review["allowed"], named)
    decision: Decision = interrupt(value | _more(review), response_schema=kind)
    return decision


def _more(review: Review) -> dict[str, Any]:
    """What ours tells beside LangChain's keys, where there is something to tell."""
    more: dict[str, Any] = {"policy": review["policy"]} if "policy" in review else {}
    return more | ({"allow_tool_change": True} if len(review["tools"]) > 1 else {})


class _First(NamedTuple):
    """A decision on a call that was asked about before any middleware was entered."""

    namespace: str
    gate: str
    tool_call_id: str | None
    seal: str
    decision: Decision


_firsts: ContextVar[tuple[_First, ...]] = ContextVar("placet_first_decisions", default=())


@contextmanager
def asked_first(call: ToolCall, runtime: Any, tools: Mapping[str, BaseTool]) -> Iterator[None]:
    """Ask about a call of a `per_call` gate before any middleware is entered, and keep the decision within.

    A node is entered anew for each answer; so middleware that is listed before the gate runs once a call.

    Raises:
        GraphInterrupt: until there is an answer.
    """
    found = []
    for name, review in reviews_in(runtime.state)["calls"].items():
        wanted = review["mode"] == "per_call" and review["ask"] and "runs" not in review
        if wanted and name == seal(review["gate"], call):
            decision = ask_one(call, review, tools)
            found.append(_First(namespace_of(runtime), review["gate"], call["id"], name, decision))
    token = _firsts.set((*_firsts.get(), *found))
    try:
        yield
    finally:
        _firsts.reset(token)


def first_decision(gate: str, call: ToolCall, runtime: Any) -> tuple[Decision | None, bool]:
    """The decision that was made on a call already; and whether one was made on it before it was changed."""
    namespace, name = namespace_of(runtime), seal(gate, call)
    ours = [one for one in _firsts.get() if (one.namespace, one.gate) == (namespace, gate)]
    decision = next((one.decision for one in ours if one.seal == name), None)
    return decision, any(one.tool_call_id == call["id"] and one.seal != name for one in ours)
