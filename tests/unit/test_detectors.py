"""What counts as an address or a secret, and what only looks like one."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents.middleware import pii as stock

from placet.errors import InvalidInput
from placet.middleware import PIIMiddleware, detect_ip, detect_secret
from placet.middleware.pii.detectors import OWN, detect_email, detect_url, detector_of, disjoint

if TYPE_CHECKING:
    from langchain.agents.middleware import PIIMatch


def found(matches: list[PIIMatch]) -> list[str]:
    return [match["value"] for match in matches]


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("from 2001:db8::8a2e:370:7334 on", ["2001:db8::8a2e:370:7334"]),
        ("[2001:db8::1]:443", ["2001:db8::1"]),
        ("fe80::1%eth0, ::1.", ["fe80::1%eth0", "::1"]),
        ("::ffff:10.0.0.1", ["::ffff:10.0.0.1"]),
        ("10.0.0.1 and 1:2:3:4:5:6:7:8", ["10.0.0.1", "1:2:3:4:5:6:7:8"]),
        ("2001:0db8:85a3:0000:0000:8a2e:0370:7334", ["2001:0db8:85a3:0000:0000:8a2e:0370:7334"]),
        ("at 12:30:45, std::vector, ::, ab:cd, 00:1A:2B:3C:4D:5E", []),
    ],
)
def test_addresses_of_both_versions(text: str, addresses: list[str]) -> None:
    assert found(detect_ip(text)) == addresses


@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        ("use xapp-1-A012345-0987654321-abcdef now", ["xapp-1-A012345-0987654321-abcdef"]),
        ("xoxb-123456789012-abcdefGHIJ", ["xoxb-123456789012-abcdefGHIJ"]),
        ("Authorization: Bearer abc.DEF-123456", ["abc.DEF-123456"]),
        ('{"Authorization": "Basic dXNlcjpwYXNz"}', ["dXNlcjpwYXNz"]),
        ("sk-proj-abcdefghijklmnop1234", ["sk-proj-abcdefghijklmnop1234"]),
        ("ghp_" + "a1" * 18, ["ghp_" + "a1" * 18]),
        ("AKIAIOSFODNN7EXAMPLE", ["AKIAIOSFODNN7EXAMPLE"]),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc_def", ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc_def"]),
        ("postgres://app:s3cret@db/1", ["s3cret"]),
        ("the bearer of good news, a basic idea, ask-for-it", []),
    ],
)
def test_secrets_are_told_by_their_form(text: str, secrets: list[str]) -> None:
    assert found(detect_secret(text)) == secrets


SAMPLES = [
    "john.doe@example.com, and <Alice+x@test.co.uk>; not @me or a@b or a@b.c",
    "..dots@example.org _under_@x-y.io %a@b.cd-e a@b.com.",
    "see http://example.com, https://a.b/c?d=e#f (www.example.com) example.com/page example.com x/y",
    "http://a.b\nhttp://c.d/e\twww.f.g",
]


@pytest.mark.parametrize("text", SAMPLES)
def test_addresses_and_urls_are_those_that_langchain_finds(text: str) -> None:
    assert detect_email(text) == stock.detect_email(text)
    assert sorted(found(detect_url(text))) == sorted(found(stock.detect_url(text)))


def test_of_an_address_with_letters_before_it_nothing_is_left() -> None:
    assert found(detect_email("\u00fcjane.doe@example.com")) == ["jane.doe@example.com"]


@pytest.mark.parametrize("text", ["a.", "a@", "www.a.", "a./", "1:", "1234 ", "://a:", "eyJ", "@a."])
def test_long_texts_take_no_time(text: str) -> None:
    for detector in OWN.values():
        detector(text * (300_000 // len(text)))


def test_a_private_key_is_one_match_and_one_that_is_cut_off_too() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nowIB\n-----END RSA PRIVATE KEY-----"
    assert found(detect_secret(f"key:\n{key}\nend")) == [key]
    assert found(detect_secret(key[:45])) == [key[:45]]


def test_a_detector_is_a_function_a_text_or_a_pattern() -> None:
    def search(_: str) -> Any:
        return [{"start": 3, "end": 7}]

    given: Any
    for given in (r"A-\d+", re.compile(r"a-\d+", re.IGNORECASE), search):
        assert found(disjoint("no A-17", detector_of("order", given)("no A-17"))) == ["A-17"]
    with pytest.raises(ValueError, match=r"Unknown PII type: order\. Must be .*email.* secret, url, or"):
        detector_of("order", None)


@pytest.mark.parametrize(
    ("detector", "message"),
    [("A-(17", r"^detector: 'A-\(17' is no pattern: missing \)"), (17, "^detector: a function or a pattern")],
)
def test_what_is_no_detector_is_refused(detector: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        PIIMiddleware("order", detector=detector)


def test_matches_that_overlap_leave_nothing_of_either() -> None:
    matches = [{"type": "a", "start": 0, "end": 4}, {"type": "b", "start": 2, "end": 9}]
    assert found(disjoint("0123456789", matches)) == ["012345678"]  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["secret", "credit_card", "email"])
@pytest.mark.parametrize("escape", ["\n", "\t", "\r\n"])
def test_what_stands_behind_an_escape_in_json_is_found(kind: str, escape: str) -> None:
    """Results and errors are often JSON or a `repr`, in which a new line ends in a letter."""
    value = {
        "secret": "sk-test4711aaaaaaaaaaaaaaaa",
        "credit_card": "4532015112830366",
        "email": "ann@example.com",
    }[kind]
    rule = PIIMiddleware(kind).rule
    for text in (json.dumps({"a": f"key:{escape}{value}"}), repr(f"key:{escape}{value}")):
        assert value not in rule.apply(text)
        assert "key:" in rule.apply(text)
