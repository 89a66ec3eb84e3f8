"""What a webhook's receiver gets of a request, as files that show when the wire format changes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from records import NOW, an_approval
from syrupy.extensions.json import JSONSnapshotExtension

from placet.bots.card import card_of
from placet.bots.webhook import ENDPOINTS, LISTEN, card_data, channel
from placet.errors import InvalidSettings

if TYPE_CHECKING:
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion

SECRET = "whsec_" + "bmV3" * 8
HOSTILE = "<!channel> [x](https://evil.example) ``` </script> \u202e \x07 &lt;"
CARDS: dict[str, dict[str, Any]] = {
    "call": {
        "principal": "ada",
        "policy": {"reviewers": ["group:finance"]},
        "description": "Over the limit.",
    },
    "long": {"args": {"note": "&<>" * 100}},
    "question": {
        "kind": "question",
        "tool": None,
        "args": None,
        "value": {"ask": "Which day?"},
        "allowed": ("answer",),
        "response_schema": {"type": "string"},
    },
    "unknown_call": {"kind": "unknown_call", "allowed": ("approve", "respond", "reject")},
    "breakpoint": {"kind": "breakpoint", "tool": "pay", "args": None, "allowed": ("approve", "reject")},
    "decided": {
        "status": "decided",
        "decision": {"type": "reject", "message": "no"},
        "decided_by": "alice",
        "decided_at": NOW,
        "outcome": "not_run",
    },
    "superseded": {"status": "superseded"},
    "hostile": {"args": {"note": HOSTILE}, "description": HOSTILE, "principal": HOSTILE},
}


@pytest.mark.parametrize("name", CARDS)
def test_a_card_is_sent_as_this(name: str, snapshot: SnapshotAssertion) -> None:
    sent = json.loads(json.dumps(card_data(card_of(an_approval(**CARDS[name])))))
    assert sent == snapshot(extension_class=JSONSnapshotExtension)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("endpoints: {}", "endpoints"),
        (
            f"endpoints: {{a: {{url: 'http://tools.example.com', secrets: [{SECRET}]}}}}",
            "a.url: must begin with",
        ),
        (f"endpoints: {{a: {{url: 'https://', secrets: [{SECRET}]}}}}", "a.url: must begin with https://"),
        (f"endpoints: {{a: {{url: 'https://[x', secrets: [{SECRET}]}}}}", "a.url: Invalid IPv6 URL"),
        (f"endpoints: {{a: {{url: 'https://x:999999', secrets: [{SECRET}]}}}}", "a.url: Port out of range"),
        (f"endpoints: {{a/b: {{url: 'https://x', secrets: [{SECRET}]}}}}", "a/b: a name has no colon"),
        ("endpoints: {a: {url: 'https://x', secrets: []}}", "endpoints.a.secrets: List should have"),
        (
            "endpoints: {a: {url: 'https://x', secrets: [whsec_c2hvcnQ=]}}",
            "a.secrets.0: must be whsec_ and 24",
        ),
    ],
)
def test_an_endpoint_that_cannot_be_used_is_named(
    file: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "endpoints.yaml").write_text(file)
    monkeypatch.setenv(ENDPOINTS, str(tmp_path / "endpoints.yaml"))
    with pytest.raises(InvalidSettings) as raised:
        channel()
    assert message in str(raised.value)
    assert SECRET not in str(raised.value)


def test_an_address_is_host_and_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "endpoints.yaml").write_text(f"endpoints: {{a: {{url: 'https://x', secrets: [{SECRET}]}}}}")
    monkeypatch.setenv(ENDPOINTS, str(tmp_path / "endpoints.yaml"))
    monkeypatch.setenv(LISTEN, "8765")
    with pytest.raises(InvalidSettings, match=f"{LISTEN}: must be host:port"):
        channel()
