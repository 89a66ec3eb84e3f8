"""What all tests share."""

from __future__ import annotations

import os

# before any test imports langgraph, which reads it once
os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
