"""What Slack refuses in a message or a view, by its published limits.

https://docs.slack.dev/reference/block-kit/blocks and its pages of blocks, elements and composition objects;
https://docs.slack.dev/reference/views; https://docs.slack.dev/reference/methods/chat.postMessage.
"""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

MESSAGE_BLOCKS, VIEW_BLOCKS, VIEW_BYTES = 50, 100, 250_000
_TEXT_OBJECTS = {"plain_text", "mrkdwn"}
_KNOWN = {
    "header": {"type", "text", "block_id"},
    "rich_text": {"type", "elements", "block_id"},
    "actions": {"type", "elements", "block_id"},
    "input": {"type", "label", "element", "block_id", "optional", "hint", "dispatch_action"},
    "button": {"type", "text", "action_id", "value", "style", "url", "confirm"},
    "plain_text_input": {
        *("type", "action_id", "initial_value", "multiline", "min_length", "max_length", "placeholder")
    },
    "static_select": {"type", "action_id", "options", "initial_option", "placeholder"},
}


def problems(blocks: Any, *, most: int) -> list[str]:
    """What Slack would say against these blocks, empty if nothing."""
    if not isinstance(blocks, list) or not blocks or len(blocks) > most:
        return [f"1 to {most} blocks"]
    found = [wrong for block in blocks for wrong in _block(block)]
    ids = [block["block_id"] for block in blocks if "block_id" in block]
    found += ["a block_id stands twice"] if len(set(ids)) < len(ids) else []
    # no limit is published for the whole; messages of more are known to be refused as msg_too_long
    return found + (["too much"] if len(json.dumps(blocks)) > 400_000 else [])


def view_problems(view: Any) -> list[str]:
    """The same of a view."""
    found = problems(view.get("blocks"), most=VIEW_BLOCKS)
    if view.get("type") == "modal":
        found += _text(view.get("title"), 24, "title")
        for name in ("submit", "close"):
            found += _text(view[name], 24, name) if name in view else []
        has_input = any(block["type"] == "input" for block in view["blocks"])
        found += ["a form needs submit"] if has_input and "submit" not in view else []
    found += _length(view.get("private_metadata", ""), 3000, "private_metadata")
    found += ["view_too_large"] if len(json.dumps(view)) > VIEW_BYTES else []
    return found + _length(view.get("callback_id", ""), 255, "callback_id")


def _block(block: Any) -> Iterator[str]:
    kind = block.get("type")
    if kind not in ("header", "rich_text", "actions", "input"):
        yield f"block {kind!r}"
        return
    if unknown := set(block) - _KNOWN[kind]:
        yield f"{kind}: {unknown}"
    yield from _length(block.get("block_id", ""), 255, "block_id")
    if kind == "header":
        yield from _text(block["text"], 150, "header")
    elif kind == "rich_text":
        yield from _rich(block["elements"])
    elif kind == "actions":
        elements = block["elements"]
        yield from [] if 0 < len(elements) <= 25 else ["actions: 1 to 25 elements"]
        ids = [one["action_id"] for one in elements]
        yield from ["an action_id stands twice"] if len(set(ids)) < len(ids) else []
        for one in elements:
            yield from _element(one)
    else:
        yield from _text(block["label"], 2000, "label")
        yield from _element(block["element"])


def _element(element: Any) -> Iterator[str]:
    kind = element["type"]
    if unknown := set(element) - _KNOWN.get(kind, set()):
        yield f"{kind}: {unknown}"
    yield from _length(element["action_id"], 255, "action_id")
    if kind == "button":
        yield from _text(element["text"], 75, "button")
        yield from _length(element.get("value", ""), 2000, "value")
        yield from [] if element.get("style") in (None, "primary", "danger") else ["style"]
    elif kind == "plain_text_input":
        yield from _length(element.get("initial_value", ""), 3000, "initial_value")
        yield from [] if 0 < element.get("max_length", 1) <= 3000 else ["max_length"]
    elif kind == "static_select":
        options = element["options"]
        yield from [] if 0 < len(options) <= 100 else ["1 to 100 options"]
        for option in options:
            yield from _text(option["text"], 75, "option")
            yield from _length(option["value"], 150, "option's value")


def _rich(elements: Any) -> Iterator[str]:
    for element in elements:
        if element["type"] not in ("rich_text_section", "rich_text_preformatted"):
            yield f"rich_text: {element['type']}"
        for one in element["elements"]:
            if one["type"] != "text" or set(one) - {"type", "text", "style"}:
                yield f"rich_text: {one}"
            elif not one["text"]:
                yield "rich_text: an empty text"
            yield from _length(one["text"], 3000, "rich_text")


def _text(text: Any, most: int, where: str) -> list[str]:
    if not isinstance(text, dict) or text.get("type") not in _TEXT_OBJECTS or not text.get("text"):
        return [f"{where}: a text is needed"]
    return _length(text["text"], most, where)


def _length(text: str, most: int, where: str) -> list[str]:
    """After escaping, in UTF-16: what Slack counts is not published, so the most that it may."""
    size = len(html.escape(text, quote=False).encode("utf-16-le")) // 2
    return [f"{where}: {size} characters, {most} at most"] if size > most else []
