"""Errors by which a store says that it cannot be asked, or takes no writes, for now."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from redis import exceptions

from ..errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

_KINDS = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.OutOfMemoryError,
    exceptions.ReadOnlyError,  # of a replica, after a failover
    OSError,
)
_WORDS = ("MISCONF", "BUSY ", "NOREPLICAS")  # a disk that cannot be written, a script that goes on


def is_outage(error: BaseException | None) -> bool:
    """Whether it passes by itself: the same call may succeed later."""
    if isinstance(error, exceptions.ResponseError) and str(error).startswith(_WORDS):
        return True
    return isinstance(error, _KINDS)


@contextmanager
def outages(store: str = "Redis") -> Iterator[None]:
    """Raise `StoreUnavailable` in their place; `store` says whose they are."""
    try:
        yield
    except (exceptions.RedisError, OSError) as error:
        if is_outage(error):
            raise StoreUnavailable(f"{store}: {error}") from error
        raise
