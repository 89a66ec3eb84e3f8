"""Cards as Slack's Block Kit; a model's text is only ever in elements that Slack shows as they are.

In `rich_text` and `plain_text` without emoji nothing is parsed: no mention, link or markup comes of it.
Limits: https://docs.slack.dev/reference/block-kit/blocks, https://docs.slack.dev/reference/methods/chat.postMessage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..card import Action, Card

Block = dict[str, Any]
HEADER, TEXT, BUTTON = 150, 3000, 75
"""Most characters of a header, of a text, of a button's label; Slack may count what is escaped, in UTF-16."""
MESSAGE_BLOCKS, VIEW_BLOCKS, VIEW_BYTES = 50, 100, 250_000
FACT = 200
"""Of a fact: it is no part of what is decided, and may be cut."""
CONTENT = 2500
"""Of description and content on a card; what is longer is shown in full by Details."""
PIECE = 2900
_WIDTHS = {"&": 5, "<": 4, ">": 4}
_STYLES: dict[Action, str] = {"approve": "primary", "reject": "danger"}


def message(card: Card) -> dict[str, Any]:
    """The card as what `chat.postMessage` and `chat.update` take."""
    return {
        "text": escaped(shortened(f"{card.heading} {card.state}", 1000)),
        "blocks": [*summary(card), *_body(card), *_buttons(card, actions_of(card))],
    }


def is_whole(card: Card) -> bool:
    """Whether a card shows all that is decided about."""
    return width(card.heading) <= HEADER and width(card.description) + width(card.content) <= CONTENT


def actions_of(card: Card) -> tuple[Action, ...]:
    """The card's buttons: what is not shown whole is not approved from the card."""
    if not card.open:
        return ()
    if is_whole(card):
        return (*card.actions, "details")
    return (*(one for one in card.actions if one == "reject"), "details")


def details(card: Card) -> list[Block]:
    """All of a card, its buttons last; more blocks than a view takes (`VIEW_BLOCKS`) are not shown at all."""
    pieces = [pre(piece) for text in (card.description, card.content) for piece in _pieces(text)]
    heading = [section((card.heading, False))] if width(card.heading) > HEADER else []
    return [*summary(card), *heading, *pieces, *_buttons(card, card.actions)]


def summary(card: Card) -> list[Block]:
    """Heading, state and facts."""
    facts: list[tuple[str, bool]] = [(shortened(_one_line(card.state), 1000), True)]
    for label, text in card.facts:
        facts += [(f"\n{label}: ", False), (shortened(_one_line(text), FACT), True)]
    return [
        {"type": "header", "text": plain(shortened(card.heading, HEADER))},
        section(*facts),
    ]


def section(*texts: tuple[str, bool]) -> Block:
    """Texts in a line, each bold or not."""
    elements = [
        {"type": "text", "text": text, **({"style": {"bold": True}} if bold else {})}
        for text, bold in texts
        if text
    ]
    return {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": elements}]}


def pre(text: str) -> Block:
    """A text as it is, in a box."""
    box = {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": text}]}
    return {"type": "rich_text", "elements": [box]}


def plain(text: str) -> Block:
    """A text in which nothing is parsed."""
    return {"type": "plain_text", "text": text or " ", "emoji": False}


def escaped(text: str) -> str:
    """A text for where Slack parses it: the fallback of a message, which notifications show."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def shortened(text: str, most: int) -> str:
    """The beginning of a text, with a sign that it is cut."""
    return text if width(text) <= most else next(_pieces(text, most - 1)) + "…"


def width(text: str) -> int:
    """How many characters Slack may count: in UTF-16, with `&<>` escaped."""
    return sum(map(_width, text))


def _width(character: str) -> int:
    return _WIDTHS.get(character) or len(character.encode("utf-16-le", "surrogatepass")) // 2


def _one_line(text: str) -> str:
    """A value that cannot look like the line after it."""
    return text.replace("\n", "\\n")


def _body(card: Card) -> list[Block]:
    if not is_whole(card):
        note = "This is too long to be shown here: Details has all of it, and the buttons that decide."
        cut = shortened(card.content or card.description, CONTENT // 2)
        return [pre(cut), section((note, True))]
    described = [section((card.description, False))] if card.description else []
    return [*described, *([pre(card.content)] if card.content else [])]


def _buttons(card: Card, actions: Iterable[Action]) -> list[Block]:
    elements = [
        {
            "type": "button",
            "action_id": f"placet:{action}",
            "text": plain(shortened(card.label(action), BUTTON)),
            "value": card.button(action),
            **({"style": _STYLES[action]} if action in _STYLES else {}),
        }
        for action in actions
    ]
    return [{"type": "actions", "elements": elements}] if elements else []


def _pieces(text: str, most: int = PIECE) -> Iterator[str]:
    start = used = 0
    for place, character in enumerate(text):
        used += (one := _width(character))
        if used > most:
            yield text[start:place]
            start, used = place, one
    if start < len(text):
        yield text[start:]
