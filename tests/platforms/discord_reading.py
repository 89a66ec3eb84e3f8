"""What a reader sees of Discord's messages."""

from __future__ import annotations

from typing import Any

from platforms.discord_limits import walk
from platforms.discord_markdown import read

LABELS = ("For", "Who may decide", "Agent", "Run", "Thread", "Asked", "Request")
PARTS = ("Description", "Arguments", "Question")


def text_of(message: dict[str, Any]) -> str:
    """All that a reader sees of a message but for the buttons."""
    texts = [one["content"] for one in walk(message["components"]) if one["type"] == 10]
    return "\n".join(read(text)[0] for text in [message.get("content", ""), *texts] if text)


def buttons_of(message: dict[str, Any]) -> dict[str, str]:
    """What each button carries, by its action."""
    tokens = [one["custom_id"] for one in walk(message["components"]) if one["type"] == 2]
    return {token.split(":")[1]: token for token in tokens}


def pings_of(message: dict[str, Any]) -> list[str]:
    """What Discord would make of a card's texts that is no part of every card."""
    found: list[str] = [message["content"]] if message.get("content") else []
    for text in [one["content"] for one in walk(message["components"]) if one["type"] == 10]:
        _, marks = read(text)
        allowed: list[tuple[str, str]] = []
        if marks and marks[0][0] == "heading" and text.startswith("### "):
            allowed = [("heading", text)]
        elif marks and marks[0] == ("bold", text):
            allowed = [("bold", text)]
        elif text.startswith("-# "):
            allowed = [("small", line) for line in text.split("\n") if _label(line) in LABELS]
            if any(text.startswith(f"-# {part}\n") for part in PARTS):
                allowed = [
                    marks[0],
                    *(one for one in marks[1:2] if one[0] == "block" and text.endswith("\n```")),
                ]
        found += [f"{name}: {what}" for name, what in marks if (name, what) not in allowed]
        if [name for name, _ in allowed].count("heading") and "\n" in text:
            found.append(text)
    return found


def _label(line: str) -> str:
    return line.removeprefix("-# ").partition(":")[0]
