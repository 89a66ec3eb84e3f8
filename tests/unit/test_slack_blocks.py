"""Cards, forms and details as Slack gets them: golden payloads, within Slack's limits, hostile texts too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from platforms.cards import ALL, ID, card, requests
from platforms.slack import buttons_of, text_of
from platforms.slack_limits import MESSAGE_BLOCKS, problems, view_problems

from placet.bots import slack
from placet.bots.slack import blocks, views

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

HOSTILE = "``` <!channel> <@U0ALICE> <https://e.x|pay> *b* :bomb: https://e.x\n\u202egnp \x07 &lt;!here&gt;"
CARDS = requests(HOSTILE)


@pytest.mark.parametrize("name", CARDS)
def test_messages_are_as_they_were_and_within_slacks_limits(name: str, snapshot: SnapshotAssertion) -> None:
    made = blocks.message(card(**CARDS[name]))
    assert problems(made["blocks"], most=MESSAGE_BLOCKS) == []
    assert made == snapshot


def test_a_form_has_an_input_for_each_argument(snapshot: SnapshotAssertion) -> None:
    view = views.form(card(**CARDS["a call"]), "edit")
    assert view_problems(view) == []
    assert view == snapshot


def test_details_have_all_of_it_and_the_buttons(snapshot: SnapshotAssertion) -> None:
    view = views.everything(card(**CARDS["a call"]))
    assert view_problems(view) == []
    assert view == snapshot
    long = views.everything(card(**CARDS["long arguments"]))
    assert view_problems(long) == []
    assert "&<>" * 2000 in text_of(long["blocks"]).replace("\n", "")
    assert set(buttons_of(long["blocks"])) == set(ALL)


TEXTS = st.text(alphabet=st.sampled_from("&<>@#`*_~|:\n\u202e\u200baé🚀"), max_size=6000)


@given(TEXTS, TEXTS, st.integers(0, 7000))
def test_whatever_a_model_writes_stays_within_the_limits(note: str, description: str, more: int) -> None:
    made = card(args={"note": note + "x" * more}, description=description, allowed=ALL)
    message = blocks.message(made)
    assert problems(message["blocks"], most=MESSAGE_BLOCKS) == []
    assert "<" not in message["text"]
    assert view_problems(views.everything(made)) == []
    # what was cut is not approved from the card
    assert ("approve" in buttons_of(message["blocks"])) == (
        made.content in text_of(message["blocks"]) and made.description in text_of(message["blocks"])
    )


@given(st.dictionaries(st.text(min_size=1, max_size=300), st.text(max_size=4000), max_size=60))
def test_a_form_of_any_arguments_fits_or_says_that_it_does_not(args: dict[str, str]) -> None:
    view = views.form(card(args=args, allowed=ALL), "edit")
    assert view_problems(view) == []
    if "callback_id" in view:
        assert sum(block["type"] == "input" for block in view["blocks"]) == len(args)
    else:
        assert f"placet edit {ID}" in text_of(view["blocks"])


def test_the_manifest_asks_for_what_the_bot_uses_and_no_more() -> None:
    folder = Path(__file__).parents[2] / "docs" / "bots"
    manifest = yaml.safe_load((folder / "slack-manifest.yaml").read_text())
    assert manifest["oauth_config"]["scopes"]["bot"] == ["chat:write", "commands"]
    assert manifest["settings"]["event_subscriptions"]["bot_events"] == ["app_home_opened"]
    assert [one["command"] for one in manifest["features"]["slash_commands"]] == ["/placet"]
    told = (folder / "slack.md").read_text()
    source = Path(slack.__file__).read_text()
    assert set(re.findall(r"PLACET_SLACK_\w+", source)) == set(re.findall(r"PLACET_SLACK_\w+", told))
