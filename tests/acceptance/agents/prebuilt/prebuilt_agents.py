"""Agents that pause at pay(to="ann", amount=10), or a question, with one of LangChain's middleware each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acceptance_effects import logged
from langchain.agents import create_agent
from langchain.agents.middleware import ModelFallbackMiddleware
from langchain_core.decisions import BaseDecisionModel, ChoiceAnswer, ClassifierResponse, NoulAnswer
from langchain_core.messages import AIMessage, BaseMessage
from tool_agents import calling, explode, gate, look_up, paint, pay, report

from placet.middleware import (
    AgentMiddleware,
    AutoModeMiddleware,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    FilesystemFileSearchMiddleware,
    LLMToolEmulator,
    LLMToolSelectorMiddleware,
    ModelChoice,
    ModelRefusalMiddleware,
    ModelRouterMiddleware,
    ShellToolMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolErrorMiddleware,
)
from placet.middleware.testing import Call, ScriptedModel, Step

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER = Path(os.environ.get("PLACET_TEST_LOG", "/nowhere/effects.log")).parent
_pay = Call("pay", {"to": "ann", "amount": 10})
_look = Step("looking", calls=[Call("look_up", {"key": "a"})])
_paying = Step("paying", calls=[_pay])


def texts(messages: Sequence[BaseMessage]) -> str:
    """Say all that the model was given."""
    return " | ".join(message.text for message in messages)


def _summary(messages: Sequence[BaseMessage]) -> str:
    with logged("summary", messages=len(messages)):
        return "they greeted each other"


summarized = create_agent(
    ScriptedModel(script=[_paying, texts]),
    tools=[pay],
    middleware=[
        SummarizationMiddleware(
            ScriptedModel(script=[]),
            trigger=("messages", 6),
            keep={"messages": 1},
            summarizer=_summary,
            summary_prefix="Before:",
        ),
        gate("pay"),
    ],
)
edited = create_agent(
    ScriptedModel(script=[_look, _paying, texts]),
    tools=[pay, look_up],
    middleware=[ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=1, keep=1)]), gate("pay")],
)
_todo = [{"content": "pay ann", "status": "in_progress"}]
_planning: list[AgentMiddleware[Any, Any, Any]] = [TodoListMiddleware(), gate("pay")]
planned = create_agent(
    ScriptedModel(script=[Step(calls=[Call("write_todos", {"todos": _todo})]), _paying, report]),
    tools=[pay],
    middleware=_planning,
)


class Noting(ScriptedModel):
    """Notes which tools it is given."""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> ScriptedModel:
        with logged("bound", tools=sorted(tool.name for tool in tools)):
            return super().bind_tools(tools, **kwargs)


_choose = Step(calls=[Call("ToolSelectionResponse", {"tools": ["pay"]})])
selected = create_agent(
    Noting(script=[_paying, report]),
    tools=[pay, look_up, paint],
    middleware=[LLMToolSelectorMiddleware(model=ScriptedModel(script=[_choose]), max_tools=1), gate("pay")],
)


def _first(messages: Sequence[BaseMessage]) -> Step | str:
    return "invented: paid" if messages[0].text.startswith("You are emulating") else _paying


emulated = create_agent(
    ScriptedModel(script=[_first, report]),
    tools=[pay],
    middleware=[gate("pay"), LLMToolEmulator(tools=["pay"])],
)
failed = create_agent(
    calling(Call("explode")),
    tools=[explode],
    middleware=[gate("explode"), ToolErrorMiddleware(lambda error, _: f"it failed: {error}")],
)


class Refusing(ScriptedModel):
    """Pays, then refuses to go on."""

    async def _aanswer(self, messages: list[BaseMessage]) -> AIMessage:
        message = await super()._aanswer(messages)
        if message.text == "no":
            return AIMessage(content_blocks=[{"type": "refusal", "refusal": "no"}])
        return message


refused = create_agent(
    Refusing(script=[_paying, "no"], disable_streaming=True),
    tools=[pay],
    middleware=[
        gate("pay"),
        ModelFallbackMiddleware(ScriptedModel(script=["", "the fallback answers"])),
        ModelRefusalMiddleware(),
    ],
)
files = create_agent(
    ScriptedModel(
        script=[
            Step(calls=[Call("glob_search", {"pattern": "*.txt"})]),
            Step(calls=[_pay, Call("glob_search", {"pattern": "*.txt"})]),
            lambda messages: " | ".join(m.text for m in messages if getattr(m, "name", "") == "glob_search"),
        ]
    ),
    tools=[pay],
    middleware=[FilesystemFileSearchMiddleware(root_path=str(FOLDER / "searched")), gate("pay")],
)
_shell: list[AgentMiddleware[Any, Any, Any]] = [ShellToolMiddleware(FOLDER), gate("pay")]
shell = create_agent(
    ScriptedModel(
        script=[
            Step(calls=[Call("shell", {"command": "mkdir -p deep && cd deep && export COLOUR='dark red'"})]),
            Step(calls=[_pay]),
            Step(calls=[Call("shell", {"command": 'pwd; echo "$COLOUR"'})]),
            Step(calls=[Call("shell", {"command": 'pwd; echo "$COLOUR"'})]),
            lambda messages: " | ".join(m.text for m in messages if getattr(m, "name", "") == "shell"),
        ]
    ),
    tools=[pay],
    middleware=_shell,
)


class Choosing(BaseDecisionModel):
    """Chooses `powerful`, and finds every call risky but the first; notes that it was asked."""

    model: str = "choosing"

    @property
    def _provider(self) -> str:
        return "scripted"

    def _classify(self, state: Any, questions: Any) -> ClassifierResponse:  # noqa: ARG002 - the interface's
        name = next(iter(questions))
        with logged(name):
            earlier = Path(os.environ["PLACET_TEST_LOG"]).read_text().count(" end is_risky ")
        route = ChoiceAnswer(
            type="choice", choice="powerful", probabilities={"powerful": 1.0}, confidence=1.0
        )
        risk = NoulAnswer(type="noul", noul=0.9 if earlier else 0.1)
        answer = route if name == "model_route" else risk
        return ClassifierResponse(model=self.model, answers={name: answer})


_models = {
    "fast": ModelChoice(model=ScriptedModel(script=["fast"]), criteria="simple"),
    "powerful": ModelChoice(model=ScriptedModel(script=[_paying, "powerful"]), criteria="difficult"),
}
_router: list[AgentMiddleware[Any, Any, Any]] = [
    ModelRouterMiddleware(choices=_models, instructions="Choose.", classifier=Choosing()),
    gate("pay"),
]
routed = create_agent(ScriptedModel(script=[]), tools=[pay], middleware=_router)
auto_mode = create_agent(
    calling(Call("paint", {"thing": "door"})),
    tools=[paint],
    middleware=[AutoModeMiddleware(tools=["paint"], classifier=Choosing())],
)
