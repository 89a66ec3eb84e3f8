from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from placet.dev.files import ProjectFiles
from placet.errors import InvalidAgent

if TYPE_CHECKING:
    from pathlib import Path


def a_project(folder: Path) -> ProjectFiles:
    (folder / "lib" / "shop").mkdir(parents=True)
    (folder / "agent.py").write_text("from shop import prices\n\ndef late():\n    import tax\n")
    (folder / "lib" / "shop" / "__init__.py").write_text("")
    (folder / "lib" / "shop" / "prices.py").write_text("")
    (folder / "tax.py").write_text("")
    (folder / "client.py").write_text("import agent")
    (folder / ".env").write_text("KEY=1")
    content = {"graphs": {"a": "./agent.py:agent"}, "dependencies": ["./lib"], "env": ".env"}
    (folder / "langgraph.json").write_text(json.dumps(content))
    return ProjectFiles(folder / "langgraph.json")


@pytest.mark.parametrize("name", ["agent.py", "lib/shop/prices.py", "lib/shop/__init__.py", "tax.py"])
def test_what_the_agents_import_is_told_once(tmp_path: Path, name: str) -> None:
    files = a_project(tmp_path)
    files.read()
    assert files.changed([]) == set()
    (tmp_path / name).write_text("# another")
    assert files.changed([tmp_path / name]) == {name}
    assert files.changed([tmp_path / name]) == set()


def test_other_files_are_no_change(tmp_path: Path) -> None:
    files = a_project(tmp_path)
    files.read()
    (tmp_path / "client.py").write_text("# another")
    (tmp_path / "agent.py").write_text((tmp_path / "agent.py").read_text())
    assert files.changed([tmp_path / "client.py", tmp_path / "agent.py"]) == set()
    files.broken = True
    assert files.changed([tmp_path / "client.py"]) == {"client.py"}


def test_the_environment_is_part_of_it(tmp_path: Path) -> None:
    files = a_project(tmp_path)
    files.read()
    (tmp_path / ".env").write_text("KEY=2")
    assert files.changed([]) == {"the environment that langgraph.json names"}


def test_a_file_that_cannot_be_read_any_more_keeps_what_was_known(tmp_path: Path) -> None:
    files = a_project(tmp_path)
    files.read()
    (tmp_path / "langgraph.json").write_text("{")
    assert files.changed([]) == {"langgraph.json"}
    with pytest.raises(InvalidAgent):
        files.read()
    (tmp_path / "tax.py").unlink()
    assert files.changed([]) == {"tax.py"}
