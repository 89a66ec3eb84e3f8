"""What the shared state refuses, as errors that pass all middleware."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from langgraph.errors import GraphBubbleUp

from placet import errors

if TYPE_CHECKING:
    from collections.abc import Iterator


# what is a GraphBubbleUp too is retried by none, nor made a tool's or a model's answer of
class LeaseLost(errors.LeaseLost, GraphBubbleUp):
    """Raised when the run is another worker's: the call does not start, or its result does not count."""


class StoreUnavailable(errors.StoreUnavailable, GraphBubbleUp):
    """Raised when the shared state does not answer: the call does not start."""


@contextmanager
def reaching_the_store() -> Iterator[None]:
    """Let a refusal of the store pass all middleware.

    Raises:
        LeaseLost, StoreUnavailable: in place of the store's own.
    """
    try:
        yield
    except errors.LeaseLost as error:
        raise LeaseLost(error.thread_id) from error
    except errors.StoreUnavailable as error:
        raise StoreUnavailable(str(error)) from error
