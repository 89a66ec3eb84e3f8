"""Masks a segment's events before they are written; what is streamed piece by piece over the borders too."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessageChunk

from ..encoding import dump_shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from langchain_core.messages import BaseMessage

    from ..execution.event_writer import EventWriter
    from .masks import Masks

_Place = tuple[tuple[Any, ...], Any]

LOOK_BACK = 128
"""Characters at the end of what was streamed that wait for what comes next, as LangChain's do."""
LONGEST_WORD = 1024
"""Characters of a word without white space, at most, that waits for its end."""
_FIXED = ("id", "type", "name", "index", "status", "signature", "tool_call_id", "chunk_position")
"""Of a chunk and its blocks: what comes whole, and names things."""
_STREAMED = ("content", "tool_call_chunks", "additional_kwargs")
"""Of a chunk: what is a piece of the message's."""
_DERIVED = ("tool_calls", "invalid_tool_calls")
"""Of a chunk: what LangChain made of the pieces in it."""


@dataclass(slots=True)
class _Piece:
    """A text inside an event that waits."""

    holder: Any
    key: Any
    start: int
    end: int


@dataclass(slots=True)
class _Text:
    """What is streamed into one place, and its pieces that wait."""

    text: str = ""
    waiting: deque[_Piece] = field(default_factory=deque)

    def add(self, holder: Any, key: Any) -> _Piece:
        piece = _Piece(holder, key, len(self.text), len(self.text) + len(holder[key]))
        self.text += holder[key]
        self.waiting.append(piece)
        return piece

    def release(self, masks: Masks, *, whole: bool) -> set[int]:
        """Mask the pieces that nothing to come can change; the ids of these."""
        found = masks.matches(self.text)
        safe = len(self.text) if whole else self._safe([(m["start"], m["end"]) for m, _ in found])
        released = set()
        while self.waiting and self.waiting[0].end <= safe:
            piece = self.waiting.popleft()
            piece.holder[piece.key] = "".join(_part(self.text, piece.start, piece.end, found))
            released.add(id(piece))
        self._forget()
        return released

    def _safe(self, found: list[tuple[int, int]]) -> int:
        """Up to where the text is settled: not within the look-back, a word, or a match."""
        safe = max(0, len(self.text) - LOOK_BACK)
        least = max(0, safe - LONGEST_WORD)
        start = next((n for n in range(safe, least, -1) if self.text[n - 1].isspace()), least)
        safe = start
        for begin, end in found:
            if begin < safe < end:
                safe = begin
        return safe

    def _forget(self) -> None:
        """Keep what comes before the pieces that wait as far as a detector looks at it."""
        start = self.waiting[0].start if self.waiting else len(self.text)
        gone = max(0, start - LOOK_BACK)
        self.text = self.text[gone:]
        for piece in self.waiting:
            piece.start -= gone
            piece.end -= gone


def _part(text: str, start: int, end: int, found: Sequence[Any]) -> Iterator[str]:
    """One piece of the masked text; what stands for a match is in the piece that it begins in."""
    for match, new in found:
        if match["end"] <= start or match["start"] >= end:
            continue
        yield text[start : match["start"]]
        if match["start"] >= start:
            yield new
        start = max(start, match["end"])
    yield text[start:end]


@dataclass(slots=True)
class _Event:
    kind: str
    ns: Sequence[str]
    data: Any
    waits_for: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Streamed:
    """A message, or texts that a node writes, on their way."""

    texts: dict[Any, _Text] = field(default_factory=dict)
    events: deque[_Event] = field(default_factory=deque)


class MaskedEvents:
    """Takes events as an `EventWriter` does, and hands them on to one, masked."""

    def __init__(self, writer: EventWriter, masks: Masks) -> None:
        self._writer = writer
        self._masks = masks
        self._streamed: dict[tuple[str, ...], _Streamed] = {}

    def progressed(self) -> None:
        """See `EventWriter`."""
        self._writer.progressed()

    def add(self, kind: str, ns: Sequence[str], data: Any) -> None:
        """Take an event; a text that a node writes goes on once it is known what it belongs to."""
        if self._masks.wide and kind == "custom" and isinstance(data, str):
            event = _Event(kind, ns, [data])
            self._hold((*ns, "", "custom"), event, [((0,), event.data)])
        else:
            if kind == "updates":
                self._end_of_node(ns, data)
            self._writer.add(kind, ns, self._masks.value(data))

    def add_message(self, ns: Sequence[str], message: BaseMessage, *, node: str | None) -> None:
        """Take a message of a node's, or a piece of one, as an event `messages`."""
        shown = message.model_dump(exclude_none=True, exclude_defaults=True)
        if self._masks.wide and isinstance(message, AIMessageChunk):
            self._add_chunk(ns, shown, node=node)
        else:
            self._writer.add(
                "messages", ns, {"node": node, "message": self._masks.message(shown, message.type)}
            )

    def flush(self) -> None:
        """Hand on all that waits."""
        for name in list(self._streamed):
            self._release(name, whole=True)

    def _add_chunk(self, ns: Sequence[str], shown: Any, *, node: str | None) -> None:
        chunk = json.loads(dump_shown(shown))
        for derived in _DERIVED:
            chunk.pop(derived, None)
        name = (*ns, "", str(chunk.get("id")))
        streamed = {part: chunk[part] for part in _STREAMED if part in chunk}
        rest = {part: item for part, item in chunk.items() if part not in _STREAMED}
        rest = self._masks.message(rest, "ai")
        event = _Event("messages", ns, {"node": node, "message": rest | streamed})
        places = _places(event.data["message"])
        self._hold(name, event, places, last=chunk.get("chunk_position") == "last")

    def _hold(
        self, name: tuple[str, ...], event: _Event, places: Iterable[_Place], *, last: bool = False
    ) -> None:
        streamed = self._streamed.setdefault(name, _Streamed())
        for path, holder in places:
            piece = streamed.texts.setdefault(path, _Text()).add(holder, path[-1])
            event.waits_for.add(id(piece))
        streamed.events.append(event)
        self._release(name, whole=last)

    def _release(self, name: tuple[str, ...], *, whole: bool) -> None:
        streamed = self._streamed[name]
        for text in streamed.texts.values():
            released = text.release(self._masks, whole=whole)
            for event in streamed.events:
                event.waits_for -= released
        while streamed.events and not streamed.events[0].waits_for:
            event = streamed.events.popleft()
            data = event.data[0] if event.kind == "custom" else event.data
            self._writer.add(event.kind, event.ns, data)
        if whole:
            del self._streamed[name]

    def _end_of_node(self, ns: Sequence[str], updates: Any) -> None:
        """Hand on what the node that has ended streamed."""
        ids = {str(getattr(m, "id", None)) for m in _messages(updates)} | {"custom"}
        for name in [(*ns, "", one) for one in ids]:
            if name in self._streamed:
                self._release(name, whole=True)


def _messages(updates: Any) -> Iterator[Any]:
    for update in updates.values() if isinstance(updates, dict) else ():
        messages = update.get("messages") if isinstance(update, dict) else None
        yield from messages if isinstance(messages, list) else ()


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[_Place]:
    """Each text of a chunk that may go on in the next: where it is, and what it is in.

    Blocks of content and pieces of calls are told by their `index`, which stays the same over chunks.
    """
    items = enumerate(value) if isinstance(value, list) else value.items()
    for key, item in list(items):
        if not path and key not in _STREAMED:
            continue
        place = item.get("index", key) if isinstance(item, dict) else key
        if isinstance(item, dict | list):
            yield from _places(item, (*path, place))
        elif isinstance(item, str) and key not in _FIXED:
            yield (*path, key), value
