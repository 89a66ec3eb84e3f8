from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any

import pytest

from placet.caller_input import (
    AHEAD,
    MAX_ID,
    check_decisions,
    check_filters,
    check_messages,
    check_one_of,
    checked_config,
    checked_id,
    checked_object,
    checked_queue,
    checked_seconds,
    checked_start,
    checked_whole,
)
from placet.errors import InvalidInput

NO_DECISIONS: list[Any] = [None, [], {}, "a1", 5]
NO_IDS: list[Any] = [None, 0, 5, b"r", ["r"], {"r": 1}, "", " \n", "\ud800", "x" * (MAX_ID + 1)]


@pytest.mark.parametrize("bad", NO_IDS)
def test_what_names_nothing_is_no_id(bad: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^run_id: "):
        checked_id("run_id", bad)


def test_a_filter_is_an_id_or_nothing() -> None:
    check_filters(agent=None, thread_id="t")
    with pytest.raises(InvalidInput, match=r"^thread_id: "):
        check_filters(agent="a", thread_id=["t"])


@pytest.mark.parametrize(
    "bad", ["a,b", "a{b", "a}", "a b", "a\nb", "a\u2003b", "a\x00", "a\u202eb", "", None]
)
def test_a_queue_is_one_word(bad: Any) -> None:
    assert checked_queue("größe:eu-1/slow") == "größe:eu-1/slow"
    with pytest.raises(InvalidInput, match=r"^queue: "):
        checked_queue(bad)


@pytest.mark.parametrize("bad", [0, -1, 1.5, "x", None, True, math.nan, 1 << 80])
def test_a_limit_is_a_whole_number(bad: Any) -> None:
    assert checked_whole("limit", 1, least=1) == 1
    with pytest.raises(InvalidInput, match=r"^limit: .* from 1 to "):
        checked_whole("limit", bad, least=1)


@pytest.mark.parametrize("bad", ["x", "5", math.nan, -1, -0.1, True, [], timedelta(seconds=-1)])
def test_a_timeout_is_a_number_of_seconds(bad: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^timeout: "):
        checked_seconds("timeout", bad)


@pytest.mark.parametrize("long", [math.inf, 1e300, 1 << 5_000, timedelta.max])
def test_a_long_timeout_is_a_bounded_one(long: Any) -> None:
    assert checked_seconds("timeout", long) == AHEAD.total_seconds()
    assert checked_seconds("timeout", timedelta(minutes=1)) == checked_seconds("timeout", 60) == 60
    assert checked_seconds("timeout", None) is None


@pytest.mark.parametrize(
    "bad",
    [
        5,
        "2030-01-01",
        True,
        datetime(2030, 1, 1),  # noqa: DTZ001 - what is refused
        datetime.max,  # noqa: DTZ901
        datetime.max.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-23))),
        timedelta.max,
        timedelta(days=4_000),
    ],
)
def test_a_start_is_a_moment_within_ten_years(bad: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^start_at: "):
        checked_start(bad)


@pytest.mark.parametrize(
    "past",
    [
        None,
        timedelta(),
        timedelta.min,
        datetime(2020, 1, 1, tzinfo=UTC),
        datetime.min.replace(tzinfo=UTC),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=23))),
    ],
)
def test_a_start_in_the_past_is_at_once(past: Any) -> None:
    assert checked_start(past) is None


def test_a_start_to_come_is_kept() -> None:
    then = datetime.now(UTC) + timedelta(days=3_000)
    assert checked_start(then) == then
    soon = checked_start(timedelta(hours=1))
    assert soon is not None
    assert abs(soon - datetime.now(UTC) - timedelta(hours=1)) < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ([], "config"),
        ("", "config"),
        ({5: 1}, "config"),
        ({"configurable": None}, "config.configurable"),
        ({"metadata": []}, "config.metadata"),
        ({"tags": "a"}, "config.tags"),
        ({"tags": ["a", 5]}, "config.tags"),
        ({"tags": None}, "config.tags"),
        ({"run_name": 5}, "config.run_name"),
        ({"max_concurrency": 0}, "config.max_concurrency"),
        ({"max_concurrency": "x"}, "config.max_concurrency"),
        ({"max_concurrency": 1.5}, "config.max_concurrency"),
        ({"recursion_limit": 1 << 40}, "config.recursion_limit"),
    ],
)
def test_configuration_of_another_shape_is_refused(config: Any, named: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        checked_config(config)
    assert caught.value.field == named


def test_configuration_as_it_should_be_is_kept() -> None:
    config = {"tags": ["a"], "max_concurrency": 3, "recursion_limit": 100, "run_name": "n"}
    assert checked_config(MappingProxyType(config)) == config
    assert checked_config(None) == {}


@pytest.mark.parametrize("bad", [None, [], "x", 5, {5: 1}])
def test_an_object_has_texts_for_keys(bad: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^metadata: must be an object"):
        checked_object("metadata", bad)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        *(({"decisions": bad}, "decisions") for bad in NO_DECISIONS),
        ({"decisions": {5: {}}}, "approval_id"),
        *(({"reviewer": bad}, "reviewer") for bad in NO_IDS),
        ({"seen": ["d"]}, "seen"),
        ({"seen": {"a1": 5}}, "seen"),
    ],
)
def test_what_decides_nothing_is_refused(changes: dict[str, Any], named: str) -> None:
    given: dict[str, Any] = {"decisions": {"a1": {}}, "reviewer": "alice", "seen": None}
    with pytest.raises(InvalidInput, match=rf"^{named}: "):
        check_decisions(**{**given, **changes})


@pytest.mark.parametrize("bad", [["end"], 5, "never", None])
def test_a_word_is_on_the_list(bad: Any) -> None:
    check_one_of("status", None, (None, "pending"))
    with pytest.raises(InvalidInput, match=r"^until: must be one of end, pause"):
        check_one_of("until", bad, ("end", "pause"))


def test_an_input_has_so_many_messages_and_no_more() -> None:
    for given in ({"messages": [1, 2]}, {"messages": "many"}, {}, [1, 2, 3], "text", None):
        check_messages(given, most=2)
    for messages in ([1, 2, 3], (1, 2, 3)):
        with pytest.raises(InvalidInput, match=r"^input.messages: there are 3; .* 2 \(PLACET_MAX_MESSAGES\)"):
            check_messages({"messages": messages}, most=2)
