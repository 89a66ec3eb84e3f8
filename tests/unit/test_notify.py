"""What a notification says, and what is refused at the start."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import an_approval

from placet.bots.card import card_of
from placet.bots.channel import Undelivered
from placet.bots.notify import LINK, MOST_CONTENT, URLS, body_of, channel
from placet.errors import InvalidSettings

if TYPE_CHECKING:
    from pathlib import Path

# Apprise's own plugin of e-mail imports it, on Python 3.11
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")

WHERE = "https://placet.example.com/approvals/{approval_id}"
PASSWORD = "pii-hush"  # noqa: S105 - no one's


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    (tmp_path / "notify.yaml").write_text("destinations: {mail: 'json://127.0.0.1'}")
    monkeypatch.setenv(URLS, str(tmp_path / "notify.yaml"))
    monkeypatch.setenv(LINK, WHERE)
    return monkeypatch


def body(link: str = WHERE, **changes: Any) -> str:
    return body_of(card_of(an_approval(**changes)), link)


def test_it_says_what_waits_and_where_to_decide() -> None:
    text = body(principal="ada", policy={"reviewers": ["group:finance"]}, description="Over the limit.")
    assert text.splitlines() == [
        "Waits for a decision",
        "https://placet.example.com/approvals/ap-1",
        "For: ada",
        "Who may decide: group:finance",
        "Agent: support",
        "Run: r-1",
        "Thread: t-1",
        "Asked: 2026-11-30 12:00 UTC",
        "Request: ap-1",
        "| Over the limit.",
        "| ",
        "| {",
        '|   "order": "A-17",',
        '|   "amount": 42.0',
        "| }",
    ]
    assert body("").splitlines()[1] == "placet approvals show ap-1"


def test_what_is_long_is_cut_and_said_to_be() -> None:
    text = body(kind="question", value="x" * 5000)
    assert text.endswith(f"| {'x' * MOST_CONTENT}…\n| (4000 characters more)")


@given(st.text(alphabet="@<>!#[]():/. \nhttpswevil&*_`|\u202e", max_size=80))
def test_nothing_in_it_is_a_mention_a_link_or_a_line_of_ours(text: str) -> None:
    said = body(kind="question", value=text, description=text, principal=text, thread_id=text)
    ours, *rest = said.removeprefix("Waits for a decision\n").split("\n")
    assert ours == "https://placet.example.com/approvals/ap-1"
    for line in rest:
        assert re.match(r"\| |For: |Agent: |Run: |Thread: |Asked: |Request: ", line)
        bare = re.sub(r"\[(@|://|<|\.)\]", "-", line)
        assert not re.search(r"@|://|\]\(|<[!#@]|\w\.[^\W\d_]|\u202e", bare), line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("@everyone <!channel> <@!2001> <#123>", "[@]everyone [<]!channel> [<][@]!2001> [<]#123>"),
        ("[pay](https://evil.example)", "[pay] (https[://]evil[.]example)"),
        ("jane@example.com owes 42.50", "jane[@]example[.]com owes 42.50"),
    ],
)
def test_what_could_come_alive_is_still_readable(text: str, said: str) -> None:
    assert body(kind="question", value=text).endswith(f"\n| {said}")


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("destinations: {}", f"{URLS}: .*: destinations: "),
        ("mail: json://127.0.0.1", f"{URLS}: .*: destinations: "),
        (f"destinations: {{mail: 'nosuch://u:{PASSWORD}@h'}}", f"{URLS}: destinations.mail: is no complete"),
        (f"destinations: {{sms: 'slack://{PASSWORD}'}}", f"{URLS}: destinations.sms: is no complete"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_and_no_password_told(
    file: str, message: str, settings: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "notify.yaml").write_text(file)
    with pytest.raises(InvalidSettings, match=message) as raised:
        channel()
    assert PASSWORD not in str(raised.value) + caplog.text


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        (URLS, "", "must name a YAML file of destinations"),
        (URLS, "/nowhere.yaml", "/nowhere.yaml: No such file or directory"),
        (LINK, "https://x.example/", "must be a URL with {approval_id} in it, such as"),
        (LINK, "https://x.example/{approval_id}?{approval_id}", "must be a URL with {approval_id}"),
        (LINK, "javascript:{approval_id}", "must be a URL with {approval_id} in it, such as"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(
    setting: str, value: str, message: str, settings: pytest.MonkeyPatch
) -> None:
    settings.setenv(setting, value)
    with pytest.raises(InvalidSettings, match=re.escape(f"{setting}: {message}")):
        channel()


async def test_a_destination_that_is_not_there_is_named(settings: pytest.MonkeyPatch) -> None:
    with pytest.raises(Undelivered, match=f"{URLS} has no destination 'mial'"):
        await channel().post("mial", card_of(an_approval()))
