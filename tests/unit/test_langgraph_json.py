from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from placet.agents.langgraph_json import read_project
from placet.errors import InvalidAgent

if TYPE_CHECKING:
    from pathlib import Path


def test_all_ways_to_name_an_agent(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").touch()
    (tmp_path / "top.py").touch()
    file = tmp_path / "langgraph.json"
    file.write_text(
        """{"dependencies": [".", "./src", "langchain_openai"], "python_version": "3.11", "graphs": {
        "a": "./src/app.py:graph", "b": "top.py:make",
        "c": {"path": "some.module:graph", "description": "C"}}}"""
    )
    project = read_project(file)
    assert [(a.name, a.module, a.variable, a.path, a.description) for a in project.agents] == [
        ("a", "langgraph_json__src__app", "graph", tmp_path / "src" / "app.py", ""),
        ("b", "langgraph_json__top", "make", tmp_path / "top.py", ""),
        ("c", "some.module", "graph", None, "C"),
    ]
    assert project.directories == (tmp_path, tmp_path, tmp_path / "src")


def test_env_from_a_file_or_a_mapping_yields_to_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text('# keys\nexport PLACET_Y="a b"\nPLACET_X=file\nEMPTY=\n')
    file = tmp_path / "langgraph.json"
    file.write_text('{"graphs": {"a": "m:g"}, "env": ".env"}')
    project = read_project(file)
    assert project.env == {"PLACET_Y": "a b", "PLACET_X": "file", "EMPTY": ""}
    file.write_text('{"graphs": {"a": "m:g"}, "env": {"N": 1}}')
    assert read_project(file).env == {"N": "1"}
    file.write_text('{"graphs": {"a": "m:g"}, "env": "missing"}')
    assert read_project(file).env == {}

    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PLACET_X", "process")
    for name in ("PLACET_Y", "EMPTY"):  # to be removed again at the end
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    project.enter()
    project.enter()
    assert os.environ["PLACET_Y"] == "a b"
    assert os.environ["PLACET_X"] == "process"
    assert sys.path.count(str(tmp_path)) == 1


def test_placets_own_settings_are_not_taken_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some processes do not read the file, and all have read their settings before."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv("PLACET_ENCRYPTION_KEY", raising=False)
    file = tmp_path / "langgraph.json"
    file.write_text('{"graphs": {"a": "m:g"}, "env": {"PLACET_ENCRYPTION_KEY": "0123456789abcdef"}}')
    read_project(file).enter()
    assert "PLACET_ENCRYPTION_KEY" not in os.environ


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "must hold a JSON object"),
        ("{}", "graphs: must map at least one name"),
        ('{"graphs": {}}', "graphs: must map at least one name"),
        ('{"graphs": {"a": "m:g", "a": "m:h"}}', "'a' is listed twice"),
        ('{"graphs": {"a": 1}}', "graphs.a: must be 'path.py:variable'"),
        ('{"graphs": {"a": {"description": "x"}}}', "graphs.a: must be 'path.py:variable'"),
        ('{"graphs": {"a": "./app.py"}}', "graphs.a: './app.py' does not end in ':variable'"),
        ('{"graphs": {"": "m:g"}}', "graphs.: an agent's name must not be empty"),
        ('{"graphs": {"a": "./no.py:g"}}', "graphs.a: no such file './no.py'"),
        ('{"graphs": {"a": "./app.ts:g"}}', "graphs.a: './app.ts' is not a Python file"),
        ('{"graphs": {"a": "m:g"}, "dependencies": "."}', "dependencies: must be a list"),
        ('{"graphs": {"a": "m:g"}, "dependencies": ["./no"]}', "dependencies: no such directory './no'"),
        ('{"graphs": {"a": "m:g"}, "env": 1}', "env: must be a path or an object"),
    ],
)
def test_what_is_wrong_is_one_line_with_file_and_key(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "langgraph.json"
    file.write_text(content)
    with pytest.raises(InvalidAgent) as caught:
        read_project(file)
    text = str(caught.value)
    assert text.startswith(f"{file}: ")
    assert message in text
    assert "\n" not in text


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidAgent, match=r"langgraph\.json: no such file; .*PLACET_CONFIG"):
        read_project(tmp_path / "langgraph.json")
    with pytest.raises(InvalidAgent, match="cannot be read"):
        read_project(tmp_path)
