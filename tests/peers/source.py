"""LangChain's unit tests, from the source package of the version that is installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from importlib.metadata import version
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TESTS = "tests/unit_tests/agents"
MIDDLEWARE = f"{TESTS}/middleware"
_WANTED = (f"{TESTS}/", "tests/__init__.py", "tests/unit_tests/__init__.py", "pyproject.toml")
_PREFIX = MIDDLEWARE.replace("/", ".") + "."
_OPTIONS = """\
[pytest]
asyncio_mode = auto
markers = requires: a package
"""
_FIXTURES = """\
import pytest
from langgraph.checkpoint.memory import InMemorySaver

@pytest.fixture
def sync_checkpointer():
    return InMemorySaver()
"""


def download(folder: Path) -> Path:
    """Unpack the tests of LangChain's agents; the folder that they are run in.

    Skips the test when there is no network.
    """
    name = f"langchain=={version('langchain')}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "langchain"]
    got = subprocess.run([*command, "--dest", str(folder), name], capture_output=True, text=True, check=False)
    if "(from versions: none)" in got.stderr:
        pytest.skip(f"LANGCHAIN'S OWN TESTS WERE NOT RUN: no index to download {name} from")
    assert got.returncode == 0, got.stderr
    (archive,) = folder.glob("langchain-*.tar.gz")
    root = folder / archive.name.removesuffix(".tar.gz")
    wanted = tuple(f"{root.name}/{path}" for path in _WANTED)
    with tarfile.open(archive) as tar:
        members = [member for member in tar if member.name.startswith(wanted)]
        tar.extractall(folder, members=members, filter="data")
    (root / TESTS / "conftest.py").write_text(_FIXTURES)  # theirs are of databases
    (root / "pytest.ini").write_text(_OPTIONS)
    return root


def files_that_name(root: Path, names: Sequence[str]) -> list[str]:
    """The test files of middleware in which one of the names occurs, relative to `root`."""
    found = [path for path in (root / MIDDLEWARE).rglob("test_*.py") if path.is_file()]
    texts = {str(path.relative_to(root)): path.read_text() for path in sorted(found)}
    return [path for path, text in texts.items() if any(name in text for name in names)]


def run(root: Path, files: Sequence[str], *, plugin: str, pythonpath: Path) -> dict[str, str]:
    """Run test files in a process of their own; by `file::test` what failed of it, empty if nothing did."""
    report = root / "report.xml"
    command = [sys.executable, "-m", "pytest", "-c", "pytest.ini", "-q", "--tb=short", "-p", plugin]
    command += ["-p", "no:cacheprovider", "-p", "no:xdist", f"--junitxml={report}"]
    done = subprocess.run(
        [*command, *files],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(pythonpath)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED), done.stdout + done.stderr
    found: dict[str, str] = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - pytest's own, just written
        module, _, group = case.attrib["classname"].removeprefix(_PREFIX).partition(".test_")
        file, _, group = group.partition(".")
        assert module in ("core", "implementations"), case.attrib
        name = f"test_{file}::{group + '.' if group else ''}{case.attrib['name']}"
        wrong = [str(part.text) for part in case if part.tag in ("failure", "error")]
        found[name] = "\n".join(filter(None, [found.get(name, ""), *wrong]))
    return found
