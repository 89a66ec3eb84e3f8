"""Draws docs/images from the payloads that the platforms get: `uv run python docs/pictures.py`."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from placet import Approval
from placet.approvals.response_schema import decision_schema
from placet.bots.card import card_of
from placet.bots.discord.cards import message_of
from placet.bots.slack.blocks import message
from placet.bots.telegram.cards import draw

if TYPE_CHECKING:
    from placet.bots.card import Card

IMAGES = Path(__file__).parent / "images"
WIDTH = 78
ALLOWED = ("approve", "edit", "reject", "respond")
REFUND = Approval(
    id="7k2mq0v9x4ab",
    interrupt_id="i",
    index=0,
    count=1,
    kind="tool_call",
    mode="batched",
    tool="refund",
    args={"order": "A-17", "amount": 42.0, "note": "``` <!channel> @everyone [pay](https://e.example)"},
    tool_call_id="c",
    description="Pay an amount in EUR back to the customer.",
    value=None,
    allowed=ALLOWED,
    response_schema=decision_schema(ALLOWED, tool="refund"),
    digest="0" * 32,
    policy={"reviewers": ["group:finance"]},
    run_id="run-1",
    thread_id="t-1",
    agent="support",
    principal="carol@example.com",
    status="pending",
    reason="",
    outcome="none",
    decision=None,
    decided_by=None,
    created_at=datetime(2026, 12, 1, 9, 30, tzinfo=UTC),
    decided_at=None,
)


def of_slack(card: Card) -> RenderableType:
    """Draw the blocks of `chat.postMessage`."""
    drawn: list[RenderableType] = []
    for block in message(card)["blocks"]:
        if block["type"] == "header":
            drawn.append(Text(block["text"]["text"] + "\n", style="bold"))
        elif block["type"] == "actions":
            drawn.append(_buttons(one["text"]["text"] for one in block["elements"]))
        for element in block.get("elements", []):
            texts = [(one["text"], "bold" if "style" in one else "") for one in element.get("elements", [])]
            if element["type"] == "rich_text_preformatted":
                drawn.append(Panel(Text.assemble(*texts), border_style="dim"))
            elif texts:
                drawn.append(Text.assemble(*texts))
    return Group(*drawn)


def of_telegram(card: Card) -> RenderableType:
    """Draw the text and entities of `sendMessage`."""
    sent = draw(card)
    units = sent.text.encode("utf-16-le")
    text, at = Text(), 0
    for entity in sent.entities:
        start, end = entity.offset * 2, (entity.offset + entity.length) * 2
        text.append(units[at:start].decode("utf-16-le"))
        text.append(units[start:end].decode("utf-16-le"), style="bold" if entity.type == "bold" else "cyan")
        at = end
    text.append(units[at:].decode("utf-16-le"))
    rows = sent.buttons.inline_keyboard if sent.buttons else []
    return Group(text, *(_buttons(button.text for button in row) for row in rows))


def of_discord(card: Card) -> RenderableType:
    """Draw the components of a message, its Markdown as Discord shows it."""
    drawn: list[RenderableType] = []
    for component in message_of(card).to_components()[0]["components"]:  # type: ignore[typeddict-item]
        if "content" in component:
            drawn.append(_markdown(component["content"]))
        else:
            drawn.append(_buttons(one["label"] for one in component["components"]))
    return Group(*drawn)


def _markdown(text: str) -> RenderableType:
    """What the bot uses of Discord's Markdown: headings, small lines, bold, blocks of code, escapes."""
    before, fence, rest = text.partition("```")
    drawn: list[RenderableType] = []
    for line in before.splitlines():
        plain = re.sub(r"\\(.)", r"\1", re.sub(r"^(### |-# )", "", line).replace("**", ""))
        style = "bold" if line.startswith(("### ", "**")) else "dim" if line.startswith("-# ") else ""
        drawn.append(Text(plain, style=style))
    if fence:
        drawn.append(Panel(Text(rest.removesuffix("```").partition("\n")[2]), border_style="dim"))
    return Group(*drawn)


def _buttons(labels: Any) -> RenderableType:
    return Columns([Panel(Text(label), expand=False) for label in labels])


def main() -> None:
    """Write the pictures."""
    for name, of in (("slack", of_slack), ("telegram", of_telegram), ("discord", of_discord)):
        console = Console(record=True, width=WIDTH, file=io.StringIO(), color_system="truecolor")
        console.print(of(card_of(REFUND)))
        drawn = console.export_svg(title=f"What a reviewer gets on {name.capitalize()}")
        # no font is fetched from anywhere
        drawn = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL)
        (IMAGES / f"{name}.svg").write_text(drawn)


if __name__ == "__main__":
    main()
