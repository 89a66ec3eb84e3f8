"""LangChain's base class and decorators for middleware of one's own, which tell what is wrong with it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from langchain.agents import middleware as stock
from langchain.agents.middleware.types import ContextT, ResponseT, StateT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Hook = Callable[..., Any]

D = TypeVar("D", bound="Callable[..., Any]")
_NODES = ("before_agent", "before_model", "after_model", "after_agent")
_WRAPS = ("wrap_model_call", "wrap_tool_call")


if TYPE_CHECKING:
    # a list of it takes LangChain's own, and third parties'
    AgentMiddleware = stock.AgentMiddleware
else:

    class AgentMiddleware(stock.AgentMiddleware[StateT, ContextT, ResponseT]):
        """LangChain's, for middleware of your own.

        A class that wraps calls in sync methods alone works in agents that run asynchronously, as all do in
        Placet: its method runs in a thread. What LangChain passes over or trips on later is an error at once:
        a jump that the hook does not declare, and None from a method that wraps a call.
        """

        def __init_subclass__(cls, **kwargs: Any) -> None:
            super().__init_subclass__(**kwargs)
            _mend(cls)


def _mend(made: type[stock.AgentMiddleware[Any, Any, Any]]) -> None:
    """Put checks around the hooks that a class defines, and make async ones of sync wraps."""
    for name in _NODES:
        for hook in (name, f"a{name}"):
            if hook in vars(made):
                setattr(made, hook, _jumping(name, hook, vars(made)[hook]))
    for name in _WRAPS:
        for hook in (name, f"a{name}"):
            if hook in vars(made):
                setattr(made, hook, _answering(hook, vars(made)[hook]))
        own = getattr(made, f"a{name}") is not getattr(stock.AgentMiddleware, f"a{name}")
        if name in vars(made) and not own:
            setattr(made, f"a{name}", _in_thread(vars(made)[name]))


def _checked(hook: Hook, check: Callable[[Any, Any], None]) -> Hook:
    """Look at what a hook returns; `check` takes the middleware and that."""
    if inspect.iscoroutinefunction(hook):

        @wraps(hook)
        async def ahooked(self: Any, *args: Any, **kwargs: Any) -> Any:
            check(self, result := await hook(self, *args, **kwargs))
            return result

        return ahooked

    @wraps(hook)
    def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        check(self, result := hook(self, *args, **kwargs))
        return result

    return hooked


def _jumping(name: str, hook: str, method: Hook) -> Hook:
    def check(middleware: Any, update: Any) -> None:
        to = update.get("jump_to") if isinstance(update, Mapping) else None
        methods = (getattr(type(middleware), one) for one in (name, f"a{name}"))
        declared = next((found for one in methods if (found := getattr(one, "__can_jump_to__", None))), ())
        if to is not None and to not in declared:
            raise ValueError(
                f"{middleware.name}.{hook}: it jumps to {to!r}, and does not declare that:"
                f" put hook_config(can_jump_to=[{to!r}]) on it"
            )

    return _checked(method, check)


def _answering(hook: str, method: Hook) -> Hook:
    def check(middleware: Any, answer: Any) -> None:
        if answer is None:
            raise TypeError(f"{middleware.name}.{hook}: it returned None; return what the handler returned")

    return _checked(method, check)


def _in_thread(method: Hook) -> Hook:
    """Make an async method of a sync one, which may call its handler as often as it likes."""

    async def in_thread(self: Any, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        loop, calls, ended = asyncio.get_running_loop(), set[Any](), asyncio.Event()

        async def handled(request: Any) -> Any:
            if ended.is_set():
                raise asyncio.CancelledError
            calls.add(asyncio.current_task())
            return await handler(request)

        def wait(request: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(handled(request), loop).result()

        try:
            return await asyncio.to_thread(method, self, request, wait)
        except asyncio.CancelledError:
            for call in calls:
                call.cancel()
            raise
        finally:
            ended.set()

    return in_thread


def _ours(decorator: D) -> D:
    """Mend the middleware that one of LangChain's decorators makes."""

    def mended(middleware: Any) -> Any:
        _mend(type(middleware))
        return middleware

    @wraps(decorator)
    def decorate(function: Any = None, **options: Any) -> Any:
        if function is not None:
            return mended(decorator(function, **options))
        make = decorator(**options)
        return lambda function: mended(make(function))

    return cast("D", decorate)


before_agent = _ours(stock.before_agent)
before_model = _ours(stock.before_model)
after_model = _ours(stock.after_model)
after_agent = _ours(stock.after_agent)
wrap_model_call = _ours(stock.wrap_model_call)
wrap_tool_call = _ours(stock.wrap_tool_call)
