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
    if not files:
        return {}

    def run(some: list[str]) -> dict[str, str]:
        return source.run(root, some, plugin="peers.replaced", pythonpath=HERE.parent)

    found, known = run(files), listed()
    if slow := {test for test, wrong in found.items() if wrong and test not in known}:
        # some of theirs want a backoff to be over in time: on a busy machine once more
        again = run([file for file in files if Path(file).stem in {test.partition("::")[0] for test in slow}])
        found |= {test: again[test] for test in slow}
    return found


def test_all_pass_but_the_listed(results: dict[str, str]) -> None:
    known = listed()
    unlisted = [f"{test}\n{wrong}" for test, wrong in results.items() if wrong and test not in known]
    assert not unlisted, "\n\n".join(unlisted)


def test_each_listed_one_fails_and_says_why(results: dict[str, str]) -> None:
    assert [test for test in listed() if not results.get(test)] == []
    assert all(listed().values())
