"""Placet for code without an event loop: Django, Flask, a script."""

from __future__ import annotations

import asyncio
import threading
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from .client import Placet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Generator


P = ParamSpec("P")
T = TypeVar("T")


def _waiting(
    method: Callable[Concatenate[Placet, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[PlacetSync, P], T]:
    """A coroutine method, awaited."""

    @wraps(method)
    def call(self: PlacetSync, /, *args: P.args, **options: P.kwargs) -> T:
        result: T = self._wait(method(self._placet, *args, **options))
        return result

    return call


def _walking(
    method: Callable[Concatenate[Placet, P], AsyncIterator[T]],
) -> Callable[Concatenate[PlacetSync, P], Generator[T]]:
    """An async iterator's method, walked."""

    @wraps(method)
    def call(self: PlacetSync, /, *args: P.args, **options: P.kwargs) -> Generator[T]:
        return self._walk(method(self._placet, *args, **options))

    return call


class PlacetSync:
    """Every method of `Placet`, blocking: `with PlacetSync.connect() as placet: placet.enqueue(…)`.

    Coroutines are awaited and async iterators walked on a loop in a thread of its own. Safe to share
    between threads.
    """

    enqueue = _waiting(Placet.enqueue)
    get = _waiting(Placet.get)
    runs = _waiting(Placet.runs)
    wait = _waiting(Placet.wait)
    stream = _walking(Placet.stream)
    cancel = _waiting(Placet.cancel)
    retry = _waiting(Placet.retry)
    state = _waiting(Placet.state)
    delete_thread = _waiting(Placet.delete_thread)
    approvals = _waiting(Placet.approvals)
    approval = _waiting(Placet.approval)
    watch_approvals = _walking(Placet.watch_approvals)
    decide = _waiting(Placet.decide)
    decide_many = _waiting(Placet.decide_many)
    resume = _waiting(Placet.resume)

    def __init__(self, *args: Any, **options: Any) -> None:
        self._arguments = (args, options)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="placet-sync", daemon=True)

    @classmethod
    def connect(cls, *args: Any, **options: Any) -> Self:
        """Take what `Placet.connect` takes."""
        return cls(*args, **options)

    def __enter__(self) -> Self:
        self._thread.start()
        args, options = self._arguments
        self._connected = Placet.connect(*args, **options)
        try:
            self._placet = self._wait(self._connected.__aenter__())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._wait(self._connected.__aexit__(None, None, None))
        finally:
            self._stop()

    def _stop(self) -> None:
        self._wait(_end_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _wait(self, coroutine: Any) -> Any:
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C ends the wait, so it ends what was waited for
            raise

    def _walk(self, items: AsyncIterator[Any]) -> Generator[Any]:
        try:
            while True:
                try:
                    yield self._wait(anext(items))
                except StopAsyncIteration:
                    return
        finally:
            self._wait(items.aclose())  # type: ignore[attr-defined]


async def _end_tasks() -> None:
    """Cancel what other threads still wait for."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
