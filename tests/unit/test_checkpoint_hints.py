from __future__ import annotations

from placet.checkpoint.hints import Hint, StoredHints


def digests(*numbers: int) -> Hint:
    return Hint("c1", frozenset(bytes([number]) for number in numbers))


def test_a_channel_has_what_was_seen_last() -> None:
    hints = StoredHints()
    hints.set("t", "", "messages", digests(1, 2))
    hints.set("t", "", "messages", digests(2, 3))
    assert hints.get("t", "", "messages") == digests(2, 3)
    assert hints.get("t", "child", "messages") == Hint()


def test_the_oldest_go_when_there_are_too_many() -> None:
    hints = StoredHints(limit=4)
    hints.set("a", "", "messages", digests(1, 2))
    hints.set("b", "", "messages", digests(1))
    hints.set("a", "", "messages", digests(1, 2, 3))
    hints.set("c", "", "messages", digests(1))
    assert hints.get("b", "", "messages") == Hint()
    assert hints.get("a", "", "messages") == digests(1, 2, 3)
    hints.set("huge", "", "messages", digests(*range(9)))
    assert hints.get("huge", "", "messages") == Hint()
