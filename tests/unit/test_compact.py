from __future__ import annotations

import json
import zlib
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet import compact
from placet.compact import compact_json, deflated, inflated, load_json

MESSAGE: dict[str, Any] = {
    "content": "The refund of 42 EUR for order A-17 is on its way.",
    "additional_kwargs": {},
    "response_metadata": {},
    "type": "ai",
    "name": None,
    "id": "lc_run--019ac9e1-7d8c-7b60-8a8e-5ba1b8f0a1f3",
    "tool_calls": [],
    "invalid_tool_calls": [],
    "usage_metadata": None,
}


@given(st.binary(max_size=400) | st.text(alphabet='{}"aeinrst', max_size=2000).map(str.encode))
def test_what_goes_in_comes_out_smaller_or_is_left(data: bytes) -> None:
    made = deflated(data)
    assert made is None or (inflated(made) == data and len(made) < len(data))


@given(st.recursive(st.text() | st.integers() | st.none(), st.lists, max_leaves=50))
def test_json_comes_back_whether_it_was_made_smaller_or_not(value: Any) -> None:
    text = json.dumps(value)
    assert load_json(compact_json(text)) == load_json(text.encode()) == value


def test_agents_data_gets_much_smaller() -> None:
    text = json.dumps({"model": {"messages": [MESSAGE]}}, separators=(",", ":"))
    assert len(compact_json(text)) < len(text) / 2


@pytest.mark.parametrize("size", [256, 65_535, 65_536])
def test_up_to_64_kilobytes(size: int) -> None:
    made = deflated(b"x" * size)
    assert made is not None
    assert inflated(made) == b"x" * size


@pytest.mark.parametrize("size", [0, 1, 16, 65_537, 1_000_000])
def test_what_is_not_worth_the_time_is_left(size: int) -> None:
    assert deflated(b"x" * size) is None


@pytest.mark.parametrize("data", [b"", b"not deflated", (deflated(b"x" * 300) or b"")[:-2]])
def test_damaged_data_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"cut off|invalid"):
        inflated(data)


def test_nothing_grows_without_limit() -> None:
    deflate = zlib.compressobj(9, zlib.DEFLATED, -13)
    bomb = deflate.compress(b"\0" * 10_000_000) + deflate.flush()
    with pytest.raises(ValueError, match="too long"):
        inflated(bomb)


def test_the_dictionary_is_part_of_the_format() -> None:
    """With another one, no checkpoint or event that was stored before can be read."""
    assert sha256(compact._WORDS).hexdigest()[:16] == "cc88425b61c7eace"
