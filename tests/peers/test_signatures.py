"""Ours take what LangChain's take, defaults too; what is ours alone is keyword-only and has a default."""

from __future__ import annotations

import inspect
import tomllib
from pathlib import Path
from typing import Any, is_typeddict

import pytest

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


@pytest.mark.parametrize("pair", DICTS, ids=lambda pair: pair.name)
def test_config(pair: Replaced) -> None:
    assert set(pair.ours.__required_keys__) == set(pair.stock.__required_keys__)
    assert set(pair.ours.__optional_keys__) >= set(pair.stock.__optional_keys__)
