"""PIIMiddleware in one process: what is masked where, and what it says of what it blocks."""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    LLMToolSelectorMiddleware,
    SummarizationMiddleware,
)
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.types import Command
from pii_agent import MAIL, OTHER, Driver, World

from placet.execution.tool_guard import guard_tools
from placet.middleware import PIIDetectionError, PIIMiddleware, get_retryable
from placet.middleware.pii.masked_messages import masked_message, masked_result
from placet.middleware.testing import Call, ScriptedModel, Step


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACET_ENCRYPTION_KEY", "k" * 32)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(params=[True, False], ids=["guard", "by hand"])
def guarded(request: pytest.FixtureRequest) -> bool:
    """Whether its tools are guarded as by a worker, or by the middleware alone."""
    guard_tools()
    return bool(request.param)


def test_a_strategy_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="strategy: must be block"):
        PIIMiddleware("email", strategy="hide")  # type: ignore[arg-type]


async def test_an_answer_and_a_tools_result_are_masked_before_they_are_written(
    world: World, guarded: bool
) -> None:
    rules = PIIMiddleware("email", apply_to_output=True, apply_to_tool_results=True)
    driver = Driver(
        world,
        guarded=guarded,
        middleware=[rules],
        script=[Step(f"I write to {OTHER}", calls=[Call("send", {"to": "him"})]), OTHER],
    )
    world.answers = f"found {MAIL}"
    messages = await driver.go({"messages": [HumanMessage(f"I am {MAIL}")]})
    assert [message.text for message in messages] == [
        "I am [REDACTED_EMAIL]",
        "I write to [REDACTED_EMAIL]",
        "found [REDACTED_EMAIL]",
        "[REDACTED_EMAIL]",
    ]
    assert OTHER not in driver.written
    assert f"found {MAIL}" not in driver.written


async def test_every_message_of_the_user_is_masked_and_each_once() -> None:
    rule = PIIMiddleware("pin", detector=r"\d{4}", strategy="mask")
    agent: Any = create_agent(ScriptedModel(script=["ok"]), middleware=[rule])
    given = [
        HumanMessage("pin 12345678"),
        AIMessage("ok"),
        HumanMessage([{"type": "text", "text": "or 4711"}]),
    ]
    out = await agent.ainvoke({"messages": given})
    again = await agent.ainvoke({"messages": [*out["messages"], HumanMessage("done")]})
    assert [message.content for message in again["messages"]][:4:2] == [
        "pin ********",
        [{"type": "text", "text": "or ****"}],
    ]


async def test_a_summariser_and_a_selector_see_masked_text() -> None:
    seen: list[str] = []

    def recorded(answer: str) -> Any:
        def step(messages: Any) -> str:
            seen.append(repr(messages))
            return answer

        return step

    @tool
    def look(what: str) -> str:
        """Look at something."""
        return what

    agent: Any = create_agent(
        ScriptedModel(script=[recorded("ok")]),
        [look],
        middleware=[
            PIIMiddleware("email", apply_to_output=True),
            SummarizationMiddleware(
                ScriptedModel(script=[recorded("summary")]), trigger=("messages", 3), keep=("messages", 1)
            ),
            LLMToolSelectorMiddleware(model=Selecting(script=[recorded("")])),
        ],
    )
    await agent.ainvoke({"messages": [HumanMessage(MAIL), AIMessage("yes?"), HumanMessage(f"{OTHER}?")]})
    assert len(seen) == 3
    assert [text for text in seen if MAIL in text or OTHER in text] == []


class Selecting(ScriptedModel):
    """Answers with the tools that it selects."""

    def with_structured_output(self, *_: Any, **__: Any) -> Any:
        return self | (lambda _: {"tools": ["look"]})


@pytest.mark.parametrize("where", ["input", "output", "tool_results", "tool_args"])
async def test_block_names_the_type_and_never_the_match(world: World, guarded: bool, where: str) -> None:
    chosen: Any = {
        f"apply_to_{name}": name == where for name in ("input", "output", "tool_results", "tool_args")
    }
    rule = PIIMiddleware("email", strategy="block", **chosen)
    step = Step(OTHER if where == "output" else "", calls=[Call("send", {"to": MAIL})])
    driver = Driver(world, guarded=guarded, middleware=[rule], script=[step, "end"])
    with pytest.raises(PIIDetectionError, match="email") as raised:
        await driver.go({"messages": [HumanMessage(MAIL if where == "input" else "hello")]})
    error = raised.value
    assert error.matches[0]["value"] == ""
    assert get_retryable(error) is False
    copied = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert (copied.pii_type, copied.matches, str(copied)) == ("email", error.matches, str(error))
    assert len(world.given) == (where == "tool_results")
    if where == "tool_results":
        assert f"sent to {MAIL}" not in driver.written
    elif where != "input":
        assert MAIL not in driver.written
    assert MAIL not in repr(error)
    assert OTHER not in repr(error)


def test_hashes_agree_over_processes_and_are_not_found_by_hashing(monkeypatch: pytest.MonkeyPatch) -> None:
    def hashed() -> str:
        rule = PIIMiddleware("email", strategy="hash")
        out = rule.before_model({"messages": [HumanMessage(MAIL)]}, None)  # type: ignore[arg-type]
        assert out is not None
        return str(out["messages"][0].content)

    plain = hashlib.sha256(MAIL.encode()).hexdigest()[:8]
    assert hashed() == "<email_hash:652c1aae>" != f"<email_hash:{plain}>"
    monkeypatch.setenv("PLACET_ENCRYPTION_KEY", "x" * 32)
    assert hashed() not in ("<email_hash:652c1aae>", f"<email_hash:{plain}>")


def test_what_a_provider_has_signed_stays_as_it_is() -> None:
    block = {"type": "thinking", "thinking": f"about {MAIL}", "signature": "s"}
    made = PIIMiddleware("email", apply_to_output=True).masked_input(AIMessage([block]))
    assert made.content == [block]


def test_a_retrievers_documents_are_masked_in_its_tools_artifact() -> None:
    found = [Document("nothing", id="1"), Document(f"by {MAIL}", metadata={"from": MAIL}, id="2")]
    message = ToolMessage("2 found", tool_call_id="1", artifact=found)
    made = masked_result(message, PIIMiddleware("email").rule).artifact
    assert made[0] is found[0]
    assert (made[1].page_content, made[1].metadata["from"]) == ("by [REDACTED_EMAIL]", "[REDACTED_EMAIL]")
    assert (made[1].id, found[1].page_content) == ("2", f"by {MAIL}")


def test_a_reasonings_summary_is_masked() -> None:
    block = {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": f"ask {MAIL}"}]}
    rule = PIIMiddleware("email").rule
    made = masked_message(AIMessage([block]), rule, rule.hide)
    assert made.content == [
        {
            "type": "reasoning",
            "id": "r",
            "summary": [{"type": "summary_text", "text": "ask [REDACTED_EMAIL]"}],
        }
    ]


def test_a_tools_artifact_and_its_update_of_the_state_are_masked() -> None:
    from placet.middleware.pii.masked_messages import masked_result  # noqa: PLC0415

    rule = PIIMiddleware("email", apply_to_tool_results=True).rule
    message = ToolMessage("ok", tool_call_id="1", artifact={"rows": [MAIL]})
    made = masked_result(Command(update={"messages": [message], "seen": [MAIL]}, goto="x"), rule)
    assert made.update["seen"] == ["[REDACTED_EMAIL]"]
    assert made.update["messages"][0].artifact == {"rows": ["[REDACTED_EMAIL]"]}
    assert made.goto == "x"
