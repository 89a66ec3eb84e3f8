"""The order of middleware: what `stack` makes of parts, and which orders it refuses."""

from __future__ import annotations

import random
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents import middleware as stock
from langchain_core.decisions import BaseDecisionModel, ClassifierResponse
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

import placet.middleware as ours
from placet.errors import InvalidInput
from placet.middleware import stack
from placet.middleware.order import ORDER, RULES, kind_of, problems
from placet.middleware.testing import Call, ScriptedModel, Step

MODEL = ScriptedModel(script=["done"])


class Classifier(BaseDecisionModel):
    model: str = "scripted"

    @property
    def _provider(self) -> str:
        return "scripted"

    def _classify(self, _state: Any, _questions: Any) -> ClassifierResponse:
        raise NotImplementedError


ARGUMENTS: dict[str, Any] = {
    "HumanInTheLoopMiddleware": ([], {"interrupt_on": {"pay": True}}),
    "PIIMiddleware": (["email"], {}),
    "SummarizationMiddleware": ([MODEL], {}),
    "FilesystemFileSearchMiddleware": ([], {"root_path": "."}),
    "LLMToolSelectorMiddleware": ([], {}),
    "ModelRouterMiddleware": (
        [],
        {"choices": {"a": stock.ModelChoice(MODEL, "")}, "instructions": "", "classifier": Classifier()},
    ),
    "ModelFallbackMiddleware": ([MODEL], {}),
    "ModelCallLimitMiddleware": ([], {"run_limit": 1}),
    "ToolCallLimitMiddleware": ([], {"run_limit": 1}),
    "AutoModeMiddleware": ([], {"tools": ["pay"], "classifier": Classifier()}),
    "ToolErrorMiddleware": ([lambda _error, _request: "failed"], {}),
    "ToolTimeoutMiddleware": ([], {"timeout_seconds": 1}),
    "LLMToolEmulator": ([], {"model": MODEL}),
}


def made(name: str, home: Any = ours) -> Any:
    args, kwargs = ARGUMENTS.get(name, ([], {}))
    return getattr(home if name in home.__all__ else stock, name)(*args, **kwargs)


KINDS = [kind for kind in ORDER if kind not in ("FilesystemMiddleware", "SubAgentMiddleware")]


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
@pytest.mark.parametrize("home", [stock, ours])
def test_parts_come_into_the_recommended_order(home: Any) -> None:
    parts = [made(kind, home) for kind in KINDS if kind in home.__all__ or hasattr(stock, kind)]
    expected = [kind for kind in KINDS if kind in {kind_of(part) for part in parts}]
    shuffled = random.Random(1).sample(parts, len(parts))  # noqa: S311 - an order, not a secret
    assert [kind_of(part) for part in stack(*shuffled)] == expected


def test_the_recommended_order_breaks_nothing() -> None:
    for rule in RULES:
        assert ORDER.index(rule.first) < ORDER.index(rule.then)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.first}-{rule.then}")
def test_an_order_that_breaks_a_guarantee_is_refused(rule: Any) -> None:
    parts = made(rule.then), made(rule.first)
    with pytest.raises(InvalidInput, match=f"stack: {rule.first} must come before {rule.then}: "):
        stack(*parts, keep_order=True)
    assert stack(*reversed(parts), keep_order=True) == [*reversed(parts)]
    assert stack(*parts) == [*reversed(parts)]


def test_parts_of_one_kind_stay_as_they_are() -> None:
    first, second = (
        made("ToolCallLimitMiddleware"),
        ours.ToolCallLimitMiddleware(tool_name="pay", run_limit=1),
    )
    assert stack(second, made("HumanInTheLoopMiddleware"), first)[1:] == [second, first]


def test_two_of_one_name_are_told() -> None:
    twice = ours.ModelCallLimitMiddleware(run_limit=1), ours.ModelCallLimitMiddleware(thread_limit=9)
    with pytest.raises(InvalidInput, match="two parts are named ModelCallLimitMiddleware: give each a name="):
        stack(*twice)


class Own(ours.AgentMiddleware[Any, Any, Any]):
    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)


class Plain(ours.AgentMiddleware[Any, Any, Any]):
    async def abefore_model(self, state: Any, runtime: Any) -> None: ...


class Subclass(ours.TodoListMiddleware): ...


def test_an_own_one_stays_behind_the_part_before_it() -> None:
    gate, todo, retry, own = made(KINDS[0]), Subclass(), stock.ToolRetryMiddleware(), Own()
    assert stack(retry, own, todo, gate) == [gate, todo, retry, own]
    assert stack(Plain(), gate)[1] is gate


def test_nothing_with_effects_comes_before_the_gate() -> None:
    with pytest.raises(InvalidInput, match="Own must come after HumanInTheLoopMiddleware: what"):
        stack(Own(), made("HumanInTheLoopMiddleware"))


def test_the_ledger_is_next_to_the_tools() -> None:
    with pytest.raises(InvalidInput, match="Own must come before ToolLedgerMiddleware"):
        stack(made("ToolLedgerMiddleware"), Own(), keep_order=True)


def test_all_that_is_wrong_is_said() -> None:
    found = problems(
        [made("ToolErrorMiddleware"), stock.ToolRetryMiddleware(), made("HumanInTheLoopMiddleware")]
    )
    assert len(found) == 2


async def test_the_recommended_order_in_one_agent() -> None:
    """A pause, a try that fails, a model that is dead, a refusal, masking and limits, all in one run."""
    tries: list[str] = []

    @tool
    @ours.idempotent
    async def pay(to: str) -> str:
        """Pay someone."""
        tries.append(to)
        if len(tries) == 1:
            raise ConnectionError("no line")
        return f"paid {to}"

    calls = [Call("pay", {"to": "ann"})]
    answers = ScriptedModel(script=[Step(calls=calls), lambda m: " | ".join(one.text for one in m)])
    parts = [
        ours.ToolLedgerMiddleware(),
        ours.ToolCallLimitMiddleware(tool_name="pay", run_limit=2),
        ours.ModelCallLimitMiddleware(run_limit=9),
        ours.ToolErrorMiddleware(lambda error, _: None if isinstance(error, ConnectionError) else "failed"),
        ours.ModelRefusalMiddleware(),
        ours.ModelFallbackMiddleware(answers),
        ours.ModelRetryMiddleware(max_retries=1, initial_delay=0, on_failure="error"),
        ours.ToolRetryMiddleware(max_retries=2, initial_delay=0),
        ours.PIIMiddleware("email"),
        ours.HumanInTheLoopMiddleware(interrupt_on={"pay": True}),
    ]
    dead = ScriptedModel(script=[Step(error=ConnectionError("dead"))] * 2)
    agent = create_agent(dead, tools=[pay], middleware=stack(*parts), checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    given: Any = {"messages": [{"role": "user", "content": "pay ann@example.org"}]}
    with ours.run_context(ours.RunContext(run_id="r", shared=ours.InMemorySharedState())):
        out = await agent.ainvoke(given, config, durability="sync")
        assert "__interrupt__" in out
        assert tries == []
        out = await agent.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
    assert out["messages"][-1].text == "pay [REDACTED_EMAIL] |  | paid ann"
    assert tries == ["ann", "ann"]
