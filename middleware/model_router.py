"""LangChain's model router, whose verdict is plain data in the agent's state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NotRequired

from langchain.agents.middleware import AgentState
from langchain.agents.middleware import model_router as stock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain.agents.middleware import ModelRequest, ModelResponse
    from langchain_core.decisions import ChoiceAnswer
    from langgraph.runtime import Runtime


class ModelRouterState(AgentState[Any]):
    """The state of an agent whose model is chosen once a run."""

    model_route: NotRequired[dict[str, Any]]
    """The classifier's answer: choice, probabilities, confidence."""


class ModelRouterMiddleware(stock.ModelRouterMiddleware):
    """LangChain's; the answer in `model_route` is a dict, so that any checkpointer gives it back.

    A run keeps the model that was chosen for it over pauses and deaths. A route that a later deployment does
    not have is an error, not another model.
    """

    state_schema = ModelRouterState  # type: ignore[assignment] # theirs has an object that is a dict after a pause

    def before_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        """Choose the run's model."""
        return _plain(super().before_agent(state, runtime))

    async def abefore_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        """As `before_agent`."""
        return _plain(await super().abefore_agent(state, runtime))

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the run's model."""
        return handler(self._routed(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """As `wrap_model_call`."""
        return await handler(self._routed(request))

    def _routed(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        answer: Any = request.state.get("model_route")
        route = answer["choice"] if isinstance(answer, dict) else answer.choice
        if route not in self.models:
            raise ValueError(f"choices: this run was routed to {route!r}; there are {sorted(self.models)}")
        return request.override(model=self.models[route])


def _plain(update: dict[str, ChoiceAnswer]) -> dict[str, Any]:
    return {name: answer.model_dump(mode="json") for name, answer in update.items()}
