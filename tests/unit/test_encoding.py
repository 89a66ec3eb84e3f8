from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from placet.encoding import check_size, dump_input, dump_shown, size_of
from placet.errors import InvalidInput, TooLarge
from placet.json_values import MAX_BITS, MAX_DEPTH
from placet.settings import Settings

SETTINGS = Settings(max_input_bytes=10_000, max_config_bytes=100)


def nested(levels: int, *, objects: bool = False) -> Any:
    value: Any = {} if objects else []
    for _ in range(levels - 1):
        value = {"a": value} if objects else [value]
    return value


def circle() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def bush() -> Any:
    """Small in memory, and of 2^60 leaves."""
    value: list[Any] = []
    for _ in range(60):
        value = [value, value]
    return value


@dataclass
class Holder:
    """What pydantic takes apart itself."""

    value: Any


class Stubborn:
    """What raises when it is looked at."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (nested(100_000), "nested more than 100 levels deep"),
        (nested(100_000, objects=True), "nested more than 100 levels deep"),
        (Holder(nested(100_000)), "nested more than 100 levels deep"),
        (circle(), "nested more than 100 levels deep"),
        (bush(), "there is too much of it"),
        ([2**MAX_BITS * 10], f"a whole number of more than {MAX_BITS} bits"),
        ([-(10**5000)], f"a whole number of more than {MAX_BITS} bits"),
        ([math.nan], "NaN is no JSON number"),
        ({"a": -math.inf}, "-Infinity is no JSON number"),
        ({"a": "\ud800"}, "surrogates not allowed"),
        ({"\udfff": 1}, "surrogates not allowed"),
        ({"a": {1}}, "a set has no order"),
        (b"\xff", "invalid utf-8"),
        (object(), "Unable to serialize unknown type"),
    ],
)
def test_what_is_not_json_is_refused_by_name(value: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=r"^input: must be JSON values: ") as caught:
        dump_input("input", value, SETTINGS)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300


def test_each_field_has_its_limit() -> None:
    assert dump_input("input", "x" * 9998, SETTINGS) == json.dumps("x" * 9998)
    with pytest.raises(InvalidInput) as caught:
        dump_input("input", "x" * 9999, SETTINGS)
    expected = "input: it has 10,001 bytes of JSON; the most is 10,000 (PLACET_MAX_INPUT_BYTES)"
    assert str(caught.value) == expected
    for field in ("config", "context", "metadata"):
        assert dump_input(field, "ü" * 49, SETTINGS)
        with pytest.raises(InvalidInput, match=rf"^{field}: it has 102 bytes .* \(PLACET_MAX_CONFIG_BYTES\)"):
            dump_input(field, "ü" * 50, SETTINGS)


def test_what_is_within_all_limits_is_taken() -> None:
    given = {
        "deep": nested(MAX_DEPTH - 1),
        "whole": 2**MAX_BITS,
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "message": HumanMessage("hi"),
        "holder": Holder((1, 2)),
    }
    loaded = json.loads(dump_input("input", given, Settings()))
    assert loaded["deep"] == given["deep"]
    assert loaded["whole"] == given["whole"]
    assert loaded["message"]["content"] == "hi"
    assert loaded["holder"] == {"value": [1, 2]}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"a": "x\ud800"}, {"a": "x\\ud800"}),
        ([math.nan, -math.inf], ["NaN", "-Infinity"]),
        (b"\xff", "_w=="),
        ({"a": circle()}, None),
        (nested(100_000), None),
        (Holder(nested(100_000, objects=True)), None),
        ({"a": "\ud800", "b": nested(500)}, "cannot be shown: nested more than 100 levels deep"),
        ([Stubborn(), "\ud800"], None),
        (Stubborn(), None),
    ],
)
def test_whatever_a_graph_holds_is_shown_somehow(value: Any, shown: Any) -> None:
    text = dump_shown(value)
    assert len(text) < 4000
    text.encode()
    assert shown is None or json.loads(text) == shown


def test_a_size_is_that_of_utf_8() -> None:
    assert [size_of(text) for text in ("abc", "für", "🚀")] == [3, 4, 4]
    check_size("it", "für", most_bytes=4, setting="S")
    with pytest.raises(TooLarge, match=r"^the result has 4 bytes of JSON; the most is 3 \(S\)$") as caught:
        check_size("the result", "für", most_bytes=3, setting="S")
    assert (caught.value.size, caught.value.most) == (4, 3)
