"""How LangChain's human-in-the-loop middleware asks about tool calls, in both of its modes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from placet.middleware.shared import BOUND

from ..json_values import canonical, shown, shown_schema
from .response_schema import DECISION_TYPES, branches, decision_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..state.approvals import ApprovalKind, ApprovalMode


class RaisedInterrupt(Protocol):
    """What is read of LangGraph's `Interrupt`."""

    @property
    def id(self) -> str: ...  # noqa: D102
    @property
    def value(self) -> Any: ...  # noqa: D102
    @property
    def response_schema(self) -> Any: ...  # noqa: D102


class PendingCall(NamedTuple):
    """A tool call of an AI message that has no result yet; arguments as JSON values."""

    id: str | None
    name: str
    args: Any
    bound: str = ""
    """Keyed digest of its raw arguments, where they are masked."""


class Draft(NamedTuple):
    """The parts of a request that depend on the interrupt's shape."""

    kind: ApprovalKind
    mode: ApprovalMode
    allowed: tuple[str, ...]
    response_schema: dict[str, Any] | None
    tool: str | None = None
    args: Any = None
    tool_call_id: str | None = None
    description: str = ""
    value: Any = None
    policy: dict[str, Any] | None = None
    bound: str = ""
    """Keyed digest of what is masked in it; part of the request's digest."""


def is_tool_approval_interrupt(interrupt: RaisedInterrupt | Mapping[str, Any]) -> bool:
    """Tell whether an interrupt asks for one tool call, as LangChain's `per_call` mode raises it.

    The twin of LangChain.js' `isToolApprovalInterrupt`: it looks at the value's shape alone. Takes an
    `Interrupt`, or one as the pause event lists it.
    """
    value = interrupt.get("value") if isinstance(interrupt, Mapping) else interrupt.value
    return (
        isinstance(value, Mapping)
        and value.get("type") == "tool_approval"
        and all(isinstance(value.get(name), str) for name in ("tool_call_id", "name", "description"))
        and isinstance(value.get("args"), Mapping)
    )


def pending_tool_calls(messages: Iterable[Any]) -> list[PendingCall]:
    """List the calls of the last AI message that no tool message answers; `messages` are LangChain's."""
    calls: list[dict[str, Any]] = []
    answered: set[str] = set()
    bound: dict[str, str] = {}
    for message in messages:
        kind = getattr(message, "type", None)
        if kind == "ai":
            calls, answered = message.tool_calls, set()
            bound = message.additional_kwargs.get(BOUND) or {}
        elif kind == "tool":
            answered.add(message.tool_call_id)
    return [
        PendingCall(shown(c["id"]), shown(c["name"]), shown(c["args"]), bound.get(c["id"], ""))
        for c in calls
        if c["id"] not in answered
    ]


def batched(
    value: Any, raw: Any, pending: Sequence[PendingCall], tool_schemas: Mapping[str, Mapping[str, Any]]
) -> list[Draft]:
    """Read the value that LangChain's `batched` mode raises; empty if it is not one, whole and sound."""
    if not isinstance(value, dict):
        return []
    actions, configs = value.get("action_requests"), value.get("review_configs")
    if not (isinstance(actions, list) and isinstance(configs, list) and 0 < len(actions) == len(configs)):
        return []
    allowed = _allowed_by_name(configs)
    if allowed is None or not all(_is_action(action) and action["name"] in allowed for action in actions):
        return []
    ids = _call_ids(actions, pending)
    drafts = []
    for index, (action, call_id, config) in enumerate(zip(actions, ids, configs, strict=True)):
        name, types = action["name"], allowed[action["name"]]
        changes = config.get("allow_tool_change") is True
        others = [other for other in tool_schemas if other != name] if changes else []
        drafts.append(
            Draft(
                "tool_call",
                "batched",
                types,
                decision_schema(
                    types,
                    tool=name,
                    args=shown_schema(tool_schemas.get(name)),
                    others={other: shown_schema(tool_schemas[other]) for other in others},
                ),
                name,
                action["args"],
                call_id,
                _description(action, _item(raw, "action_requests", index)),
                policy=policy_in(config),
            )
        )
    return drafts


def policy_in(told: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a gate tells of who may decide; what is no dict cannot be used, and lets nobody."""
    policy = told.get("policy")
    return policy if policy is None or isinstance(policy, dict) else {"policy": policy}


def _is_action(action: Any) -> bool:
    return (
        isinstance(action, dict)
        and isinstance(action.get("name"), str)
        and isinstance(action.get("args"), dict)
        and isinstance(action.get("description", ""), str)
    )


def _allowed_by_name(configs: Sequence[Any]) -> dict[str, tuple[str, ...]] | None:
    """The decision types of each action; None if a config is unsound or two of them disagree."""
    allowed: dict[str, tuple[str, ...]] = {}
    for config in configs:
        name = config.get("action_name") if isinstance(config, dict) else None
        types = config.get("allowed_decisions") if isinstance(config, dict) else None
        if not isinstance(name, str) or not isinstance(types, list) or not types:
            return None
        if any(kind not in DECISION_TYPES for kind in types):
            return None
        kinds = tuple(dict.fromkeys(types))
        if allowed.setdefault(name, kinds) != kinds:
            return None
    return allowed


def _call_ids(actions: Sequence[dict[str, Any]], pending: Sequence[PendingCall]) -> list[str | None]:
    """Find each action's tool call: ours names it, else equal calls pair off, if as many are there."""
    calls: dict[bytes, list[str | None]] = defaultdict(list)
    for call in pending:
        calls[canonical([call.name, call.args])].append(call.id)
    keys = [canonical([action["name"], action["args"]]) for action in actions]
    paired = {key: iter(ids) for key, ids in calls.items() if len(ids) == keys.count(key)}
    found = [next(paired[key]) if key in paired else None for key in keys]
    return [
        told if isinstance(told := action.get("tool_call_id"), str) else paired_id
        for action, paired_id in zip(actions, found, strict=True)
    ]


def per_call(value: Any, raw: Any, schema: dict[str, Any] | None) -> list[Draft]:
    """Read the value that LangChain's `per_call` mode raises; empty if it merely looks like one.

    The proof is the response schema, which comes from code and never from a model: it must offer
    LangChain's decision types and nothing else. The call's id proves nothing: the messages of an
    agent that runs inside a tool are in no state snapshot, and its ids may be those of the calls outside.
    """
    allowed = tuple(branches(schema))
    if not allowed or not set(allowed) <= set(DECISION_TYPES):
        return []
    if not is_tool_approval_interrupt({"value": value}):
        return []
    description = _description(value, raw)
    return [
        Draft(
            "tool_call",
            "per_call",
            allowed,
            schema,
            value["name"],
            value["args"],
            value["tool_call_id"],
            description,
            policy=policy_in(value),
        )
    ]


def _description(action: Mapping[str, Any], raw: Any) -> str:
    """The author's description, without the tail that LangChain writes when there is none.

    That tail is the arguments' `repr`: it repeats what is shown beside it, slips past the masks that
    cards put over secrets, and may read differently from process to process.
    """
    text: str = action.get("description", "")
    if isinstance(raw, Mapping):
        text = text.removesuffix(f"\n\nTool: {raw.get('name')}\nArgs: {raw.get('args')}")
    return text


def _item(raw: Any, name: str, index: int) -> Any:
    items = raw.get(name) if isinstance(raw, Mapping) else None
    return items[index] if isinstance(items, list | tuple) else None
