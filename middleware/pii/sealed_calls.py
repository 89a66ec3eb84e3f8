"""Tool calls whose arguments are masked in the message that makes them, and raw again where the tool runs.

What was masked travels with the message, sealed: each rule adds one sealed map of placeholders to values. A
placeholder stands for one value in all of the message's calls, and occurs nowhere else in their arguments, so
that it can be put wherever a reviewer's edit has left it.
"""

from __future__ import annotations

import os
import re
from itertools import count
from typing import TYPE_CHECKING, Any

from placet.errors import ChangedArguments, InvalidSettings
from placet.json_values import shown
from placet.sealing import seal_of

from ..calling import message_of
from ..gate.approved import amend
from ..shared import BOUND
from .redaction import PIIDetectionError, as_text, replaced
from .walk import walk, walk_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain.agents.middleware import PIIMatch
    from langchain_core.messages import AIMessage
    from langgraph.prebuilt.tool_node import ToolCallRequest

    from placet.sealing import Seal

    from .redaction import Rule

SEALED = "placet_sealed"
"""In a message's `additional_kwargs`: the sealed maps by their rule's type, as they were made."""
_ABOUT = "tool arguments"
_MOST_TRIES = 100
_CALL_FIELDS = ("input", "args", "arguments", "partial_json")
"""Of a block of content: where providers put a call's arguments."""
_CALL_KWARGS = ("tool_calls", "function_call")


def seal_here() -> Seal | None:
    """The seal of this process's key.

    Raises:
        InvalidSettings: when the key cannot be used.
    """
    return seal_of(os.environ.get("PLACET_ENCRYPTION_KEY", "").strip())


class _Placeholders:
    """The values that a rule has found in a message's calls, and what stands for each."""

    def __init__(self, rule: Rule, *, least: int) -> None:
        self._rule = rule
        self._least = least
        self._names: dict[tuple[type, Any], str] = {}
        self.values: dict[str, Any] = {}
        """By placeholder."""

    def leaf(self, value: Any) -> Any:
        """Mask a leaf of the arguments.

        Raises:
            PIIDetectionError: when the rule blocks.
        """
        text = as_text(value)
        found = self._rule.matches(text) if text else []
        if text is None or not found:
            return value
        if self._rule.strategy == "block":
            raise PIIDetectionError(found[0]["type"], found)
        if isinstance(value, str):
            return replaced(text, ((match, self._name(match["value"], match)) for match in found))
        return self._name(value, found[0]) if found[0]["value"] == text else value

    def _name(self, value: Any, match: PIIMatch) -> str:
        key = (type(value), value)
        if key not in self._names:
            text = self._rule.replacement(match)
            numbered = (text if n == 1 else _numbered(text, n) for n in count(self._least))
            self._names[key] = next(name for name in numbered if name not in self.values)
            self.values[self._names[key]] = value
        return self._names[key]


def _numbered(text: str, number: int) -> str:
    """`[REDACTED_EMAIL_2]`, `****1234_2`."""
    closed = text[-1:] if text[-1:] in ("]", ">") else ""
    return f"{text[: len(text) - len(closed)]}_{number}{closed}"


def sealed_message(message: AIMessage, rule: Rule, seal: Seal) -> AIMessage:
    """The message with what a rule finds in its calls' arguments sealed; itself if that is nothing.

    Raises:
        PIIDetectionError: when something was found and the rule blocks.
    """
    if rule.pii_type in message.additional_kwargs.get(SEALED, {}):
        return message
    given = [call["args"] for call in message.tool_calls]
    for least in range(1, _MOST_TRIES):
        names = _Placeholders(rule, least=least)
        args = [walk(one, names.leaf) for one in given]
        if [_restored(one, names.values) for one in args] == given:
            break
    else:
        raise ValueError(f"no placeholders for {rule.pii_type} that the arguments do not hold themselves")
    update = _other_places(message, names)
    if not names.values:
        return message
    kwargs = update.get("additional_kwargs", message.additional_kwargs)
    bound = {
        call["id"]: bound_digest(seal, call["name"], call["args"])
        for call, masked in zip(message.tool_calls, args, strict=True)
        if masked is not call["args"] and call["id"]
    }
    return message.model_copy(
        update={
            **update,
            "tool_calls": [{**call, "args": one} for call, one in zip(message.tool_calls, args, strict=True)],
            "additional_kwargs": {
                **kwargs,
                SEALED: {**kwargs.get(SEALED, {}), rule.pii_type: seal.seal(names.values, _ABOUT)},
                # a rule that comes later sees what an earlier one has left
                BOUND: {**bound, **kwargs.get(BOUND, {})},
            },
        }
    )


def _other_places(message: AIMessage, names: _Placeholders) -> dict[str, Any]:
    """Where else a message has its calls: what could not be parsed, blocks of content, the provider's own."""
    update: dict[str, Any] = {}
    if message.invalid_tool_calls:
        update["invalid_tool_calls"] = [
            {**call, "args": walk_json(call["args"] or "", names.leaf)} for call in message.invalid_tool_calls
        ]
    if isinstance(message.content, list):
        update["content"] = [_block(block, names) for block in message.content]
    own = {
        name: message.additional_kwargs[name] for name in _CALL_KWARGS if name in message.additional_kwargs
    }
    if own:
        masked = walk(own, lambda leaf: walk_json(leaf, names.leaf) if isinstance(leaf, str) else leaf)
        update["additional_kwargs"] = {**message.additional_kwargs, **masked}
    return update


def _block(block: Any, names: _Placeholders) -> Any:
    if not isinstance(block, dict):
        return block
    made = dict(block)
    for name in _CALL_FIELDS:
        if isinstance(text := made.get(name), str):
            made[name] = walk_json(text, names.leaf)
        elif text is not None:
            made[name] = walk(text, names.leaf)
    return made


def bound_digest(seal: Seal, tool: str, args: Any) -> str:
    """The keyed digest that binds a masked call to its raw arguments."""
    return seal.digest([tool, shown(args)])


def sealed_values(message: Any) -> list[dict[str, Any]]:
    """The maps of placeholders to values, the last first, in which order they are put back.

    Raises:
        InvalidSettings: when there is no key.
        Unsealable: when the key is another one.
    """
    tokens = getattr(message, "additional_kwargs", {}).get(SEALED)
    if not tokens:
        return []
    if (seal := seal_here()) is None:
        raise InvalidSettings(
            "PLACET_ENCRYPTION_KEY: not set, and a tool call's arguments are sealed under it"
        )
    return [seal.open(token, _ABOUT) for token in reversed(tokens.values())]


def raw_args(message: Any, args: Any) -> Any:
    """A call's arguments, perhaps a reviewer's edit of them, with each placeholder's value in its place."""
    for values in sealed_values(message):
        args = _restored(args, values)
    return args


def restored(request: ToolCallRequest, messages_key: str = "messages") -> ToolCallRequest:
    """The request with its call's raw arguments; what a person has approved are the masked ones.

    Raises:
        CallChanged: when it is not the call that was approved.
        ChangedArguments: when they are not those that were masked, and the call was not edited.
        InvalidSettings, Unsealable: when they cannot be opened.
    """
    call = request.tool_call
    message = message_of(call["id"], request.state, messages_key)
    args = call["args"] if message is None else raw_args(message, call["args"])
    if message is None or args is call["args"]:
        return request
    named = (call["id"], call["name"], call["args"])
    unedited = any((one["id"], one["name"], one["args"]) == named for one in message.tool_calls)
    bound = message.additional_kwargs.get(BOUND, {}).get(call["id"])
    seal = seal_here()
    if unedited and bound and seal and bound != bound_digest(seal, call["name"], args):
        raise ChangedArguments(call["name"], call["id"] or "")
    return amend(request, args)


def _restored(value: Any, values: Mapping[str, Any]) -> Any:
    if not values:
        return value
    longest_first = sorted(values, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)))

    def leaf(text: Any) -> Any:
        if not isinstance(text, str):
            return text
        if text in values:
            return values[text]
        return pattern.sub(lambda match: str(values[match.group()]), text) if pattern.search(text) else text

    return walk(value, leaf)
