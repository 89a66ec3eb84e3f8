"""The README's code runs as it stands there."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

from fleet import PATIENCE, Fleet

README = (Path(__file__).parents[2] / "README.md").read_text()


def block(language: str, containing: str) -> str:
    """The one code block of the README that contains this."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    (found,) = (code for code in blocks if containing in code)
    return str(found)


async def script(fleet: Fleet, code: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code), env=fleet.env(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    async with asyncio.timeout(PATIENCE):
        out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return out.decode()


async def test_the_agent_and_both_clients(redis_url: str, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(block("python", "create_agent("))
    (tmp_path / "langgraph.json").write_text(block("json", "graphs"))
    fleet = Fleet(redis_url=redis_url, folder=tmp_path, config=str(tmp_path / "langgraph.json"))
    try:
        await fleet.start()
        edited = await script(fleet, block("python", "async with Placet.connect()"))
        assert edited == "refund {'order_id': 'A-17', 'amount': 42.0}\nsuccess Done.\n"
        assert await script(fleet, block("python", "with PlacetSync.connect()")) == "success\n"
    finally:
        fleet.stop()


def test_the_settings_table_is_complete() -> None:
    from placet.settings import Settings  # noqa: PLC0415

    listed = set(re.findall(r"^\| `(PLACET_[A-Z_]+)`", README, re.MULTILINE))
    assert listed == {f"PLACET_{name.upper()}" for name in Settings.__slots__}
