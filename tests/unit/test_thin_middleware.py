"""What ours add to LangChain's summarization, model router, emulator, file search and auto mode."""

# ruff: noqa: ARG002 - LangGraph knows a hook's parameters by their names
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.decisions import BaseDecisionModel, ChoiceAnswer, ClassifierResponse, NoulAnswer
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from pydantic import Field

from placet.errors import LeaseLost
from placet.middleware import (
    AutoModeMiddleware,
    FilesystemFileSearchMiddleware,
    InMemorySharedState,
    LLMToolEmulator,
    ModelChoice,
    ModelRouterMiddleware,
    RunContext,
    SummarizationMiddleware,
    ToolErrorMiddleware,
    run_context,
)
from placet.middleware.testing import Call, ScriptedModel, Step

if TYPE_CHECKING:
    from pathlib import Path

GO: Any = {"messages": [{"role": "user", "content": "go"}]}
MODEL = ScriptedModel(script=["done"])


class Classifier(BaseDecisionModel):
    """Gives a risk, the next one each time, or always one route."""

    model: str = "scripted"
    risks: list[float] = Field(default_factory=list)

    @property
    def _provider(self) -> str:
        return "scripted"

    def _classify(self, state: Any, questions: Any) -> ClassifierResponse:
        (name,) = questions
        answer = (
            NoulAnswer(type="noul", noul=self.risks.pop(0))
            if name == "is_risky"
            else ChoiceAnswer(type="choice", choice="fast", probabilities={"fast": 1.0}, confidence=1.0)
        )
        return ClassifierResponse(model=self.model, answers={name: answer})


@pytest.mark.parametrize("keep", [("messages", 7), {"messages": 7}])
def test_keep_is_a_pair_or_a_mapping(keep: Any) -> None:
    assert SummarizationMiddleware(MODEL, keep=keep).keep == ("messages", 7)


@pytest.mark.parametrize("keep", [{}, {"messages": 1, "tokens": 2}, {"turns": 3}])
def test_keep_names_one_size(keep: Any) -> None:
    with pytest.raises(ValueError, match="keep"):
        SummarizationMiddleware(MODEL, keep=keep)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="no option is called summary_prefx"):
        SummarizationMiddleware(MODEL, summary_prefx="So far:")
    with pytest.warns(DeprecationWarning, match="messages_to_keep"):
        assert SummarizationMiddleware(MODEL, messages_to_keep=3).keep == ("messages", 3)


@pytest.mark.parametrize(("prefix", "text"), [("So far:", "So far:\n\nthey met"), ("", "they met")])
async def test_a_prefix_stands_before_the_summary(prefix: str, text: str) -> None:
    middleware = SummarizationMiddleware(
        MODEL,
        trigger=("messages", 3),
        keep={"messages": 1},
        summarizer=lambda _: "they met",
        summary_prefix=prefix,
    )
    given: Any = {"messages": [{"role": "user", "content": str(n)} for n in range(3)]}
    out = await create_agent(MODEL, middleware=[middleware]).ainvoke(given)
    assert [message.text for message in out["messages"]] == [text, "2", "done"]


def router(*routes: str) -> ModelRouterMiddleware:
    choices = {name: ModelChoice(model=ScriptedModel(script=[name]), criteria=name) for name in routes}
    return ModelRouterMiddleware(choices=choices, instructions="Choose.", classifier=Classifier())


async def test_a_route_that_is_gone_is_an_error() -> None:
    middleware: Any = [router("slow")]
    with pytest.raises(ValueError, match=r"choices: this run was routed to 'fast'; there are \['slow'\]"):
        await create_agent(MODEL, middleware=middleware).ainvoke(GO)


async def test_a_verdict_that_langchain_stored_is_read() -> None:
    class Earlier(ModelRouterMiddleware):
        async def abefore_agent(self, state: Any, runtime: Any) -> Any:
            answer = ChoiceAnswer(type="choice", choice="fast", probabilities={"fast": 1.0}, confidence=1.0)
            return {"model_route": answer}

    choices = {"fast": ModelChoice(model=ScriptedModel(script=["fast"]), criteria="")}
    middleware: Any = [Earlier(choices=choices, instructions="", classifier=Classifier())]
    out = await create_agent(MODEL, middleware=middleware).ainvoke(GO)
    assert out["messages"][-1].text == "fast"


async def test_an_emulator_outside_of_an_agent_wants_a_model() -> None:
    class Request:
        tool_call: Any = {"name": "look", "args": {}, "id": "1"}  # noqa: RUF012 - never changed
        tool = None

        class runtime:  # noqa: N801 - as LangGraph's
            config: Any = {"configurable": {}}  # noqa: RUF012 - never changed

    with pytest.raises(ValueError, match="model: the agent's was not found; give one"):
        LLMToolEmulator().wrap_tool_call(Request(), lambda _: None)  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("sync", [False, True])
async def test_an_emulator_asks_the_agents_model_sync_and_async(sync: bool) -> None:
    def answer(messages: Any) -> Step | str:
        return "invented" if messages[0].text.startswith("You are emulating") else Step(calls=[Call("look")])

    @tool
    def look() -> str:
        """Look."""
        raise AssertionError

    model = ScriptedModel(script=[answer, lambda messages: messages[-1].text])
    agent = create_agent(model, tools=[look], middleware=[LLMToolEmulator()])
    out = agent.invoke(GO) if sync else await agent.ainvoke(GO)
    assert out["messages"][-1].text == "invented"


@pytest.mark.parametrize(
    ("name", "args"), [("glob_search", {"pattern": "*"}), ("grep_search", {"pattern": "x"})]
)
def test_a_search_without_its_directory_says_so(name: str, args: dict[str, str], tmp_path: Path) -> None:
    search = FilesystemFileSearchMiddleware(root_path=str(tmp_path / "none"))
    (found,) = [one for one in search.tools if one.name == name]
    assert f"has no directory {tmp_path / 'none'}" in found.invoke({"pattern": "x"})
    (tmp_path / "none").mkdir()
    assert found.invoke({"pattern": "x"}).startswith("No ")


@tool
async def paint(thing: str) -> str:
    """Paint a thing in the colour that a person says."""
    return f"painted {thing} {interrupt('Which colour?')}"


@pytest.mark.parametrize("risks", [[0.1, 0.9], [0.9]])
async def test_a_call_is_judged_once(risks: list[float]) -> None:
    """LangChain's judges it again after the pause, and may block what a person answered."""
    shared, saver = InMemorySharedState(), InMemorySaver()
    classifier = Classifier(risks=list(risks))

    async def go(given: Any) -> Any:
        model = ScriptedModel(script=[Step(calls=[Call("paint", {"thing": "door"})]), "done"])
        middleware: Any = [AutoModeMiddleware(tools=["paint"], classifier=classifier)]
        agent = create_agent(model, tools=[paint], middleware=middleware, checkpointer=saver)
        with run_context(RunContext(run_id="r", shared=shared)):
            return await agent.ainvoke(given, {"configurable": {"thread_id": "t"}}, durability="sync")

    out = await go(GO)
    if risks[0] > 0.5:
        assert "was blocked" in out["messages"][-2].text
        return
    assert "__interrupt__" in out
    out = await go(Command(resume="red"))
    assert out["messages"][-2].text == "painted door red"
    assert classifier.risks == [0.9]


async def test_a_lease_that_is_lost_passes_all_middleware() -> None:
    class Lost(InMemorySharedState):
        async def verdict(self, run_id: str, name: str) -> str | None:
            raise LeaseLost("t")

    middleware: Any = [
        ToolErrorMiddleware(lambda *_: "swallowed"),
        AutoModeMiddleware(tools=["paint"], classifier=Classifier()),
    ]
    model = ScriptedModel(script=[Step(calls=[Call("paint", {"thing": "door"})])])
    agent = create_agent(model, tools=[paint], middleware=middleware)
    with run_context(RunContext(run_id="r", shared=Lost())), pytest.raises(LeaseLost):
        await agent.ainvoke(GO)
