"""PIIMiddleware and tool calls: what a person, the state, the tools and errors have of the arguments."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    ToolRetryMiddleware,
)
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import NodeCancelledError
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from placet.errors import ChangedArguments, InvalidSettings, Unsealable
from placet.execution.tool_guard import guard_tools
from placet.middleware import (
    HumanInTheLoopMiddleware,
    InMemorySharedState,
    PIIMiddleware,
    RunContext,
    run_context,
    side_effect,
)
from placet.middleware.pii.sealed_calls import raw_args, restored
from placet.middleware.testing import Call, ScriptedModel, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

from pii_agent import CARD, HELLO, MAIL, OTHER, Driver, World, gate, sealing, sends


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACET_ENCRYPTION_KEY", "k" * 32)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(params=["guard", "by hand"])
def drive(request: pytest.FixtureRequest, world: World) -> Callable[..., Driver]:
    """Makes a driver of an agent: its tools guarded as by a worker, or by the middleware alone."""
    if request.param == "guard":
        guard_tools()

    def made(*middleware: Any, script: Sequence[Any]) -> Driver:
        return Driver(world, guarded=request.param == "guard", middleware=middleware, script=script)

    return made


def test_arguments_are_not_sealed_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACET_ENCRYPTION_KEY", "")
    with pytest.raises(InvalidSettings, match="PLACET_ENCRYPTION_KEY: must be set"):
        sealing()
    monkeypatch.setenv("PLACET_ENCRYPTION_KEY", "short")
    with pytest.raises(InvalidSettings, match="16, 24 or 32 bytes"):
        sealing()


@pytest.mark.parametrize("strategy", ["redact", "mask", "hash"])
async def test_a_person_sees_the_masked_arguments_and_the_tool_gets_the_raw_ones(
    drive: Any, world: World, strategy: Any
) -> None:
    driver = drive(gate(), sealing(strategy=strategy), script=sends(MAIL))
    await driver.go(HELLO)
    (shown,) = driver.asked["action_requests"]
    assert MAIL not in repr(driver.asked)
    assert shown["args"]["to"] not in ("", MAIL)
    messages = await driver.decide({"type": "approve"})
    assert world.given == [{"to": MAIL, "text": ""}]
    assert messages[-2].content == f"sent to {shown['args']['to']}"
    assert MAIL not in driver.written


async def test_a_gate_for_each_call_asks_with_the_masked_arguments_too(drive: Any, world: World) -> None:
    each = HumanInTheLoopMiddleware({"send": True}, interrupt_mode="per_call")
    driver = drive(each, sealing(), script=sends(MAIL))
    await driver.go(HELLO)
    assert (driver.asked["type"], driver.asked["args"]) == ("tool_approval", {"to": "[REDACTED_EMAIL]"})
    args = {"to": "[REDACTED_EMAIL]", "text": "hello"}
    edit = {"type": "edit", "edited_action": {"name": "send", "args": args}}
    await driver.go(Command(resume=edit))
    assert world.given == [{"to": MAIL, "text": "hello"}]
    assert MAIL not in driver.written


def test_without_workers_and_without_an_event_loop_it_does_the_same() -> None:
    given: list[str] = []

    @tool
    def post(to: str) -> str:
        """Post a letter."""
        given.append(to)
        return f"posted to {to} and {OTHER}"

    agent: Any = create_agent(
        ScriptedModel(script=[Step(f"to {MAIL}", calls=[Call("post", {"to": MAIL})]), "end"]),
        [post],
        middleware=[sealing(apply_to_output=True, apply_to_tool_results=True)],
    )
    out = agent.invoke(HELLO)
    assert given == [MAIL]
    assert out["messages"][2].content == "posted to [REDACTED_EMAIL] and [REDACTED_EMAIL]"
    assert MAIL not in repr(out)


async def test_an_untouched_placeholder_in_an_edit_is_restored(drive: Any, world: World) -> None:
    driver = drive(gate(), sealing(), script=sends([MAIL, OTHER, MAIL], text=f"cc {OTHER}"))
    await driver.go(HELLO)
    (shown,) = driver.asked["action_requests"]
    first, second = "[REDACTED_EMAIL]", "[REDACTED_EMAIL_2]"
    assert shown["args"] == {"to": [first, second, first], "text": f"cc {second}"}
    args = {"to": [second, "new@example.net"], "text": f"for {first}; was {second}"}
    await driver.decide({"type": "edit", "edited_action": {"name": "send", "args": args}})
    assert world.given == [{"to": [OTHER, "new@example.net"], "text": f"for {MAIL}; was {OTHER}"}]


async def test_when_is_asked_about_the_raw_arguments(drive: Any, world: World) -> None:
    rule = gate(when=lambda request: not request.tool_call["args"]["to"].endswith(".org"))
    driver = drive(rule, sealing(), script=sends(MAIL, OTHER))
    await driver.go(HELLO)
    assert [one["args"]["to"] for one in driver.asked["action_requests"]] == ["[REDACTED_EMAIL]"]
    await driver.decide({"type": "approve"})
    assert sorted(one["to"] for one in world.given) == [MAIL, OTHER]


async def test_who_finds_out_about_a_lost_call_gets_the_raw_arguments_and_a_person_the_masked_ones() -> None:
    guard_tools()
    looked: list[Any] = []
    run = RunContext(run_id="r", shared=InMemorySharedState(), guarded=True)

    @side_effect(verify=lambda call: looked.append(dict(call.args)))
    @tool
    async def post(to: str) -> str:
        """Post a letter."""
        raise asyncio.CancelledError  # as if its worker died

    agent: Any = create_agent(
        ScriptedModel(script=[Step(calls=[Call("post", {"to": MAIL})])]),
        [post],
        middleware=[sealing()],
        checkpointer=InMemorySaver(),
    )
    config = {"configurable": {"thread_id": "t"}}
    with run_context(run), suppress(asyncio.CancelledError, NodeCancelledError):
        await agent.ainvoke(HELLO, config, durability="sync")
    with run_context(RunContext(run_id="r", shared=run.shared, guarded=True)):
        out = await agent.ainvoke(None, config, version="v2", durability="sync")
    assert looked == [{"to": MAIL}]
    assert out.interrupts[0].value["args"] == {"to": "[REDACTED_EMAIL]"}


async def test_a_subagents_calls_are_masked_by_its_own_rules(world: World) -> None:
    guard_tools()
    inner = Driver(world, guarded=True, middleware=[sealing()], script=sends(MAIL))

    @tool
    async def delegate(task: str) -> str:
        """Have it done."""
        out = await inner.agent.ainvoke({"messages": [HumanMessage(task)]})
        world.given.append(task)
        return str(out["messages"])

    outer: Any = create_agent(
        ScriptedModel(script=[Step(calls=[Call("delegate", {"task": f"write to {OTHER}"})]), "end"]),
        [delegate],
        middleware=[sealing()],
    )
    with run_context(RunContext(run_id="r", shared=InMemorySharedState(), guarded=True)):
        out = await outer.ainvoke(HELLO)
    assert world.given == [{"to": MAIL, "text": ""}, f"write to {OTHER}"]
    assert OTHER not in repr(out)
    assert MAIL not in repr(out)


async def test_the_raw_arguments_are_put_back_outside_a_ledger_too(world: World) -> None:
    driver = Driver(
        world, guarded=False, middleware=[gate(), sealing()], script=sends(MAIL), ledger_last=True
    )
    await driver.go(HELLO)
    await driver.decide({"type": "approve"})
    assert world.given == [{"to": MAIL, "text": ""}]


@pytest.mark.parametrize(
    "args",
    [
        {"to": MAIL, "text": "[REDACTED_EMAIL] and [REDACTED_EMAIL_2]"},
        {"to": {"deep": [MAIL, {MAIL: OTHER}]}},
        {"to": f"[{MAIL}]_2, [REDACTED_EMAIL] {OTHER}"},
    ],
)
async def test_a_placeholder_never_stands_for_what_the_model_wrote(
    drive: Any, world: World, args: Any
) -> None:
    driver = drive(sealing(), script=[Step(calls=[Call("send", args)]), "end"])
    await driver.go(HELLO)
    assert world.given == [{"text": "", **args}]
    assert MAIL not in driver.written


@pytest.mark.parametrize("value", [int(CARD), CARD, "4532 0151 1283 0366"])
async def test_numbers_and_masks_that_look_like_what_they_mask_come_back(
    drive: Any, world: World, value: Any
) -> None:
    digits = PIIMiddleware("digits", detector=r"\d{4}\b", strategy="mask", apply_to_tool_args=True)
    driver = drive(digits, sealing("credit_card", strategy="mask"), script=sends(value))
    await driver.go(HELLO)
    assert world.given == [{"to": value, "text": ""}]
    assert str(value) not in driver.written


async def test_what_a_tool_raises_is_masked_and_keeps_its_class(drive: Any, world: World) -> None:
    world.fails = [OSError(5, f"no route to {MAIL}"), ValueError(f"no such address: {MAIL}", MAIL)]
    retry = ToolRetryMiddleware(max_retries=1, initial_delay=0, on_failure="error", retry_on=(OSError,))
    driver = drive(retry, sealing(), script=sends(MAIL))
    with pytest.raises(ValueError, match="no such address") as raised:
        await driver.go(HELLO)
    assert MAIL not in repr(raised.value)
    assert raised.value.__cause__ is raised.value.__context__ is None
    assert len(world.given) == 2
    assert MAIL not in driver.written


async def test_arguments_that_do_not_fit_their_tool_are_not_repeated(drive: Any) -> None:
    driver = drive(sealing(), script=[Step(calls=[Call("send", {"text": {"a": MAIL}})]), "end"])
    messages = await driver.go(HELLO)
    assert messages[-2].status == "error"
    assert MAIL not in driver.written


async def test_the_sealed_arguments_do_not_open_under_another_key(
    drive: Any, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = drive(gate(), sealing(), script=sends(MAIL))
    await driver.go(HELLO)
    for other, error in (("x" * 32, Unsealable), ("", InvalidSettings)):
        monkeypatch.setenv("PLACET_ENCRYPTION_KEY", other)
        with pytest.raises(error, match="PLACET_ENCRYPTION_KEY"):
            await driver.decide({"type": "approve"})
    assert world.given == []


def test_a_call_whose_digest_stands_for_other_arguments_does_not_run() -> None:
    def masked(to: str) -> Any:
        call = {"name": "send", "args": {"to": to}, "id": "1", "type": "tool_call"}
        return sealing().masked_input(AIMessage("", tool_calls=[call]))

    message, other = masked(MAIL), masked(OTHER)
    kwargs = {**message.additional_kwargs, "placet_sealed": other.additional_kwargs["placet_sealed"]}
    forged = message.model_copy(update={"additional_kwargs": kwargs})

    def request(message: Any) -> ToolCallRequest:
        runtime: Any = SimpleNamespace(config={})
        call = message.tool_calls[0]
        return ToolCallRequest(tool_call=call, tool=None, state={"messages": [message]}, runtime=runtime)

    assert restored(request(message)).tool_call["args"] == {"to": MAIL}
    with pytest.raises(ChangedArguments, match="send"):
        restored(request(forged))


def test_what_providers_keep_of_a_call_beside_it_is_masked_too() -> None:
    text = f'{{"to": "{MAIL}", "n": 1}}'
    message = AIMessage(
        [
            {"type": "text", "text": "look"},
            {"type": "tool_use", "id": "1", "name": "send", "input": {"to": MAIL}},
            {"type": "function_call", "call_id": "1", "name": "send", "arguments": text},
        ],
        tool_calls=[{"name": "send", "args": {"to": MAIL}, "id": "1", "type": "tool_call"}],
        invalid_tool_calls=[{"name": "send", "args": f'{{"to": "{MAIL}', "id": "2", "error": None}],
        additional_kwargs={"tool_calls": [{"id": "1", "function": {"name": "send", "arguments": text}}]},
    )
    made = sealing().masked_input(message)
    assert MAIL not in repr(made)
    assert made.content[2]["arguments"] == '{"to": "[REDACTED_EMAIL]", "n": 1}'  # type: ignore[index]
    assert raw_args(made, made.tool_calls[0]["args"]) == {"to": MAIL}  # type: ignore[attr-defined]
