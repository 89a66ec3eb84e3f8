from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from langgraph.types import Interrupt

from placet.approvals.interrupts import pause_of
from placet.digest import digest_of, own_pause_id, short_id

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def request_for(args: dict[str, Any]) -> Any:
    value = {
        "action_requests": [{"name": "pay", "args": args, "description": "d"}],
        "review_configs": [{"action_name": "pay", "allowed_decisions": ["approve"]}],
    }
    pause = pause_of(run_id="r", agent="a", interrupts=[Interrupt(value, id="i")])
    return pause.requests[0]


@settings(deadline=None)
@given(st.dictionaries(st.text(), JSON), st.randoms())
def test_key_order_does_not_matter(args: dict[str, Any], random: Any) -> None:
    items = list(args.items())
    random.shuffle(items)
    one, other = request_for(args), request_for(dict(items))
    assert (one.digest, one.id) == (other.digest, other.id)


@settings(deadline=None)
@given(st.dictionaries(st.text(), JSON), st.dictionaries(st.text(), JSON))
def test_other_arguments_have_another_digest(one: dict[str, Any], other: dict[str, Any]) -> None:
    assume(one != other)
    assert request_for(one).digest != request_for(other).digest


def test_ids_can_be_read_out() -> None:
    ids = {short_id("r", "i", index, "d") for index in range(1000)}
    assert len(ids) == 1000
    assert all(re.fullmatch("[0-9a-hjkmnp-tv-z]{12}", one) for one in ids)
    assert short_id("a", "bc") != short_id("ab", "c")
    assert re.fullmatch("[0-9a-f]{32}", digest_of({}))


def test_a_pause_of_our_own_is_named_by_its_content() -> None:
    value = {"type": "placet.timer", "key": "k", "due": 5}
    assert own_pause_id(value) == own_pause_id(dict(reversed(value.items())))
    assert own_pause_id(value) != own_pause_id({**value, "due": 6})
    assert own_pause_id(value) != digest_of(value)


def test_fresh_processes_agree() -> None:
    code = """
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from placet.approvals.interrupts import pause_of
def raised(value, id):
    return SimpleNamespace(value=value, id=id, response_schema=None)
args = {"words": {"one", "two", "three", "four"}, "sum": Decimal("1.10"),
        "fn": print, "object": object(), "third": Fraction(1, 3)}
text = f"ask\\n\\nTool: pay\\nArgs: {args}"
value = {"action_requests": [{"name": "pay", "args": args, "description": text}],
         "review_configs": [{"action_name": "pay", "allowed_decisions": ["approve", "edit"]}]}
pause = pause_of(run_id="r", agent="a", interrupts=[raised(value, "i"), raised({"x": args}, "j")])
print([(r.id, r.digest, r.kind) for r in pause.requests])
"""
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(seen) == 1
    assert "'tool_call'" in seen.pop()
