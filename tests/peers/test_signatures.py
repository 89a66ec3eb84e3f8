"""Ours take what LangChain's take, defaults too; what is ours alone is keyword-only and has a default."""

from __future__ import annotations

import inspect
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import is_typeddict

from peers.replaced import Replaced, replaced

EXPECTED = tomllib.loads((Path(__file__).parent / "differences.toml").read_text())["signatures"]
CLASSES = [pair for pair in replaced() if inspect.isclass(pair.stock) and not is_typeddict(pair.stock)]
DICTS = [pair for pair in replaced() if is_typeddict(pair.stock)]


def parameters(of: Any) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(of).parameters)


def other_defaults(pair: Replaced) -> set[str]:
    theirs, ours = parameters(pair.stock), parameters(pair.ours)
    return {
        f"{pair.name}.{name}"
        for name in theirs
        if name in ours and theirs[name].default != ours[name].default
    }


@pytest.mark.parametrize("pair", CLASSES, ids=lambda pair: pair.name)
def test_class(pair: Replaced) -> None:
    theirs, ours = parameters(pair.stock), parameters(pair.ours)
    assert issubclass(pair.ours, pair.stock)
    assert pair.ours.__name__ == pair.name
    assert [(name, p.kind) for name, p in ours.items() if name in theirs] == [
        (name, p.kind) for name, p in theirs.items()
    ]
    added = [p for name, p in ours.items() if name not in theirs]
    assert [p.name for p in added if p.kind is not p.KEYWORD_ONLY or p.default is p.empty] == []
    assert other_defaults(pair) - EXPECTED.keys() == set()


def test_each_other_default_is_listed_with_the_reason() -> None:
    assert set().union(*map(other_defaults, CLASSES)) == EXPECTED.keys()
    assert all(EXPECTED.values())


def keys(of: Any) -> tuple[set[str], set[str]]:
    """The keys that are required and those that are not: the class does not know where types are text."""
    optional = {name for name, kind in of.__annotations__.items() if "NotRequired[" in str(kind)}
    return set(of.__annotations__) - optional, optional


@pytest.mark.parametrize("pair", DICTS, ids=lambda pair: pair.name)
def test_config(pair: Replaced) -> None:
    (required, optional), (ours, more) = keys(pair.stock), keys(pair.ours)
    assert ours == required
    assert more >= optional
