"""Breaks real workers, servers and networks on a seeded schedule, then checks every promise.

    uv run python benchmarks/chaos.py --runs 1000 --faults 200 --seed 1 --json

docs/guarantees.md says what is promised; the harness itself is tests/chaos/.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from chaos.cli import main

    sys.exit(main())
