"""Discord's markdown, as far as a text can become more than text by it: what is read, and what is marked.

After the client's rules, which are those of simple-markdown with Discord's own:
https://support.discord.com/hc/en-us/articles/210298617 and
https://docs.discord.com/developers/reference#message-formatting.
"""

from __future__ import annotations

import re

_BLOCK = re.compile(r"```(?:([a-z0-9_+\-.#]+?)\n)?\n*([^\n](?:.|\n)*?)\n*```", re.IGNORECASE)
_CODE = re.compile(r"(`+)((?:.|\n)*?[^`])\1(?!`)")
_ESCAPE = re.compile(r"\\([^0-9A-Za-z\s])")
_MARKS = [
    (
        "mention",
        re.compile(r"<(?:@[!&]?|#)\d+>|@(?:everyone|here)\b|<(?:id:\w+|/[^:>]+:\d+|a?:\w+:\d+|t:-?\d+)"),
    ),
    ("link", re.compile(r"\[[^\]]*\]\([^)\s]+\)|<?https?://[^\s<]*[^<.,:;\"')\]\s]|<[^ >]+@[^ >]+>")),
    ("emoji", re.compile(r":\w+:")),
    ("bold", re.compile(r"\*\*((?:\\(?:.|\n)|[^\\])+?)\*\*(?!\*)")),
    ("underlined", re.compile(r"__((?:\\(?:.|\n)|[^\\])+?)__(?!_)")),
    ("italic", re.compile(r"\*(?=\S)((?:\\(?:.|\n)|[^*\\])+?)\*(?!\*)|\b_((?:\\(?:.|\n)|[^_\\])+?)_\b")),
    ("struck", re.compile(r"~~((?:.|\n)+?)~~(?!_)")),
    ("spoiler", re.compile(r"\|\|((?:.|\n)+?)\|\|")),
]
_LINES = [
    ("heading", re.compile(r"#{1,3}[ \t]+")),
    ("small", re.compile(r"-#[ \t]+")),
    ("quote", re.compile(r">(?:>>)?[ \t]+")),
    ("list", re.compile(r"[ \t]*(?:[-*]|\d+\.)[ \t]+")),
]


def read(text: str) -> tuple[str, list[tuple[str, str]]]:
    """What a reader sees of a text, and each mark with what it marks."""
    shown: list[str] = []
    marks: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        if block := _BLOCK.match(text, at):
            shown.append(f"\n{block[2]}\n")
            marks.append(("block", block[2]))
            at = block.end()
        elif escape := _ESCAPE.match(text, at):
            shown.append(escape[1])
            at = escape.end()
        elif code := _CODE.match(text, at):
            shown.append(code[2])
            marks.append(("code", code[2]))
            at = code.end()
        elif found := _line_mark(text, at):
            marks.append((found[0], text[at:].partition("\n")[0]))
            at += found[1]
        elif found := _mark(text, at):
            name, length = found
            inner = text[at : at + length]
            marks.append((name, inner))
            if name in ("mention", "link", "emoji"):
                shown.append(inner)
            else:
                inner_shown, inner_marks = read(inner.strip("*_~|") if name != "bold" else inner[2:-2])
                shown.append(inner_shown)
                marks += inner_marks
            at += length
        else:
            shown.append(text[at])
            at += 1
    return "".join(shown), marks


def _line_mark(text: str, at: int) -> tuple[str, int] | None:
    if at and text[at - 1] != "\n":
        return None
    for name, pattern in _LINES:
        if found := pattern.match(text, at):
            return name, found.end() - at
    return None


def _mark(text: str, at: int) -> tuple[str, int] | None:
    for name, pattern in _MARKS:
        if found := pattern.match(text, at):
            return name, found.end() - at
    return None
