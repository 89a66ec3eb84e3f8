from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

import placet
import placet.middleware

HEAVY = ("celery", "kombu", "langchain", "langchain_core", "langgraph", "jsonschema")


def run(code: str) -> Any:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "code",
    [
        "import placet",
        "from placet import Placet, PlacetSync, Run, Approval, Event, errors",
        "import placet\nfor name in placet.__all__: getattr(placet, name)",
        "from placet.settings import Settings",
        "import placet.middleware",
    ],
)
def test_importing_placet_loads_nothing_heavy(code: str) -> None:
    loaded = run(f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))")
    assert [name for name in loaded if name.split(".")[0] in HEAVY] == []


@pytest.mark.parametrize("name", placet.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(placet, name) is not None


@pytest.mark.parametrize("name", placet.middleware.__all__)
def test_every_public_name_of_the_middleware_is_there(name: str) -> None:
    assert getattr(placet.middleware, name) is not None


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'placet' has no attribute 'Job'"):
        _ = placet.Job
    with pytest.raises(AttributeError, match=r"module 'placet\.middleware' has no attribute 'Job'"):
        _ = placet.middleware.Job


def test_the_sync_client_has_every_method_of_the_async_one() -> None:
    methods = {name for name in dir(placet.Placet) if not name.startswith("_")}
    assert {name for name in vars(placet.PlacetSync) if not name.startswith("_")} == methods
    for name in methods - {"connect"}:
        assert getattr(placet.PlacetSync, name).__doc__ == getattr(placet.Placet, name).__doc__
