"""Keeps new checkpoint ids greater than those they come after, whatever the clocks say."""

from __future__ import annotations

from langgraph.checkpoint.base import id as checkpoint_ids

_TIME_BASED = 6
_LAST = "_last_v6_timestamp"
"""Where langgraph-checkpoint keeps the time of the last id; it never goes behind that one."""


def ids_after(checkpoint_id: str) -> None:
    """Let every id that this process makes from now on be greater than `checkpoint_id`.

    LangGraph's ids are times (UUID version 6) and the greatest is the newest: a worker whose clock is behind
    that of the one before it would write checkpoints that nobody finds.
    """
    try:
        known = checkpoint_ids.UUID(checkpoint_id)
    except ValueError:
        return  # somebody's own ids
    if known.version == _TIME_BASED:
        last = max(getattr(checkpoint_ids, _LAST) or 0, known.time)
        setattr(checkpoint_ids, _LAST, last)
