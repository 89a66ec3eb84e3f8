"""Fallback to other models, with a circuit breaker for each over all processes."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import structlog
from langchain.agents import middleware as stock
from langchain.agents.middleware._retry import should_retry_exception
from langchain.agents.middleware.model_fallback import _sanitize_request_for_fallback
from langchain_core.exceptions import ModelRefusalError
from langchain_core.messages import AIMessage
from langgraph.errors import GraphBubbleUp

from placet.digest import digest_of
from placet.errors import InvalidInput, RetryableError

from ..reach import reaching_the_store
from ..shared import MODEL_ANSWERED, Breaker, current_run
from ..waiting import wait
from .retry import another_model, error_filter
from .retryable import request_at_fault
from .tries import within

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from langchain.agents.middleware._retry import RetryOn
    from langchain.agents.middleware.types import ModelRequest, ModelResponse
    from langchain_core.language_models import BaseChatModel

    from ..shared import Ended, RunContext

log = structlog.get_logger("placet")

_ADDRESSES = ("openai_api_base", "azure_endpoint", "anthropic_api_url", "endpoint_url", "base_url")
_NAMES = ("model_name", "model", "model_id", "deployment_name")


class ModelFallbackMiddleware(stock.ModelFallbackMiddleware[Any, Any]):
    """LangChain's, with one circuit breaker a model over all workers, and runs that stay with what answered.

    While a run is under way, a model that keeps failing is passed over by all runs until it has cooled down;
    then one call at a time finds out whether it is back. The last model in turn is always called: there is
    nothing else. A run that has fallen back begins with that model from then on. The answer's
    `response_metadata["placet_model"]` says which model it is from. Without a run it is LangChain's.

    A breaker belongs to a model by its class, its model's name and its address; set a model's `name` to tell
    apart those that differ in something else, as in their keys.

    Args:
        first_model, additional_models: as LangChain's.
        failure_threshold: Failures in a row, over all processes, that open a model's breaker.
        cool_down: Seconds that it stays open; failures further apart than this are not in a row.
        fall_back_on: What leads to the next model: a class, a list of classes or a function of the error.
            By default everything but a request at fault: HTTP 400, 413 or 422, a context that is too long,
            what is against a policy. A refusal that `ModelRefusalMiddleware` makes an error of does.
        name: For a second one in the same agent.

    Raises:
        ValueError: when an argument is none of these.
    """

    def __init__(
        self,
        first_model: str | BaseChatModel,
        *additional_models: str | BaseChatModel,
        failure_threshold: int = 3,
        cool_down: float = 60.0,
        fall_back_on: RetryOn | Sequence[type[Exception]] | type[Exception] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(first_model, *additional_models)
        if failure_threshold < 1:
            raise InvalidInput("failure_threshold", "must be 1 or more")
        if not cool_down > 0:
            raise InvalidInput("cool_down", "must be over 0 seconds")
        self.failure_threshold = failure_threshold
        self.cool_down = cool_down
        self.fall_back_on: RetryOn = (
            (lambda error: not request_at_fault(error))
            if fall_back_on is None
            else error_filter("fall_back_on", fall_back_on)
        )
        self._name = name

    @property
    def name(self) -> str:
        """What tells it from others in its agent."""
        return self._name or super().name

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any] | AIMessage:
        """Call the model that the run stays with, then the others in turn."""
        if (run := current_run()) is None:
            return await super().awrap_model_call(request, handler)
        chain = _Chain(run, self, request)
        for place in await chain.order():
            asked = chain.request(place)
            if not await chain.enter(place):
                continue
            try:
                with chain.call():
                    response = await handler(asked)
            except (GraphBubbleUp, asyncio.CancelledError):
                await chain.leave("neither")
                raise
            except Exception as error:
                if not await chain.goes_on_after(error):
                    raise
            else:
                return await chain.answered(response)
        raise AssertionError("the last model is always called")

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any] | AIMessage:
        """As `awrap_model_call`."""
        if (run := current_run()) is None:
            return super().wrap_model_call(request, handler)
        chain, loop = _Chain(run, self, request), run.shared.loop
        for place in wait(chain.order(), loop):
            asked = chain.request(place)
            if not wait(chain.enter(place), loop):
                continue
            try:
                with chain.call():
                    response = handler(asked)
            except GraphBubbleUp:
                wait(chain.leave("neither"), loop)
                raise
            except Exception as error:
                if not wait(chain.goes_on_after(error), loop):
                    raise
            else:
                return wait(chain.answered(response), loop)
        raise AssertionError("the last model is always called")


class _Chain:
    """The models of one call in turn."""

    def __init__(self, run: RunContext, policy: ModelFallbackMiddleware, request: ModelRequest[Any]) -> None:
        self._run = run
        self._policy = policy
        self._request = request
        self._models = [request.model, *policy.models]
        self._ids = [_identity(model, place, policy.name) for place, model in enumerate(self._models)]
        self._run_key = digest_of([policy.name, self._ids])
        self._first = self._place = self._last = 0
        self._call = ""

    async def order(self) -> list[int]:
        """The models' places, the one that the run stays with first."""
        with reaching_the_store():
            first = await self._run.shared.model_of(self._run.run_id, self._run_key)
        order = list(range(len(self._models)))
        order = order[first:] + order[:first]
        self._first, self._last = first, order[-1]
        return order

    def request(self, place: int) -> ModelRequest[Any]:
        """What a model is asked; settings that only the first one's provider takes are left out."""
        if place == 0:
            return self._request
        model = self._models[place]
        return _sanitize_request_for_fallback(self._request, model).override(model=model)

    async def enter(self, place: int) -> bool:
        """Whether the model is to be called; the last one is in any case."""
        self._place, self._call = place, secrets.token_hex(8)
        with reaching_the_store():
            closed = await self._run.shared.enter_model(self._run.run_id, self._breaker, call=self._call)
        if not closed:
            log.info("model.passed_over", model=self._label, last=place == self._last)
        return closed or place == self._last

    @contextmanager
    def call(self) -> Iterator[None]:
        """Call the model within."""
        token = another_model.set(another_model.get() or self._place != self._last)
        try:
            with within(f"{self._policy.name}:{self._place}"):
                yield
        finally:
            another_model.reset(token)

    async def leave(self, ended: Ended) -> None:
        """Tell the model's breaker how the call ended."""
        with suppress(RetryableError):  # what the call came to counts more than what is known of the model
            if await self._run.shared.leave_model(self._breaker, call=self._call, ended=ended):
                log.warning("breaker.opened", model=self._label, seconds=self._policy.cool_down)

    async def goes_on_after(self, error: Exception) -> bool:
        """Whether the next model is called."""
        works = request_at_fault(error) or isinstance(error, ModelRefusalError)
        await self.leave("neither" if works else "failed")
        if self._place == self._last or not should_retry_exception(error, self._policy.fall_back_on):
            return False
        log.warning("model.fell_back", model=self._label, error=type(error).__name__)
        return True

    async def answered(self, response: ModelResponse[Any]) -> ModelResponse[Any]:
        """Note which model it was, in the answer and for the rest of the run."""
        await self.leave("answered")
        if self._place != self._first:
            with reaching_the_store():
                await self._run.shared.stay_with_model(self._run.run_id, self._run_key, self._place)
        for message in response.result:
            if isinstance(message, AIMessage):
                message.response_metadata[MODEL_ANSWERED] = {"model": self._label, "place": self._place}
        return response

    @property
    def _breaker(self) -> Breaker:
        policy = self._policy
        return Breaker(
            digest_of(self._ids[self._place]), policy.failure_threshold, round(policy.cool_down * 1000)
        )

    @property
    def _label(self) -> str:
        kind, *names = self._ids[self._place]
        return ":".join([kind, *filter(None, names[:2])])


def _identity(model: BaseChatModel, place: int, policy: str) -> list[str]:
    """Name a model: its class, what it is called by its user and its provider, where it is."""
    called, known, address = _text(model, "name"), _text(model, *_NAMES), _text(model, *_ADDRESSES)
    nameless = [] if called or known else [policy, str(place)]
    return [str(getattr(model, "_llm_type", type(model).__name__)), called, known, address, *nameless]


def _text(model: BaseChatModel, *names: str) -> str:
    """The first of these that is a text; of anything else another process would read another one."""
    found = (getattr(model, name, None) for name in names)
    return next((value for value in found if isinstance(value, str) and value), "")
