"""Worker processes for each test, stopped after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from placet import Placet


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> str:
    """The checkpointer that the workers use; a test may be parametrized with it."""
    return getattr(request, "param", "placet")


@pytest.fixture
def fleet(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """Workers of the test; `@pytest.mark.settings(lease_seconds=60)` sets what they run with."""
    marker = request.node.get_closest_marker("settings")
    url = request.getfixturevalue("stack_url" if backend == "langgraph-redis" else "redis_url")
    given = {"checkpointer": backend, **(marker.kwargs if marker else {})}
    made = Fleet(redis_url=url, folder=tmp_path, **given)
    yield made
    made.stop()


@pytest.fixture
async def placet(fleet: Fleet) -> AsyncIterator[Placet]:
    async with fleet.connect() as client:
        yield client
