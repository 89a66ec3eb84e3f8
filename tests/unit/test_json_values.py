from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from placet.json_values import MAX_DEPTH, canonical, not_json, pointer, shown, to_json


class Colour(StrEnum):
    RED = "red"


class Order(BaseModel):
    amount: Decimal
    key: SecretStr


@dataclass
class Point:
    x: float
    y: bytes


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Decimal("1.10"), "1.10"),
        (datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "2026-01-02T03:04:00Z"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ("日本語 🚀", "日本語 🚀"),
        ("\ud83d", "\\ud83d"),
        (b"plain", "plain"),
        (b"\xff\xfe", "data:;base64,//4="),
        (float("nan"), "NaN"),
        ([float("inf"), float("-inf")], ["Infinity", "-Infinity"]),
        ({3, 1, 2}, [1, 2, 3]),
        ((1, (2,)), [1, [2]]),
        ({2: "a", None: "b", True: "c", (1, 2): "d"}, {"2": "a", "null": "b", "true": "c", "[1,2]": "d"}),
        (Colour.RED, "red"),
        (Fraction(1, 3), "1/3"),
        (timedelta(days=1), "P1D"),
        (Order(amount=Decimal("2.50"), key=SecretStr("s3cret")), {"amount": "2.50", "key": "**********"}),
        (Point(float("nan"), b"a"), {"x": "NaN", "y": "YQ=="}),
        ({"lc": 2, "type": "constructor", "id": ["os", "system"]}, ...),
    ],
)
def test_every_value_is_shown_as_plain_json(value: Any, expected: Any) -> None:
    shown_value = to_json(value)
    assert shown_value == (value if expected is ... else expected)
    json.dumps(shown_value, allow_nan=False).encode()


def test_what_cannot_be_shown_whole_says_so() -> None:
    circular: list[Any] = []
    circular.append(circular)
    for value in (circular, {1: "a", "1": "b"}, 1 << 20_000):
        with pytest.raises(ValueError, match=r"nested|alike|bits"):
            to_json(value)
        assert str(shown(value)).startswith("cannot be shown: ")


def test_an_unknown_object_reads_alike_in_every_process() -> None:
    class Plain:
        pass

    assert to_json(Plain()) == to_json(Plain())
    assert "0x" not in to_json([Plain(), print, lambda: None])[2]


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda s: st.lists(s) | st.dictionaries(st.text(), s),
    )
)
def test_json_is_shown_as_it_is(value: Any) -> None:
    assert to_json(value) == value
    assert json.loads(canonical(value)) == value
    assert list(not_json(value)) == []


def test_what_is_not_json_is_named_with_its_place() -> None:
    value = {
        "a": [1, {"b/c": Decimal(1)}],
        "n": float("nan"),
        "t": (1,),
        "s": "\ud83d",
        1: 2,
        "big": 1 << 20_000,
    }
    assert {issue["path"]: issue["message"] for issue in not_json(value)} == {
        "/a/1/b~1c": "a Decimal is not a JSON value",
        "/n": "nan is not a JSON number",
        "/t": "a tuple is not a JSON value",
        "/s": "holds half of a surrogate pair, which is no text",
        "": "the key 1 is no text",
        "/big": "a whole number of more than 8192 bits",
    }


def test_depth_is_bounded() -> None:
    deep: Any = 0
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    assert list(not_json(deep[0])) == []
    assert [issue["path"] for issue in not_json(deep)] == ["/0" * 8]
    with pytest.raises(ValueError, match="nested"):
        to_json(deep)


def test_pointer_escapes_as_rfc_6901_says() -> None:
    assert pointer(["a/b", "m~n", 0]) == "/a~1b/m~0n/0"
