"""LangChain's own unit tests of each middleware that we replace, run on ours."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from peers import source
from peers.replaced import replaced

HERE = Path(__file__).parent


def listed() -> dict[str, str]:
    sections = tomllib.loads((HERE / "differences.toml").read_text())
    del sections["signatures"]
    return {f"{file}::{test}": why for file, tests in sections.items() for test, why in tests.items()}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What failed of each of LangChain's tests, empty if nothing did."""
    names = [pair.name for pair in replaced()]
    root = source.download(tmp_path_factory.mktemp("langchain"))
    files = source.files_that_name(root, names)
    texts = [(root / file).read_text() for file in files]
    assert [name for name in names if not any(name in text for text in texts)] == []
    return source.run(root, files, plugin="peers.replaced", pythonpath=HERE.parent) if files else {}


def test_all_pass_but_the_listed(results: dict[str, str]) -> None:
    known = listed()
    unlisted = [f"{test}\n{wrong}" for test, wrong in results.items() if wrong and test not in known]
    assert not unlisted, "\n\n".join(unlisted)


def test_each_listed_one_fails_and_says_why(results: dict[str, str]) -> None:
    assert [test for test in listed() if not results.get(test)] == []
    assert all(listed().values())
