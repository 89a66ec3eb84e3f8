"""Takes a guard away from this process; Python imports it at the start of each that has it on its path."""

from __future__ import annotations

import os

if name := os.environ.get("CHAOS_MUTATION"):
    from chaos.mutations import made

    kept = made(name)  # a name of its own: it is unmade when nothing holds it
    kept.__enter__()
