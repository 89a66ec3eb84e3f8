"""The order of middleware: what `stack` makes of parts, and which orders it refuses."""

from __future__ import annotations

import random
from typing import Any

import pytest
from langchain.agents import middleware as stock
from langchain_core.decisions import BaseDecisionModel, ClassifierResponse

import placet.middleware as ours
from placet.errors import InvalidInput
from placet.middleware import stack
from placet.middleware.order import ORDER, RULES, kind_of, problems
from placet.middleware.testing import ScriptedModel

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
