"""The built wheel, installed by itself: nothing is left out of it and nothing is missing beside it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
IMPORTS = (
    "import placet, placet.cli.main, placet.worker.process,placet.middleware.testing, placet.checkpoint.saver"
)


def test_the_wheel_in_a_bare_environment(tmp_path: Path) -> None:
    subprocess.run(["uv", "build", "--quiet", "--wheel", "--out-dir", tmp_path, ROOT], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("placet/")}
    sources = {
        f"placet/{prefix}{path.relative_to(ROOT / folder)}"
        for folder, prefix in (("workers", ""), ("middleware", "middleware/"))
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".lua", ".typed") or path.name == "py.typed"
    }
    assert packed == sources
    venv = tmp_path / "venv"
    subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, venv], check=True)
    subprocess.run(["uv", "pip", "install", "--quiet", "--python", venv, wheel], check=True)
    subprocess.run([venv / "bin" / "python", "-W", "error::ImportWarning", "-c", IMPORTS], check=True)
    told = subprocess.run([venv / "bin" / "placet", "demo"], capture_output=True, text=True, check=False)
    assert told.returncode == 1
    assert "pip install 'placet[dev-server]'" in told.stderr
