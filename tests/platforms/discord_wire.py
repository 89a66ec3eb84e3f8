"""What Discord sends: its objects, its errors, and what its gateway begins with."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from aiohttp import BodyPartReader, web

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

TOKEN, APPLICATION, GUILD, CHANNEL = "MTIz.test.token", "1001", "2002", "3003"
ACK_SECONDS = 3
EPOCH_MS = 1_420_070_400_000


@dataclass
class Interaction:
    """A click or a sent form, until its token ends."""

    id: str
    token: str
    sent: float
    answered: asyncio.Future[dict[str, Any]]
    told: asyncio.Future[dict[str, Any]]
    """The message to this person alone, when it has been filled in."""
    acks: int = 0


def filled(label: dict[str, Any], typed: Mapping[str, str]) -> dict[str, Any]:
    """A field of a form as it comes back."""
    one = label["component"]
    name = one["custom_id"]
    if one["type"] == 3:
        before = [option["value"] for option in one["options"] if option.get("default")]
        values = [typed[name]] if name in typed else before
        assert set(values) <= {option["value"] for option in one["options"]}
        return {"type": 18, "component": {"type": 3, "custom_id": name, "values": values}}
    value = typed.get(name, one.get("value") or "")
    assert value or not one["required"], "Discord asks for it before it sends"
    return {"type": 18, "component": {"type": 4, "custom_id": name, "value": value}}


async def body(request: web.Request) -> tuple[dict[str, Any], dict[str, str]]:
    if request.content_type == "application/json":
        return await request.json(), {}
    given: dict[str, Any] = {}
    files: dict[str, str] = {}
    async for part in await request.multipart():
        assert isinstance(part, BodyPartReader)
        text = await part.text()
        if part.name == "payload_json":
            given = json.loads(text)
        else:
            files[part.filename or ""] = text
    assert len(files) == len(given.get("attachments", []))
    return given, files


def user(id_: str, *, bot: bool = False) -> dict[str, Any]:
    return {"id": id_, "username": f"u{id_}", "discriminator": "0", "avatar": None, "bot": bot}


def json_response(data: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    # as Discord has it: without a charset, which its library does not take for JSON
    return web.Response(
        body=json.dumps(data).encode(), status=status, headers=headers, content_type="application/json"
    )


def error(status: int, code: int, message: str) -> web.Response:
    return json_response({"code": code, "message": message}, status=status)


def form_error(wrong: list[str]) -> web.Response:
    errors = {"_errors": [{"code": "INVALID", "message": one} for one in wrong]}
    return json_response({"code": 50035, "message": "Invalid Form Body", "errors": errors}, status=400)


def message_of(id_: str, channel: str, given: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": id_,
        "channel_id": channel,
        "author": user(APPLICATION, bot=True),
        "content": given.get("content") or "",
        "components": given.get("components", []),
        "flags": given.get("flags", 0),
        "timestamp": datetime.now(UTC).isoformat(),
        "edited_timestamp": None,
        "tts": False,
        "mention_everyone": False,
        "pinned": False,
        "type": 0,
        "mentions": [],
        "mention_roles": [],
        "attachments": [],
        "embeds": [],
    }


def application() -> dict[str, Any]:
    return {
        "id": APPLICATION,
        "name": "Placet",
        "description": "",
        "icon": None,
        "verify_key": "",
        "bot_public": False,
        "bot_require_code_grant": False,
        "owner": user("1"),
        "flags": 0,
    }


def ready(session: str, port: int) -> dict[str, Any]:
    return {
        "v": 10,
        "session_id": session,
        "user": user(APPLICATION, bot=True),
        "resume_gateway_url": f"ws://127.0.0.1:{port}/gateway",
        "guilds": [{"id": GUILD, "unavailable": True}],
        "application": {"id": APPLICATION, "flags": 0},
    }


GUILD_CREATE: dict[str, Any] = {
    "id": GUILD,
    "name": "Office",
    "owner_id": "1",
    "member_count": 4,
    "channels": [{"id": CHANNEL, "type": 0, "name": "ops", "position": 0, "permission_overwrites": []}],
    "roles": [],
    "emojis": [],
    "members": [],
    "features": [],
    "threads": [],
    "voice_states": [],
    "verification_level": 0,
    "default_message_notifications": 0,
    "explicit_content_filter": 0,
    "mfa_level": 0,
    "nsfw_level": 0,
    "premium_tier": 0,
    "preferred_locale": "en-US",
    "system_channel_flags": 0,
    "presences": [],
    "stickers": [],
    "stage_instances": [],
}
