"""What the Bot API takes, as https://core.telegram.org/bots/api publishes it, and what it makes of a text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

TEXT = 4096
"""#sendmessage: 1-4096 characters after entities parsing; counted here in UTF-16 code units."""
ENTITIES = 100
BUTTON_DATA_BYTES = 64
"""#inlinekeyboardbutton: 1-64 bytes."""
ALERT = 200
"""#answercallbackquery: 0-200 characters."""
PLACEHOLDER = 64
"""#forcereply: 1-64 characters."""
LOST = "[\u2028-\u202e\u0333\u033f\u030a\r]"
"""What tdlib's clean_input_string removes."""

_PARAMETERS = {
    "sendMessage": {
        *("chat_id", "text", "entities", "link_preview_options", "reply_markup"),
        *("reply_parameters", "message_thread_id"),
    },
    "editMessageText": {"chat_id", "message_id", "text", "entities", "link_preview_options", "reply_markup"},
    "answerCallbackQuery": {"callback_query_id", "text", "show_alert"},
    "deleteMessage": {"chat_id", "message_id"},
    "sendDocument": {"chat_id", "document"},
    "getUpdates": {"offset", "timeout", "allowed_updates"},
    "setWebhook": {"url", "secret_token", "allowed_updates"},
    "deleteWebhook": set(),
    "getMe": set(),
}
_FOUND = {
    "mention": r"(?<!\w)@\w{3,32}",
    "hashtag": r"(?<!\w)#\w+",
    "cashtag": r"(?<!\w)\$[A-Z]{1,8}\b",
    "bot_command": r"(?<![\w/])/\w+",
    "url": r"(?:https?://|tg://|www\.)\S+|(?<![\w@.])[\w-]+\.(?:com|org|net|example|io|ai|py|me|exe)\b",
    "email": r"[\w.+-]+@[\w-]+\.\w+",
    "phone_number": r"\+\d{7,15}",
}
"""What Telegram finds by itself outside `pre` and `code` (#messageentity)."""


def problem(method: str, given: Mapping[str, Any]) -> str:
    """What the Bot API would say against a call; empty if it takes it."""
    if method not in _PARAMETERS:
        return "Not Found: method not found"
    if unknown := set(given) - _PARAMETERS[method]:
        return f"Bad Request: the tests' server knows no {', '.join(sorted(unknown))}"
    if method == "answerCallbackQuery":
        return "Bad Request: MESSAGE_TOO_LONG" if units(given.get("text", "")) > ALERT else ""
    if "text" in _PARAMETERS[method]:
        return _text_problem(given) or _markup_problem(given.get("reply_markup") or {})
    return ""


def shown(text: str, entities: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """The text as Telegram keeps it, with the entities that it finds by itself."""
    assert not re.search(LOST, text), "Telegram would drop characters, and shift what follows"
    literal = [one for one in entities if one["type"] in ("pre", "code", "text_mention")]
    found = [
        {"type": type_, "offset": units(text[: at.start()]), "length": units(at[0])}
        for type_, pattern in _FOUND.items()
        for at in re.finditer(pattern, text)
    ]
    free = [one for one in found if not any(_overlap(one, block) for block in literal)]
    return text, sorted([*entities, *free], key=lambda one: int(one["offset"]))


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return bool(
        one["offset"] < other["offset"] + other["length"] and other["offset"] < one["offset"] + one["length"]
    )


def _text_problem(given: Mapping[str, Any]) -> str:
    text = given.get("text", "")
    if not text.strip():
        return "Bad Request: message text is empty"
    if units(text) > TEXT:
        return "Bad Request: message is too long"
    entities = given.get("entities") or []
    if len(entities) > ENTITIES:
        return "Bad Request: too many entities"
    end = 0
    for one in entities:
        if not one["length"] > 0 or one["offset"] < end or one["offset"] + one["length"] > units(text):
            return "Bad Request: entity begins or ends outside of the text, or inside of another"
        end = one["offset"] + one["length"]
        try:
            text.encode("utf-16-le")[one["offset"] * 2 : end * 2].decode("utf-16-le")
        except UnicodeDecodeError:
            return "Bad Request: entity begins or ends in a middle of a UTF-16 symbol"
    return ""


def _markup_problem(markup: Mapping[str, Any]) -> str:
    for row in markup.get("inline_keyboard", []):
        for button in row:
            if not button["text"]:
                return "Bad Request: text buttons are unallowed in the inline keyboard"
            if not 1 <= len(button["callback_data"].encode()) <= BUTTON_DATA_BYTES:
                return "Bad Request: BUTTON_DATA_INVALID"
    if len(markup.get("input_field_placeholder") or "") > PLACEHOLDER:
        return "Bad Request: input field placeholder is too long"
    return ""
