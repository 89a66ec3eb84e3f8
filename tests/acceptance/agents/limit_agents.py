"""Agents with limits of calls; acceptance_effects.py says what each does."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from acceptance_effects import barrier, logged
from langchain.agents import create_agent
from langchain.agents.middleware import ModelRetryMiddleware
from langchain_core.tools import tool
from slow_agents import slow
from tool_agents import look_up, pay, report

from placet.middleware import (
    CallWindow,
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    ToolCallLimitMiddleware,
    idempotent,
)
from placet.middleware.testing import Call, ScriptedModel, Step

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from langchain_core.messages import BaseMessage


def _asked(*steps: Step | str, name: str = "model", at: str = "") -> ScriptedModel:
    """Make a model that logs each call, and stands at a barrier then; its last step is for ever."""

    def logging(step: Step | str) -> Callable[[Sequence[BaseMessage]], Awaitable[Step | str]]:
        async def answer(messages: Sequence[BaseMessage]) -> Step | str:
            with logged(name):
                if at:
                    await barrier(at)
            return report(messages) if step == "report" else step

        return answer

    return ScriptedModel(script=[logging(step) for step in (*steps, *[steps[-1]] * 20)])


_look_up = Step(calls=[Call("look_up", {"key": "a"})])
_pay = Step(calls=[Call("pay", {"to": "ann", "amount": 10})])


def _tenants(limit: int, per: timedelta, *, park: bool = False) -> ModelCallLimitMiddleware:
    window = CallWindow(limit=limit, per=per, by="tenant", park=park)
    return ModelCallLimitMiddleware(windows=[window], name=f"tenants {limit}")


def _several(*middleware: Any) -> list[Any]:
    """List them: mypy finds no common type, with LangChain's own neither."""
    return list(middleware)


tenant_limited = create_agent(_asked("done"), middleware=[_tenants(100, timedelta(hours=1))])
tenant_parked = create_agent(_asked("done"), middleware=[_tenants(2, timedelta(seconds=1), park=True)])
limited_model = create_agent(
    _asked(_look_up, at="go"), [look_up], middleware=[ModelCallLimitMiddleware(run_limit=3)]
)
limited_gate = create_agent(
    _asked(_pay),
    [pay],
    middleware=_several(HumanInTheLoopMiddleware({"pay": True}), ModelCallLimitMiddleware(run_limit=2)),
)
limited_tool = create_agent(
    _asked(_pay, _pay, "report", name="other"),
    [pay],
    middleware=_several(
        HumanInTheLoopMiddleware({"pay": True}, interrupt_mode="per_call"),
        ToolCallLimitMiddleware(run_limit=1),
    ),
)
limited_window = create_agent(
    _asked(_pay, "report", name="other"),
    [pay],
    middleware=_several(
        HumanInTheLoopMiddleware({"pay": True}),
        ToolCallLimitMiddleware(windows=[CallWindow(limit=1, per=timedelta(hours=1), by="agent")]),
    ),
)
limited_slow_tool = create_agent(
    _asked(Step(calls=[Call("slow", {"barrier_name": "never"})]), "report", name="other"),
    [slow],
    middleware=[ToolCallLimitMiddleware(tool_name="slow", thread_limit=1)],
)
limited_error = create_agent(
    _asked(_look_up),
    [look_up],
    middleware=_several(ModelRetryMiddleware(), ModelCallLimitMiddleware(run_limit=2, exit_behavior="error")),
)
_unlimited = create_agent(_asked(_look_up, name="inner", at="go"), [look_up])


@tool
@idempotent
async def search() -> str:
    """Have an agent look for something, for ever."""
    out = await _unlimited.ainvoke({"messages": [{"role": "user", "content": "search"}]})
    return str(out["messages"][-1].text)


limited_search = create_agent(
    _asked(Step(calls=[Call("search")]), name="outer"),
    [search],
    middleware=[ModelCallLimitMiddleware(run_limit=5)],
)
