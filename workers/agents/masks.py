"""What an agent's PII rules make of all that tells of a run beside its state: events, requests, errors."""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.agents.middleware import PIIMiddleware as StockPIIMiddleware
from langchain_core.messages import convert_to_messages

from placet.middleware.pii.detectors import disjoint
from placet.middleware.pii.masked_messages import BLOCKED, MASKED
from placet.middleware.pii.pii import PIIMiddleware, is_wide
from placet.middleware.pii.redaction import Rule, as_text, replaced
from placet.middleware.pii.sealed_calls import SEALED, seal_here
from placet.middleware.pii.walk import walk
from placet.middleware.shared import BOUND

from ..encoding import dump_shown
from ..errors import InvalidAgent
from .fingerprint import levels
from .gates import middleware_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from langchain.agents.middleware import PIIMatch

    from .factories import Graph

_Middleware = StockPIIMiddleware[Any, Any]
_OWN_TEXTS = ("id", "tool_call_id", "type", "status", "role")
"""Of a message: what names it, and says nothing."""
_USERS = ("human", "HumanMessageChunk")


class Masks:
    """An agent's rules, those of the agents inside it too."""

    def __init__(self, own: Sequence[_Middleware], inside: Sequence[_Middleware] = ()) -> None:
        every = (*own, *inside)
        self._own = [one for one in own if isinstance(one, PIIMiddleware)]
        self._wide = tuple(_rule(one) for one in every if is_wide(one))
        self._for_users = tuple(_rule(one) for one in every if one.apply_to_input and not is_wide(one))
        self._args = tuple(_rule(one) for one in every if getattr(one, "apply_to_tool_args", False))

    def input(self, given: Any) -> Any:
        """A run's input, its messages masked before anything of it is written.

        Raises:
            PIIDetectionError: when a rule blocks it.
        """
        if not self._own or not isinstance(given, dict) or "messages" not in given:
            return given
        messages = given["messages"]
        made: list[Any] = convert_to_messages(messages if isinstance(messages, list) else [messages])
        return {**given, "messages": [self._masked_input(message) for message in made]}

    def _masked_input(self, message: Any) -> Any:
        own = (MASKED, BLOCKED, SEALED, BOUND)
        kwargs = {name: item for name, item in message.additional_kwargs.items() if name not in own}
        message = message.model_copy(update={"additional_kwargs": kwargs})
        for one in self._own:
            message = one.masked_input(message)
        return message

    @property
    def wide(self) -> bool:
        """Whether everything is looked through, and not users' messages and errors alone."""
        return bool(self._wide)

    def matches(self, text: str) -> list[tuple[PIIMatch, str]]:
        """What the wide rules find in a text, disjoint, and what stands for each."""
        return _found(text, self._wide)

    def value(self, value: Any) -> Any:
        """Anything that a graph holds as plain data, masked."""
        if not (self._wide or self._for_users):
            return value
        return self._plain(json.loads(dump_shown(value)), ())

    @property
    def for_logs(self) -> Callable[[str], str] | None:
        """What masks a line of a log; None if there is nothing to look for."""
        return self.text if self._wide or self._for_users else None

    def message(self, message: Any, kind: str) -> Any:
        """A message of that type as plain data, masked."""
        if not (self._wide or self._for_users):
            return message
        return self._message(json.loads(dump_shown(message)), self._wide, kind)

    def text(self, text: str) -> str:
        """A text about the run: an error's, a line of a log."""
        return replaced(text, _found(text, (*self._wide, *self._for_users)))

    def described(self, text: str) -> str:
        """What a reviewer is told in words."""
        return replaced(text, self.matches(text))

    def asked(self, value: Any) -> Any:
        """What a question shows, as JSON values."""
        return self._plain(value, ()) if self._wide else value

    def bound(self, value: Any) -> str:
        """A keyed digest of what is masked, as JSON values; empty without a key."""
        seal = seal_here()
        return "" if seal is None else seal.digest(value)

    def arguments(self, args: Any) -> Any:
        """A call's arguments as a reviewer is shown them."""
        return walk(args, lambda leaf: _leaf(leaf, self._args)) if self._args else args

    def _plain(self, value: Any, rules: tuple[Rule, ...]) -> Any:
        rules = rules or self._wide
        if isinstance(value, list):
            return [self._plain(item, rules) for item in value]
        if not isinstance(value, dict):
            return _leaf(value, rules) if rules else value
        if "content" in value and isinstance(value.get("type"), str):
            return self._message(value, rules, value["type"])
        if {"name", "args", "id"} <= value.keys():
            return {**value, "args": self._plain(value["args"], rules)}
        return {_leaf(key, rules): self._plain(item, rules) for key, item in value.items()}

    def _message(self, message: dict[str, Any], rules: tuple[Rule, ...], kind: str) -> dict[str, Any]:
        if kind in _USERS:
            rules = (*rules, *self._for_users)
        made = {
            name: item if name in _OWN_TEXTS else self._plain(item, rules) for name, item in message.items()
        }
        if isinstance(kwargs := made.get("additional_kwargs"), dict):
            made["additional_kwargs"] = {
                name: item for name, item in kwargs.items() if name not in (SEALED, BOUND)
            }
        return made


_known: WeakKeyDictionary[Graph, Masks] = WeakKeyDictionary()


def masks_of(graph: Graph) -> Masks:
    """The masks of a graph and the graphs inside it; found once for each compiled graph."""
    found = _known.get(graph)
    if found is None:
        own, *inside = (list(_rules(level)) for level in levels(graph))
        found = _known[graph] = Masks(own, list(chain.from_iterable(inside)))
    return found


def check_masks(graph: Graph) -> None:
    """Refuse rules that would tell what they hide.

    Raises:
        InvalidAgent: naming the rule, and what would be right.
    """
    sealing: str | None = None
    for one in middleware_of(graph):
        if isinstance(one, HumanInTheLoopMiddleware) and sealing is not None:
            raise InvalidAgent(f"{sealing} seals arguments: list it after {one.name}, or that sees them")
        if isinstance(one, PIIMiddleware) and one.apply_to_tool_args:
            sealing = one.name
        if isinstance(one, StockPIIMiddleware) and one.strategy == "hash" and _rule(one).seal is None:
            raise InvalidAgent(
                f"PLACET_ENCRYPTION_KEY: must be set, and {one.name} from placet.middleware: it hashes, and"
                " without a key whoever guesses a value can tell it by its hash"
            )


def _rules(graph: Graph) -> Iterator[_Middleware]:
    return (one for one in middleware_of(graph) if isinstance(one, StockPIIMiddleware))


def _rule(middleware: _Middleware) -> Rule:
    if isinstance(middleware, PIIMiddleware):
        return middleware.rule
    return Rule(middleware.pii_type, middleware.strategy, middleware.detector)


def _leaf(value: Any, rules: tuple[Rule, ...]) -> Any:
    text = as_text(value)
    found = _found(text, rules) if text else []
    if text is None or not found:
        return value
    if isinstance(value, str):
        return replaced(text, found)
    return found[0][1] if found[0][0]["value"] == text else value


def _found(text: str, rules: tuple[Rule, ...]) -> list[tuple[PIIMatch, str]]:
    """What rules find in a text; of those that overlap the first counts, and stands for them all."""
    first: dict[int, Rule] = {}
    matches: list[PIIMatch] = []
    for rule in rules:
        for match in rule.matches(text):
            first.setdefault(match["start"], rule)
            matches.append(match)
    return [(match, first[match["start"]].replacement(match)) for match in disjoint(text, matches)]
