"""One of several processes that send messages to threads at once; started by the tests of double texting."""

from __future__ import annotations

import json
import sys

from fleet import human
from placet import PlacetSync
from placet.errors import ThreadBusy
from placet.settings import Settings


def text(name: str) -> None:
    """Read lines of thread and strategy, send a message to the thread, say what came of it."""
    with PlacetSync.connect(settings=Settings.from_env()) as placet:
        print("ready", flush=True)  # noqa: T201 - the test reads it
        for line in sys.stdin:
            thread, strategy = line.split()
            given = human(f"{thread}-{name}")
            try:
                run = placet.enqueue("plain", given, thread_id=thread, multitask_strategy=strategy)  # type: ignore[arg-type]
                told = ["enqueued", run.id]
            except ThreadBusy as error:
                told = ["rejected", error.run_id]
            print(json.dumps(told), flush=True)  # noqa: T201


if __name__ == "__main__":
    text(sys.argv[1])
