"""The state core on an empty database, whose records must agree when the test ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from consistency import check_consistency
from core import Core, open_core

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def core(redis_url: str) -> AsyncIterator[Core]:
    async with open_core(redis_url) as core:
        yield core
        await check_consistency(core.redis)
