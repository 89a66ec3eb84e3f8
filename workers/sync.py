"""Placet for code without an event loop: Django, Flask, a script."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Self, TypeVar

from .client import Placet
from .errors import NotConnected

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
    from concurrent.futures import Future

P = ParamSpec("P")
T = TypeVar("T")


def _waiting(
    method: Callable[Concatenate[Placet, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[PlacetSync, P], T]:
    """A coroutine method, awaited."""

    @wraps(method)
    def call(self: PlacetSync, /, *args: P.args, **options: P.kwargs) -> T:
        return self._wait(lambda: method(self._placet, *args, **options))

    return call


def _walking(
    method: Callable[Concatenate[Placet, P], AsyncGenerator[T]],
) -> Callable[Concatenate[PlacetSync, P], Generator[T]]:
    """An async iterator's method, walked."""

    @wraps(method)
    def call(self: PlacetSync, /, *args: P.args, **options: P.kwargs) -> Generator[T]:
        self._check_usable()
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
    cards = _waiting(Placet.cards)
    reviewer = _waiting(Placet.reviewer)
    may_decide = _waiting(Placet.may_decide)
    watch_approvals = _walking(Placet.watch_approvals)
    decide = _waiting(Placet.decide)
    decide_many = _waiting(Placet.decide_many)
    resume = _waiting(Placet.resume)

    def __init__(self, *args: Any, **options: Any) -> None:
        self._arguments = (args, options)
        self._lock = threading.Lock()
        """Held while a call is handed to the loop, so that none is after the loop's end."""
        self._state: Literal["new", "connecting", "open", "closed"] = "new"
        self._pid = os.getpid()
        self._calls: set[Future[Any]] = set()

    @classmethod
    def connect(cls, *args: Any, **options: Any) -> Self:
        """Take what `Placet.connect` takes."""
        return cls(*args, **options)

    def __enter__(self) -> Self:
        with self._lock:
            if self._state != "new":
                raise NotConnected(f"this client is {self._state}: make another with PlacetSync.connect()")
            self._state = "connecting"
            self._pid = os.getpid()
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="placet-sync", daemon=True)
            self._thread.start()
        args, options = self._arguments
        self._connected = Placet.connect(*args, **options)
        try:
            self._placet = self._on_loop(self._connected.__aenter__())
        except BaseException:
            self._state = "closed"
            self._stop()
            raise
        self._state = "open"
        return self

    def __exit__(self, *error: object) -> None:
        if self._pid != os.getpid():
            return  # the loop's thread is the parent's, and so are the sockets
        with self._lock:
            if self._state != "open":
                return
            self._state = "closed"
            calls = list(self._calls)
        for call in calls:
            call.cancel()
        try:
            self._on_loop(self._connected.__aexit__(None, None, None))
        finally:
            self._stop()

    def _stop(self) -> None:
        self._on_loop(_end_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _on_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _check_usable(self) -> None:
        # first: a fork may have copied a lock that is held
        if self._pid != os.getpid():
            raise NotConnected("this client was made in another process: connect after the fork")
        if self._state in ("new", "connecting"):
            raise NotConnected("not connected yet: with PlacetSync.connect() as placet: …")
        if self._state == "closed":
            raise NotConnected("this client is closed: make another with PlacetSync.connect()")

    def _wait(self, begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Await the coroutine that `begin` makes.

        Raises:
            NotConnected: when the client is not open, or is closed meanwhile.
        """
        self._check_usable()
        with self._lock:
            self._check_usable()
            future = asyncio.run_coroutine_threadsafe(begin(), self._loop)
            self._calls.add(future)
        try:
            return future.result()
        except CancelledError:
            raise NotConnected(
                "this client was closed during the call, which may or may not be done"
            ) from None
        except BaseException:
            future.cancel()  # Ctrl-C ends the wait, so it ends what was waited for
            raise
        finally:
            self._calls.discard(future)

    def _walk(self, items: AsyncGenerator[T]) -> Generator[T]:
        try:
            while True:
                try:
                    yield self._wait(lambda: _next(items))
                except StopAsyncIteration:
                    return
        finally:
            with suppress(NotConnected):  # then the loop's end has closed it, or its process will
                self._wait(items.aclose)


async def _next(items: AsyncGenerator[T]) -> T:
    return await anext(items)


async def _end_tasks() -> None:
    """Cancel what other threads still wait for."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
