"""What Discord refuses, by its published limits.

https://docs.discord.com/developers/resources/message#create-message,
https://docs.discord.com/developers/components/reference (fields of each component, 4000 characters and 40
components a message), https://docs.discord.com/developers/interactions/receiving-and-responding.
Lengths are taken in UTF-16 units, the most that Discord may count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

COMPONENTS_V2, EPHEMERAL = 1 << 15, 1 << 6
CONTENT, TEXTS, COMPONENTS = 2000, 4000, 40
_KNOWN = {
    1: {"type", "id", "components"},
    2: {"type", "id", "style", "label", "custom_id", "disabled"},
    3: {*("type", "id", "custom_id", "options", "min_values", "max_values", "disabled", "required")},
    4: {*("type", "id", "custom_id", "style", "value", "required", "max_length", "min_length", "label")},
    10: {"type", "id", "content"},
    17: {"type", "id", "components", "accent_color", "spoiler"},
    18: {"type", "id", "label", "description", "component"},
}
_MESSAGE = {
    *("content", "components", "flags", "tts", "allowed_mentions", "attachments", "embeds"),
    *("nonce", "enforce_nonce"),
}


def size(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def message_problems(given: dict[str, Any], *, layout: bool) -> list[str]:
    """What Discord would say against a message; `layout` if it has components of the second version."""
    found = [f"unknown {key}" for key in set(given) - _MESSAGE]
    if layout:
        found += [f"{key} beside components" for key in ("content", "embeds") if given.get(key)]
    elif not given.get("content"):
        found.append("empty message")
    found += _length(given.get("content") or "", 0, CONTENT, "content")
    components = given.get("components", [])
    if not layout and any(one["type"] != 1 for one in components):
        found.append("needs the flag IS_COMPONENTS_V2")
    found += _components(components)
    if given.get("allowed_mentions") != {"parse": []}:
        found += [] if set(given.get("allowed_mentions", {})) <= _NOBODY else ["mentions"]
        found += ["mentions are allowed"] if given.get("allowed_mentions", {}).get("parse") != [] else []
    return found + _length(str(given.get("nonce", "n")), 1, 25, "nonce")


_NOBODY = {"parse", "replied_user", "roles", "users"}


def modal_problems(modal: dict[str, Any]) -> list[str]:
    """The same of a modal."""
    found = _length(modal["title"], 1, 45, "title") + _length(modal["custom_id"], 1, 100, "custom_id")
    labels = modal["components"]
    if not 1 <= len(labels) <= 5:
        found.append("1 to 5 components")
    if any(one["type"] != 18 for one in labels):
        found.append("a modal has labels")
    return found + _components(labels)


def walk(components: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """All components, nested ones too."""
    for one in components:
        yield one
        yield from walk([*one.get("components", []), *([one["component"]] if "component" in one else [])])


def _components(components: list[dict[str, Any]]) -> list[str]:
    every = list(walk(components))
    ids = [one["custom_id"] for one in every if "custom_id" in one]
    found = ["a custom_id stands twice"] if len(set(ids)) < len(ids) else []
    found += ["more than 40 components"] if len(every) > COMPONENTS else []
    texts = sum(size(one["content"]) for one in every if one["type"] == 10)
    found += [f"texts of {texts}"] if texts > TEXTS else []
    return found + [wrong for one in every for wrong in _component(one)]


def _component(one: dict[str, Any]) -> Iterator[str]:  # noqa: C901 - a table would be longer
    kind = one["type"]
    if kind not in _KNOWN:
        yield f"component of type {kind}"
        return
    if unknown := set(one) - _KNOWN[kind]:
        yield f"type {kind}: unknown {unknown}"
    if kind in (2, 3, 4):
        yield from _length(one["custom_id"], 1, 100, "custom_id")
    match kind:
        case 1:
            if not 1 <= len(one["components"]) <= 5:
                yield "a row has 1 to 5 buttons"
        case 2:
            yield from _length(one["label"], 1, 80, "label of a button")
        case 3:
            yield from _select(one)
        case 4:
            yield from _length(one.get("value") or "", 0, one.get("max_length", 4000), "value")
            if one.get("max_length", 4000) > 4000 or one.get("style") not in (1, 2) or one.get("label"):
                yield "a text input"
        case 10:
            yield from _length(one["content"], 1, TEXTS, "text")
        case 18:
            yield from _length(one["label"], 1, 45, "label")
            yield from _length(one.get("description", ""), 0, 100, "description")


def _select(one: dict[str, Any]) -> Iterator[str]:
    options = one["options"]
    if not 1 <= len(options) <= 25:
        yield "1 to 25 options"
    if len({option["value"] for option in options}) < len(options):
        yield "an option stands twice"
    if sum(bool(option.get("default")) for option in options) > one.get("max_values", 1):
        yield "too many chosen"
    if one.get("required", True) and one.get("min_values", 1) == 0:
        yield "required, with a least of 0"
    for option in options:
        yield from _length(option["label"], 1, 100, "label of an option")
        yield from _length(option["value"], 1, 100, "value of an option")


def _length(text: str, least: int, most: int, name: str) -> list[str]:
    return [] if least <= size(text) <= most else [f"{name}: must be {least} to {most} long, is {size(text)}"]
