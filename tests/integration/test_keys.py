from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from placet.state.keys import _TEMPLATES, Keys, with_keys

if TYPE_CHECKING:
    from redis.asyncio import Redis


@pytest.mark.parametrize("key", ["plain", "{a}{}", "日本", "two\nlines", "a:b", "%1 \\1 \"'"])
async def test_lua_names_the_same_keys_as_python(redis: Redis, key: str) -> None:
    keys = Keys("ns")
    for name, template in _TEMPLATES.items():
        blank = "{}" in template
        call = f"K.{name}(ARGV[1])" if blank else f"K.{name}"
        named = await redis.eval(with_keys(f"return {call}"), 1, keys.prefix, key)
        expected = keys(name, key) if blank else keys(name)
        assert named == expected.encode()
        assert expected.startswith("{ns}:")


def test_no_two_names_meet_whatever_the_ids_hold() -> None:
    heads = [template.removesuffix("{}") for template in _TEMPLATES.values() if "{}" in template]
    assert all(template.endswith("{}") for template in _TEMPLATES.values() if "{}" in template)
    assert [(a, b) for a in heads for b in heads if a != b and a.startswith(b)] == []
    fixed = [template for template in _TEMPLATES.values() if "{}" not in template]
    assert [(name, head) for name in fixed for head in heads if name.startswith(head)] == []
