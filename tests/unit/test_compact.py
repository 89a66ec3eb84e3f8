from __future__ import annotations

import json
import zlib
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet import compact as module
from placet.compact import compact, expand

MESSAGE = {"model": {"messages": [{"content": "Refunded.", "additional_kwargs": {}, "type": "ai"}]}}


@given(st.binary(max_size=200) | st.text(alphabet='{}"aeinrst', max_size=2000).map(str.encode))
def test_what_goes_in_comes_out(data: bytes) -> None:
    assert expand(compact(data)) == data
    assert len(compact(data)) <= len(data) + 1


def test_agents_data_gets_much_smaller() -> None:
    data = json.dumps(MESSAGE, separators=(",", ":")).encode()
    assert len(compact(data)) < len(data) / 2


@pytest.mark.parametrize("size", [0, 1, 47, 48, 65_535, 65_536, 65_537, 1_000_000])
def test_any_size(size: int) -> None:
    data = b"x" * size
    assert expand(compact(data)) == data


def test_what_is_large_is_left_as_it_is() -> None:
    assert len(compact(b"x" * 65_537)) == 65_538


@pytest.mark.parametrize("data", [b"", b"{}", b"\2x", b"\1not deflated", compact(b"x" * 100)[:-2]])
def test_damaged_data_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"unknown mark|cut off|invalid"):
        expand(data)


def test_nothing_grows_without_limit() -> None:
    deflate = zlib.compressobj(9, zlib.DEFLATED, -12)
    bomb = b"\1" + deflate.compress(b"\0" * 10_000_000) + deflate.flush()
    with pytest.raises(ValueError, match="too long"):
        expand(bomb)


def test_the_dictionary_is_part_of_the_format() -> None:
    """With another one, no checkpoint or event that was stored before can be read."""
    words = module._WORDS
    assert sha256(words).hexdigest()[:16] == "94b40eb4c8a67a94"
