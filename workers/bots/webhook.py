"""Signed cards out, signed decisions in, for anything that can speak HTTP.

Signatures follow https://www.standardwebhooks.com: HMAC-SHA256 over id, timestamp and the raw body, several
keys so that one can be replaced.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode
from datetime import UTC, datetime
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, uuid4, uuid5

import aiohttp
from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from standardwebhooks import Webhook, WebhookVerificationError

from ..errors import InvalidSettings
from ..output import as_data
from ..settings_files import read_yaml
from .channel import CardGone, Undelivered
from .listening import listen, read_address

if TYPE_CHECKING:
    from .card import Card
    from .reviews import Refusal, Reply, Reviews

ENDPOINTS, LISTEN = "PLACET_WEBHOOK_ENDPOINTS", "PLACET_WEBHOOK_LISTEN"
CALL_SECONDS = 15
_HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")
_LEAST_KEY = 24
"""Bytes, as the specification has it."""
_STATUS: dict[Refusal | None, int] = {
    None: 200,
    "not_allowed": 403,
    "unknown": 404,
    "conflict": 409,
    "invalid": 422,
    "away": 503,
}
_HERE = ("127.0.0.1", "localhost", "::1")


class Endpoint(BaseModel):
    """Where cards of a destination go, and the keys that both sides sign with."""

    model_config = ConfigDict(extra="forbid")

    url: str
    secrets: Annotated[list[str], Field(min_length=1)]
    """The first signs what goes out; each is good for what comes in."""


class _Contents(BaseModel):
    model_config = ConfigDict(extra="forbid")
    endpoints: Annotated[dict[str, Endpoint], Field(min_length=1)]


class _Decided(BaseModel):
    """What comes in: a button of a card, who pressed it, and what goes with it."""

    model_config = ConfigDict(extra="forbid")
    button: str
    person: Annotated[str, Field(min_length=1, max_length=200)]
    typed: dict[str, str] | None = None
    decision: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        if self.typed is not None and self.decision is not None:
            raise ValueError("has both typed and decision: give one of them")
        return self


def channel() -> WebhookChannel:
    """Make the channel that the environment's settings describe.

    Raises:
        InvalidSettings: naming what is missing or wrong.
    """
    path = os.environ.get(ENDPOINTS, "")
    if not path:
        raise InvalidSettings(f"{ENDPOINTS}: must name a YAML file of endpoints (docs/bots/webhook.md)")
    try:
        endpoints = read_yaml(Path(path), _Contents, ENDPOINTS).endpoints
    except OSError as error:
        raise InvalidSettings(f"{ENDPOINTS}: {path}: {error.strerror}") from None
    for name, endpoint in endpoints.items():
        _check(name, endpoint)
    address = read_address(os.environ.get(LISTEN) or "127.0.0.1:8765", LISTEN)
    return WebhookChannel(endpoints=endpoints, address=address)


class WebhookChannel:
    """Posts cards to endpoints and takes decisions from them, each side signed."""

    name = "webhook"

    def __init__(self, *, endpoints: dict[str, Endpoint], address: tuple[str, int]) -> None:
        self._endpoints = endpoints
        self._address = address
        self._keys = {
            name: [Webhook(secret) for secret in endpoint.secrets] for name, endpoint in endpoints.items()
        }

    async def serve(self, reviews: Reviews) -> None:
        """Listen for decisions until cancelled; raises as `Channel.serve`."""

        async def decisions(request: web.Request) -> web.Response:
            return await self._decide(request, reviews)

        await listen(self._address, {"/endpoints/{name}/decisions": decisions}, setting=LISTEN)

    async def post(self, destination: str, card: Card) -> str:
        """Post a card to an endpoint; see `Channel.post`. Sent again, by whomever, it has the same id."""
        reference = f"{destination}:{card.approval.id}:{card.reminder}"
        await self._send("approval.posted", uuid5(NAMESPACE_URL, f"placet:{reference}").hex, reference, card)
        return reference

    async def update(self, reference: str, card: Card) -> None:
        """Post what a card is now; see `Channel.update`. An endpoint that answers 410 has it no more."""
        await self._send("approval.updated", uuid4().hex, reference, card)

    async def _send(self, type_: str, key: str, reference: str, card: Card) -> None:
        name = reference.partition(":")[0]
        endpoint = self._endpoints.get(name)
        if endpoint is None:
            raise Undelivered(f"{ENDPOINTS} has no endpoint {name!r}")
        now, id_ = datetime.now(UTC), f"msg_{key}"
        data = {"reference": reference, **card_data(card)}
        body = json.dumps({"type": type_, "timestamp": now.isoformat(), "data": data}, ensure_ascii=False)
        headers = {
            "content-type": "application/json",
            "webhook-id": id_,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": self._keys[name][0].sign(id_, now, body),
        }
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=CALL_SECONDS)) as session,
                session.post(endpoint.url, data=body.encode(), headers=headers, allow_redirects=False) as got,
            ):
                status, retry_after = got.status, got.headers.get("retry-after", "")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Undelivered(f"endpoint {name}: {type(error).__name__}") from None
        if status == HTTPStatus.GONE and type_ == "approval.updated":
            raise CardGone
        if status // 100 != 2:  # noqa: PLR2004 - HTTP's successes
            wait = float(retry_after) if retry_after.isdecimal() else None
            raise Undelivered(f"endpoint {name} answered {status}", retry_after=wait)

    async def _decide(self, request: web.Request, reviews: Reviews) -> web.Response:
        """Take one decision: 200 if it stands, else why not, as JSON."""
        name, body = request.match_info["name"], await request.read()
        # each once: of a header that is there twice the signature's and the replay's would differ
        signed = {one: request.headers.get(one, "") for one in _HEADERS}
        if not self._is_signed(name, body, signed):
            return _refused(401, "webhook-signature: does not fit body, id and time, or is too old")
        try:
            decided = _Decided.model_validate_json(body)
        except ValidationError as error:
            first = error.errors()[0]
            return _refused(400, f"{'.'.join(map(str, first['loc'])) or 'body'}: {first['msg']}")
        reply = await reviews.decide(
            f"webhook:{name}/{decided.person}",
            decided.button,
            decided.typed,
            decision=decided.decision,
            delivery=f"webhook:{name}:{signed['webhook-id']}:{sha256(body).hexdigest()}",
        )
        return web.json_response(_reply_data(reply), status=_STATUS[reply.refusal])

    def _is_signed(self, name: str, body: bytes, headers: dict[str, str]) -> bool:
        for key in self._keys.get(name, ()):
            try:
                key.verify(body, headers, json_parse=False)
            except (WebhookVerificationError, ValueError):  # the latter: a signature of another shape
                continue
            return True
        return False


def card_data(card: Card) -> dict[str, Any]:
    """A card as JSON values: the request's record, how it reads, and its buttons by action."""
    return {
        "approval": as_data(card.approval),
        "heading": card.heading,
        "state": card.state,
        "facts": [{"label": label, "text": text} for label, text in card.facts],
        "description": card.description,
        "content": card.content,
        "buttons": [
            {"action": action, "label": card.label(action), "button": card.button(action)}
            for action in card.actions
        ],
    }


def _reply_data(reply: Reply) -> dict[str, Any]:
    return {
        "recorded": reply.recorded,
        "text": reply.text,
        "issues": dict(reply.issues),
        "card": None if reply.card is None else card_data(reply.card),
    }


def _refused(status: int, text: str) -> web.Response:
    return web.json_response({"recorded": False, "text": text, "issues": {}, "card": None}, status=status)


def _check(name: str, endpoint: Endpoint) -> None:
    """Refuse an endpoint whose address or keys cannot be used, or that would send cards in the clear.

    Raises:
        InvalidSettings: naming it.
    """
    where = f"{ENDPOINTS}: endpoints.{name}"
    if not name or any(one in name for one in ":/"):
        raise InvalidSettings(f"{where}: a name has no colon and no slash")
    try:
        parts = urlsplit(endpoint.url)
        there = parts.scheme, parts.hostname, parts.port
    except ValueError as error:
        raise InvalidSettings(f"{where}.url: {error}") from None
    if not there[1] or (there[0] != "https" and there[:2] not in [("http", one) for one in _HERE]):
        raise InvalidSettings(f"{where}.url: must begin with https:// (http:// only for this machine)")
    for number, secret in enumerate(endpoint.secrets):
        try:
            key = b64decode(secret.removeprefix("whsec_"), validate=True)
        except ValueError:
            key = b""
        if not len(key) >= _LEAST_KEY:
            made = "whsec_ and 24 to 64 bytes in base64, as from: echo whsec_$(openssl rand -base64 32)"
            raise InvalidSettings(f"{where}.secrets.{number}: must be {made}")
