"""Our classes that have the name of one of LangChain's; as a pytest plugin it puts them in their place."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import langchain.agents.middleware as stock

import placet.middleware as ours


class Replaced(NamedTuple):
    """A public name of LangChain's middleware that is another thing in `placet.middleware`."""

    name: str
    stock: Any
    ours: Any


def replaced() -> list[Replaced]:
    """All of them; a name that `placet.middleware` only hands on is none."""
    both = sorted(set(ours.__all__) & set(stock.__all__))
    pairs = [Replaced(name, getattr(stock, name), getattr(ours, name)) for name in both]
    return [pair for pair in pairs if pair.stock is not pair.ours]


def pytest_configure() -> None:
    """Put ours wherever a module of LangChain's middleware has its own, before a test is imported."""
    modules = [module for name, module in sys.modules.items() if name.startswith(stock.__name__)]
    for pair in replaced():
        for module in modules:
            if getattr(module, pair.name, None) is pair.stock:
                setattr(module, pair.name, pair.ours)
