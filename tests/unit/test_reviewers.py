"""Who may decide: the file, the function, and a gate's policy held to them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from records import an_approval

from placet import Reviewer
from placet.approvals.policy import policy_error
from placet.approvals.reviewers import Reviewers
from placet.errors import InvalidSettings, NotAllowed

if TYPE_CHECKING:
    from pathlib import Path

FILE = """
reviewers:
  alice:
    groups: [finance, leads]
    identities: ["slack:U1", "telegram:17"]
  bob:
"""
FINANCE = {"reviewers": ["group:finance"]}


@pytest.fixture
def listed(tmp_path: Path) -> Any:
    def make(text: str = FILE) -> Reviewers:
        path = tmp_path / "reviewers.yaml"
        path.write_text(text)
        return Reviewers(str(path))

    return make


async def who(reviewers: Reviewers, name: str, policy: Any = None) -> str:
    return (await reviewers.allowed(name, an_approval(policy=policy))).id


async def why_not(reviewers: Reviewers, name: str, policy: Any = None) -> str:
    with pytest.raises(NotAllowed) as caught:
        await reviewers.allowed(name, an_approval(policy=policy))
    return caught.value.why


async def test_reviewers_are_found_by_id_and_by_identity(listed: Any) -> None:
    reviewers = listed()
    assert await reviewers.find("alice") == Reviewer(id="alice", groups=frozenset({"finance", "leads"}))
    assert await reviewers.find("slack:U1") == await reviewers.find("telegram:17")
    assert await reviewers.find("bob") == Reviewer(id="bob")
    for nobody in ("mallory", "slack:U2", "U1", "telegram:alice", "always", ""):
        assert await reviewers.find(nobody) is None


async def test_a_policy_lets_its_reviewers_and_groups_decide_and_nobody_else(listed: Any) -> None:
    reviewers = listed()
    assert await who(reviewers, "slack:U1", FINANCE) == "alice"
    assert await who(reviewers, "bob", {"reviewers": ["bob"]}) == "bob"
    assert await who(reviewers, "bob") == "bob"
    assert await why_not(reviewers, "bob", FINANCE) == "it is kept for group:finance"
    assert "mallory is not listed in" in await why_not(reviewers, "mallory")
    # a reviewer's name is no group's, and the other way round
    assert await why_not(reviewers, "alice", {"reviewers": ["finance"]}) == "it is kept for finance"


async def test_without_a_list_anyone_decides_what_is_kept_for_nobody(listed: Any) -> None:
    reviewers = Reviewers("")
    assert await who(reviewers, "ann") == "ann"
    assert await who(reviewers, "ann", {"reviewers": ["ann"]}) == "ann"
    assert await why_not(reviewers, "bob", {"reviewers": ["ann"]}) == "it is kept for ann"
    for nobody in ("ann", "group:finance"):
        assert "PLACET_REVIEWERS does not say who that is" in await why_not(reviewers, nobody, FINANCE)


@pytest.mark.parametrize(
    "policy",
    [
        {},
        {"reviewers": ["group:"]},
        {"policy": ["group:finance"]},
        {"reviewer": ["alice"]},
        {"reviewers": []},
        {"reviewers": "alice"},
        {"reviewers": ["alice"], "n": 2},
    ],
)
async def test_a_policy_that_cannot_be_used_lets_nobody_decide(listed: Any, policy: Any) -> None:
    assert policy_error(policy)
    assert (await why_not(listed(), "alice", policy)).startswith("its policy cannot be used: ")


async def test_who_was_taken_out_of_the_file_decides_nothing_more(listed: Any, tmp_path: Path) -> None:
    reviewers = listed()
    assert await who(reviewers, "alice") == "alice"
    path = tmp_path / "reviewers.yaml"
    path.write_text("reviewers:\n  bob:\n")
    os.utime(path, ns=(1, 1))
    assert "not listed" in await why_not(reviewers, "alice")
    path.write_text("reviewers: [")
    assert "reviewers.yaml line 1: no YAML" in await why_not(reviewers, "bob")
    path.unlink()
    assert "No such file" in await why_not(reviewers, "bob")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the file: "),
        ("reviewers: {alice: {group: [x]}}", "reviewers.alice.group: "),
        ("reviewers: {alice: {groups: finance}}", "reviewers.alice.groups: "),
        ("reviewers: {alice: , bob: , alice: }", "line 1: 'alice' stands twice"),
        ("reviewers: {a: }\nreviewers: {b: }", "'reviewers' stands twice"),
        ("reviewers: {'a:b': }", "'a:b' must be a name without a colon"),
        ("reviewers: {a: {identities: [U1]}}", "'U1' must begin with its channel"),
        ("reviewers: {a: {identities: ['s:1']}, b: {identities: ['s:1']}}", "'s:1' is a's already"),
    ],
)
def test_a_file_that_cannot_be_used_is_told(listed: Any, text: str, told: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        listed(text).check()
    assert str(caught.value).startswith("PLACET_REVIEWERS: ")
    assert told in str(caught.value)


async def test_a_function_may_say_who_reviewers_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_people.py").write_text(
        "from placet import Reviewer\n"
        "async def find(name):\n"
        "    return Reviewer(id='alice') if name == 'slack:U1' else None\n"
        "async def fails(name):\n"
        "    raise RuntimeError('password')\n"
        "async def wrong(name):\n"
        "    return 'alice'\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert await who(Reviewers("own_people:find"), "slack:U1") == "alice"
    assert "not listed" in await why_not(Reviewers("own_people:find"), "alice")
    assert "must return a placet.Reviewer or None, not a str" in await why_not(
        Reviewers("own_people:wrong"), "alice"
    )
    why = await why_not(Reviewers("own_people:fails"), "alice")
    assert why == "PLACET_REVIEWERS: own_people:fails failed: RuntimeError"
    with pytest.raises(InvalidSettings, match=r"fails failed: RuntimeError$"):
        await Reviewers("own_people:fails").find("alice")
    for missing in ("own_people:nobody", "no_such_module:find"):
        with pytest.raises(InvalidSettings, match=f"PLACET_REVIEWERS: {missing}"):
            Reviewers(missing).check()
