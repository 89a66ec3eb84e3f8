"""`placet doctor AGENT`: the agent's middleware in its order, each with what is wrong with it."""

from __future__ import annotations

import contextlib
import sys
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import PlacetError
from ..settings import Settings
from .doctor import Check

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence


class Made(NamedTuple):
    """What an agent was made of."""

    builder: Any
    """The graph that its compiled forms share."""
    model: Any
    middleware: Sequence[Any]


async def stack_checks(agent: str) -> AsyncIterator[Check]:
    """Look at one agent of `langgraph.json`, as `create_agent` was called for it."""
    try:
        found = await _made(agent)
    except PlacetError as error:
        yield Check(name="agent", status="fail", found=str(error), advice="no worker starts like this")
        return
    if found is None:
        advice = "the order of its middleware is not known; each node does what it says"
        yield Check(name="agent", status="ok", found=f"{agent} was not made with create_agent", advice=advice)
        return
    model = getattr(found.model, "model", None) or getattr(found.model, "model_name", None) or found.model
    model = model if isinstance(model, str) else type(model).__name__
    yield Check(name="agent", status="ok", found=f"{agent}: {model}, {len(found.middleware)} middleware")
    for number, one in enumerate(found.middleware, start=1):
        yield _one(number, one)
    for check in _whole(found):
        yield check


def _one(number: int, middleware: Any) -> Check:
    import placet.middleware as ours  # noqa: PLC0415 - heavy, as all here
    from placet.middleware.order import kind_of  # noqa: PLC0415

    made = type(middleware).__module__
    home = "placet" if made.startswith("placet.") else made.partition(".")[0]
    cls = type(middleware).__name__
    text = middleware.name if cls in middleware.name else f"{middleware.name}: {cls}"
    text += f" ({home})"
    kind = kind_of(middleware)
    if kind not in ours.__all__ or isinstance(middleware, getattr(ours, kind)):
        return Check(name=str(number), status="ok", found=text)
    advice = f"import {kind} from placet.middleware: LangChain's is not right across processes"
    return Check(name=str(number), status="warn", found=text, advice=advice)


def _whole(found: Made) -> Iterator[Check]:
    from placet.middleware.order import kind_of, problems  # noqa: PLC0415 - heavy, as all here

    for problem in problems(found.middleware):
        yield Check(
            name="order", status="warn", found=problem, advice="placet.middleware.stack puts it in order"
        )
    kinds = {kind_of(one): one for one in found.middleware}
    if "ModelRetryMiddleware" not in kinds:
        return
    fallbacks = getattr(kinds.get("ModelFallbackMiddleware"), "models", ())
    for model in (found.model, *fallbacks):
        retries = getattr(model, "max_retries", 0) if not isinstance(model, str) else None
        if retries == 0:
            continue
        text = "as often as it likes" if retries is None else f"{retries} times"
        name = model if isinstance(model, str) else type(model).__name__
        yield Check(
            name="retries",
            status="warn",
            found=f"the client of {name} retries by itself, {text}, inside ModelRetryMiddleware",
            advice="give the model max_retries=0: limits and backoff do not see its own",
        )


async def _made(agent: str) -> Made | None:
    """Load the agents, noting what is made, and find the one in question."""
    from langgraph.checkpoint.memory import InMemorySaver  # noqa: PLC0415

    with _noted() as noted, contextlib.redirect_stdout(sys.stderr):  # the user's modules may print
        from ..agents.graphs import Agents  # noqa: PLC0415 - loads langgraph, and the user's code

        agents = await Agents.load(Settings.from_env(), checkpointer=InMemorySaver())
        async with agents.open(agent, {}) as graph:
            builder = getattr(graph, "builder", graph)
            return next((one for one in noted if one.builder is builder), None)


@contextlib.contextmanager
def _noted() -> Iterator[list[Made]]:
    """Note each call of `create_agent`: a compiled graph does not tell what it was made of."""
    import langchain.agents  # noqa: PLC0415
    from langchain.agents import factory  # noqa: PLC0415

    plain, noted = factory.create_agent, []

    @wraps(plain)
    def create_agent(model: Any, *args: Any, **kwargs: Any) -> Any:
        graph = plain(model, *args, **kwargs)
        noted.append(Made(graph.builder, model, list(kwargs.get("middleware", ()))))
        return graph

    for module in (factory, langchain.agents):
        module.create_agent = create_agent  # type: ignore[attr-defined]
    try:
        yield noted
    finally:
        for module in (factory, langchain.agents):
            module.create_agent = plain  # type: ignore[attr-defined]
