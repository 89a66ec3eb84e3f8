"""Checkpointers and stores for LangGraph on Redis."""

import os

# LangGraph reads this once, when it is imported: without it, a graph does not tell the checkpointer
# which types its schemas name, and stored data may name any type.
os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
