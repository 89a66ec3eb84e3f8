"""LangChain's classifier of risky tool calls, asked once for each call."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import auto_mode as stock
from langchain.agents.middleware.auto_mode import _DEFAULT_INSTRUCTIONS, _AutoModeConfig

from placet.json_values import canonical, shown

from .ledger.attempt import call_id_of
from .named_tools import named, tool_names
from .reach import reaching_the_store
from .shared import current_run
from .waiting import wait

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from langchain.agents.middleware import ToolCallRequest
    from langchain_core.decisions import BaseDecisionModel, NoulCriteria
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import BaseTool
    from langgraph.types import Command

    from .named_tools import NamedTool
    from .shared import RunContext

_LIMIT = stock._PROBABILITY_THRESHOLD  # noqa: SLF001 - LangChain has no name for others


class AutoModeMiddleware(stock.AutoModeMiddleware):
    """LangChain's, whose verdict on a call stands: a call that pauses inside is not classified again.

    `criteria=None` means LangChain's default criteria, which LangChain drops then. A call whose arguments a
    reviewer changed is another call. It blocks, it does not ask: put `HumanInTheLoopMiddleware` before it.
    """

    def __init__(
        self,
        *,
        tools: Sequence[str | BaseTool],
        instructions: str = _DEFAULT_INSTRUCTIONS,
        criteria: NoulCriteria | None = None,
        classifier: BaseDecisionModel,
    ) -> None:
        if criteria is None:
            criteria = _AutoModeConfig.model_fields["criteria"].default
        super().__init__(tools=tools, instructions=instructions, criteria=criteria, classifier=classifier)
        self._named = tool_names(tools)

    @property
    def named_tools(self) -> list[NamedTool]:
        """The tools whose calls it judges."""
        return named("tools", self._named)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Execute a call unless it is risky."""
        run = current_run()
        if run is None or request.tool_call["name"] not in self._tool_names:
            return super().wrap_tool_call(request, handler)
        name = self._verdict_name(request)
        known = wait(self._known(run, name), run.shared.loop)
        if known is None:
            response = self.classifier.invoke(self._question(request))
            known = wait(self._keep(run, name, response), run.shared.loop)
        return self._blocked(request, float(known)) or handler(request)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """As `wrap_tool_call`."""
        run = current_run()
        if run is None or request.tool_call["name"] not in self._tool_names:
            return await super().awrap_tool_call(request, handler)
        name = self._verdict_name(request)
        known = await self._known(run, name)
        if known is None:
            known = await self._keep(run, name, await self.classifier.ainvoke(self._question(request)))
        return self._blocked(request, float(known)) or await handler(request)

    def _verdict_name(self, request: ToolCallRequest) -> str:
        """Name a call with its arguments, the same in every process."""
        call = request.tool_call
        parts = [self.name, call_id_of(request, "messages").key, call["name"], shown(call["args"])]
        return blake2b(canonical(parts), digest_size=12, person=b"placet.risk").hexdigest()

    def _question(self, request: ToolCallRequest) -> Any:
        questions = stock._risk_questions(self.config)  # noqa: SLF001 - see `_LIMIT`
        return {"state": self._classification_state(request), "questions": questions}

    async def _known(self, run: RunContext, name: str) -> str | None:
        with reaching_the_store():
            return await run.shared.verdict(run.run_id, name)

    async def _keep(self, run: RunContext, name: str, response: Any) -> str:
        probability = response.nouls[stock._QUESTION_ID].noul  # noqa: SLF001 - see `_LIMIT`
        with reaching_the_store():
            return await run.shared.keep_verdict(run.run_id, name, repr(float(probability)))

    def _blocked(self, request: ToolCallRequest, probability: float) -> ToolMessage | None:
        return self._blocked_tool_message(request, probability) if probability >= _LIMIT else None
