"""The gate on a plain LangGraph, in both modes: what is asked, what is refused, what runs."""

from __future__ import annotations

import asyncio
from itertools import cycle
from typing import TYPE_CHECKING, Any

import pytest
from driver import Driver
from gates import HELLO, LOOK, MAIL, PAY, Mode, Shop
from langchain.agents import create_agent
from langchain.agents import middleware as stock
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import is_invalid_resume
from langgraph.types import Command, Interrupt
from pydantic import BaseModel, ConfigDict, ValidationError

from placet.approvals.decisions import check_decision
from placet.approvals.interrupts import pause_of
from placet.digest import own_pause_id
from placet.errors import InvalidDecision, InvalidInput
from placet.middleware import HumanInTheLoopMiddleware, PIIMiddleware, ToolCallLimitMiddleware
from placet.middleware.calling import with_distinct_ids
from placet.middleware.gate.reviews import policy_of
from placet.middleware.shared import UNKNOWN_CALL
from placet.middleware.testing import Call, ScriptedModel, Step

if TYPE_CHECKING:
    from langgraph.prebuilt.tool_node import ToolCallRequest

BOTH = pytest.mark.parametrize("mode", ["batched", "per_call"])
APPROVE = {"type": "approve"}
REJECT = {"type": "reject", "message": "no"}


def edit(name: str, **args: Any) -> dict[str, Any]:
    return {"type": "edit", "edited_action": {"name": name, "args": args}}


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"allowed_decision": ["approve"]}, "interrupt_on['delete_db']['allowed_decision']"),
        ({"allowed_decisions": []}, "interrupt_on['delete_db']['allowed_decisions']"),
        ({"description": "x"}, "interrupt_on['delete_db']['allowed_decisions']"),
        ({"allowed_decisions": ["approve", "aprove"]}, "interrupt_on['delete_db']['allowed_decisions']"),
        ({"allowed_decisions": "approve"}, "interrupt_on['delete_db']['allowed_decisions']"),
        ({"allowed_decisions": ["approve"], "whn": bool}, "interrupt_on['delete_db']['whn']"),
        ({"allowed_decisions": ["approve"], "when": True}, "interrupt_on['delete_db']['when']"),
        ({"allowed_decisions": ["approve"], "policy": ["ops"]}, "interrupt_on['delete_db']['policy']"),
        (
            {"allowed_decisions": ["approve"], "policy": {"who": ["ops"]}},
            "interrupt_on['delete_db']['policy']",
        ),
        ({"allowed_decisions": ["approve"], "description": 1}, "interrupt_on['delete_db']['description']"),
        ("yes", "interrupt_on['delete_db']"),
    ],
)
def test_a_config_that_would_not_gate_as_it_reads_is_refused(config: Any, field: str) -> None:
    """langchain#38838: the tool and the key are named, when the gate is made."""
    with pytest.raises(InvalidInput) as refused:
        HumanInTheLoopMiddleware({"delete_db": config})
    assert refused.value.field == field
    assert isinstance(refused.value, ValueError)


@BOTH
async def test_true_false_and_a_config(mode: Mode) -> None:
    gates = {"pay": True, "mail": False, "look": {"allowed_decisions": ["approve"]}}
    shop = await Shop(PAY, MAIL, LOOK, mode=mode, gates=gates).go()
    assert sorted(shop.asked) == ["look", "pay"]
    assert {one.tool: one.allowed for one in await shop.requests()} == {
        "pay": ("approve", "edit", "reject", "respond"),
        "look": ("approve",),
    }


@BOTH
async def test_when_is_decided_once(mode: Mode) -> None:
    """Its answer changes each time it is called; rejected is rejected all the same."""
    said = cycle([True, False])
    config = {"allowed_decisions": ["approve", "reject"], "when": lambda _: next(said)}
    shop = await Shop(PAY, MAIL, mode=mode, gates={"pay": config, "mail": config}).go()
    assert shop.asked == ["pay"]
    await shop.decide(REJECT)
    assert shop.ran == [("mail", "bob")]
    assert "no" in shop.results["c-pay"]


@BOTH
@pytest.mark.parametrize("is_async", [True, False])
async def test_when_and_description_see_the_call_its_tool_and_the_answer(mode: Mode, is_async: bool) -> None:
    seen: list[Any] = []

    def judge(request: ToolCallRequest) -> bool:
        assert request.tool is not None
        seen.append((request.tool.name, request.tool_call["args"], request.state["messages"][-1].type))
        return bool(request.tool_call["args"]["amount"] > 1)

    def tell(call: Any, state: Any, runtime: Any) -> str:
        seen.append(type(runtime).__name__)
        return f"Pay {call['args']['amount']}? ({len(state['messages'])} messages)"

    async def ajudge(request: ToolCallRequest) -> bool:
        return judge(request)

    async def atell(call: Any, state: Any, runtime: Any) -> str:
        return tell(call, state, runtime)

    when, description = (ajudge, atell) if is_async else (judge, tell)
    config = {"allowed_decisions": ["approve"], "when": when, "description": description}
    large = Call("pay", {"amount": 2, "to": "ann"}, id="c-large")
    shop = await Shop(PAY, large, mode=mode, gates={"pay": config}).go()
    (request,) = await shop.requests()
    assert (request.tool_call_id, request.description) == ("c-large", "Pay 2? (2 messages)")
    await shop.decide(APPROVE)
    assert sorted(shop.ran) == [("pay", 1, "ann"), ("pay", 2, "ann")]
    assert seen == [("pay", PAY.args, "ai"), ("pay", large.args, "ai"), "Runtime"]


@BOTH
async def test_functions_that_fail_ask(mode: Mode) -> None:
    def fail(*_: Any) -> Any:
        raise KeyError("path")

    config = {"allowed_decisions": ["approve"], "when": fail, "description": fail}
    shop = await Shop(PAY, mode=mode, gates={"pay": config}, description_prefix="Please look").go()
    (request,) = await shop.requests()
    assert (request.tool, request.description) == ("pay", "Please look")


@BOTH
def test_an_async_function_is_refused_in_a_synchronous_run(mode: Mode) -> None:
    async def when(_: ToolCallRequest) -> bool:
        import asyncio  # noqa: PLC0415

        await asyncio.sleep(0)
        return False

    shop = Shop(PAY, mode=mode, gates={"pay": {"allowed_decisions": ["approve"], "when": when}})
    with pytest.raises(RuntimeError, match="use ainvoke"):
        shop.agent().invoke(HELLO, shop.config)
    assert shop.ran == []


@BOTH
async def test_a_caller_cannot_say_that_nothing_is_to_be_asked(mode: Mode) -> None:
    let = {"message_id": "", "calls": {"any": {"ask": False}}, "tools": {}}
    shop = await Shop(PAY, mode=mode).go(HELLO | {"hitl_reviews": let})
    assert shop.asked == ["pay"]
    assert "hitl_reviews" not in (await shop.agent().ainvoke(None, shop.config))


@BOTH
async def test_a_call_that_no_verdict_is_kept_of_is_asked_about(mode: Mode) -> None:
    class Cached(AgentMiddleware[Any, Any, Any]):
        """Answers in the model's place, outside of the gate."""

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            if len(request.messages) > 1:
                return await handler(request)
            call = {"name": "pay", "args": {"amount": 9}, "id": "c-cached", "type": "tool_call"}
            return AIMessage("", tool_calls=[call])

    never = {"allowed_decisions": ["reject"], "when": lambda _: False}
    shop = Shop(mode=mode, gates={"pay": never})
    shop.before = [Cached]
    await shop.go()
    assert shop.asked == ["pay"]
    await shop.decide({"type": "reject"})
    assert shop.ran == []


@pytest.mark.parametrize(
    "bad",
    [
        {"decisions": [APPROVE]},
        {"decisions": [APPROVE] * 3},
        {"decisions": [APPROVE, {"type": "respond", "message": "x"}]},
        {"decisions": [APPROVE, {"type": "maybe"}]},
        {"decisions": [edit("pay", amount="seven"), APPROVE]},
        {"decisions": [edit("pay"), APPROVE]},
        {"decisions": [edit("mail", to="eve"), APPROVE]},
        {"decisions": [{"type": "edit"}, APPROVE]},
        [APPROVE, APPROVE],
        APPROVE,
    ],
)
async def test_a_bad_batched_answer_is_refused_and_does_not_stick(bad: Any) -> None:
    """LangChain's saves it, and each later answer meets the same error."""
    gates = {"pay": {"allowed_decisions": ["approve", "edit"]}, "mail": {"allowed_decisions": ["approve"]}}
    shop = await Shop(PAY, MAIL, gates=gates).go()
    with pytest.raises(ValidationError) as refused:
        await shop.answer(bad)
    assert is_invalid_resume(refused.value)
    assert shop.ran == []
    await shop.decide(edit("pay", amount=7), APPROVE)
    assert sorted(shop.ran) == [("mail", "bob"), ("pay", 7, "nobody")]


@pytest.mark.parametrize(
    "bad", [{"type": "reject"}, edit("pay", amount="seven"), edit("pay"), edit("mail", to="eve"), "yes"]
)
async def test_a_bad_answer_to_one_call_is_refused_and_does_not_stick(bad: Any) -> None:
    gates = {"pay": {"allowed_decisions": ["approve", "edit"]}}
    shop = await Shop(PAY, mode="per_call", gates=gates).go()
    with pytest.raises(ValidationError):
        await shop.answer(bad)
    assert shop.ran == []
    await shop.answer(APPROVE)
    assert shop.ran == [("pay", 1, "ann")]


async def test_the_schema_of_a_batched_answer_has_one_item_for_each_call() -> None:
    shop = await Shop(PAY, MAIL, gates={"pay": True, "mail": {"allowed_decisions": ["reject"]}}).go()
    schema: Any = shop.interrupts[0].response_schema
    pay, mail = schema["properties"]["decisions"]["prefixItems"]
    assert [one["properties"]["type"]["const"] for one in pay["oneOf"]] == [
        "approve",
        "edit",
        "reject",
        "respond",
    ]
    assert [one["properties"]["type"]["const"] for one in mail["oneOf"]] == ["reject"]
    action = pay["oneOf"][1]["properties"]["edited_action"]["properties"]
    assert (action["name"], list(action["args"]["properties"])) == ({"const": "pay"}, ["amount", "to"])


@BOTH
async def test_an_edit_that_changes_the_tool_meets_that_tools_gate(mode: Mode) -> None:
    gates = {
        "pay": {"allowed_decisions": ["edit"], "allow_tool_change": True},
        "mail": {"allowed_decisions": ["approve", "reject"], "policy": {"reviewers": ["group:post"]}},
    }
    shop = await Shop(PAY, mode=mode, gates=gates).go()
    with pytest.raises(ValidationError):
        await shop.decide(edit("mail", address="eve"))  # not its schema
    with pytest.raises(ValidationError):
        await shop.decide(edit("burn"))
    await shop.decide(edit("mail", to="eve"))
    assert (shop.asked, shop.ran) == (["mail"], [])
    (request,) = await shop.requests()
    assert (request.args, request.allowed, request.policy) == (
        {"to": "eve"},
        ("approve", "reject"),
        {"reviewers": ["group:post"]},
    )
    assert request.tool_call_id == "c-pay"
    await shop.decide(APPROVE)
    assert shop.ran == [("mail", "eve")]
    assert "Executed instead: mail" in shop.results["c-pay"]


@BOTH
async def test_a_call_of_another_tool_that_its_gate_rejects_does_not_run(mode: Mode) -> None:
    gates = {"pay": {"allowed_decisions": ["edit"], "allow_tool_change": True}, "mail": True}
    shop = await Shop(PAY, LOOK, mode=mode, gates=gates).go()
    await shop.decide(edit("mail", to="eve"))
    await shop.decide({"type": "reject"})
    assert shop.ran == [("look",)]


@BOTH
async def test_an_edit_to_a_tool_that_is_not_gated_runs(mode: Mode) -> None:
    gates = {"pay": {"allowed_decisions": ["approve", "edit"], "allow_tool_change": True}}
    shop = await Shop(PAY, mode=mode, gates=gates).go()
    (request,) = await shop.requests()
    decision = check_decision(request, edit("look"))
    for bad in (edit("look", at="x"), edit("burn"), edit("mail"), edit("pay", to="x")):
        with pytest.raises(InvalidDecision):
            check_decision(request, bad)
    await shop.decide(decision)
    assert shop.ran == [("look",)]


def takes(extra: Any) -> Any:
    class Args(BaseModel):
        """Arguments."""

        model_config = ConfigDict(extra=extra)
        amount: int

    return Args


JSON_ARGS = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}


@BOTH
@pytest.mark.parametrize(
    ("schema", "runs"),
    [
        (takes("ignore"), {"amount": 2}),
        (takes("allow"), {"amount": 2, "note": "x"}),
        (JSON_ARGS, {"amount": 2, "note": "x"}),
        (takes("forbid"), None),
        (JSON_ARGS | {"additionalProperties": False}, None),
    ],
)
async def test_undeclared_arguments_of_an_edit(mode: Mode, schema: Any, runs: Any) -> None:
    """Dropped, kept or refused, as the tool does, before the model is told what ran."""
    got: list[Any] = []

    @tool(args_schema=schema)
    async def pay(**args: Any) -> str:
        """Pay."""
        got.append(args)
        return "paid"

    shop = Shop(PAY, mode=mode)
    shop.calls = [Call("pay", {"amount": 1}, id="c-pay")]
    shop.tools[0] = pay
    await shop.go()
    if runs is None:
        with pytest.raises(ValidationError):
            await shop.decide(edit("pay", amount=2, note="x"))
        return
    await shop.decide(edit("pay", amount=2, note="x"))
    assert got == [runs]
    assert ('"note"' in shop.results["c-pay"]) == ("note" in runs)


@BOTH
@pytest.mark.parametrize("limiter", [stock.ToolCallLimitMiddleware, ToolCallLimitMiddleware])
async def test_calls_that_a_limit_blocked_are_not_asked_about(mode: Mode, limiter: Any) -> None:
    shop = Shop(PAY, MAIL, Call("pay", {"amount": 2}, id="c-second"), mode=mode)
    shop.after = [lambda: limiter(tool_name="pay", run_limit=1)]
    await shop.go()
    assert sorted(shop.asked) == ["mail", "pay"]
    await shop.decide(APPROVE, APPROVE)
    assert sorted(shop.ran) == [("mail", "bob"), ("pay", 1, "ann")]
    assert "limit" in shop.results["c-second"].lower()


@pytest.mark.parametrize(("before", "after"), [("per_call", "batched"), ("batched", "per_call")])
async def test_a_mode_that_changed_during_the_pause_does_not_open_the_gate(before: Mode, after: Mode) -> None:
    """LangChain's runs what was rejected in a per_call pause once the gate is batched."""
    shop = await Shop(PAY, mode=before).go()
    shop.mode = after
    await shop.answer({"decisions": [REJECT]} if before == "batched" else REJECT)
    assert (shop.ran, shop.interrupts) == ([], [])
    assert "no" in shop.results["c-pay"]


@BOTH
async def test_a_gate_that_was_renamed_asks_again(mode: Mode) -> None:
    shop = await Shop(PAY, mode=mode).go()
    (pause,) = shop.interrupts
    state = await shop.agent().aget_state(shop.config)
    assert state.next == (("tools",) if mode == "per_call" else ("HumanInTheLoopMiddleware.after_model",))
    assert state.values["hitl_reviews"]["message_id"] == state.values["messages"][-1].id
    assert pause.response_schema


@BOTH
async def test_a_policy_travels_in_the_request_and_counts_in_its_digest(mode: Mode) -> None:
    digests = set()
    for policy in ({"reviewers": ["group:finance"]}, {"reviewers": ["ada"]}, None):
        config: dict[str, Any] = {"allowed_decisions": ["approve"]}
        shop = await Shop(PAY, mode=mode, gates={"pay": config | ({"policy": policy} if policy else {})}).go()
        (request,) = await shop.requests()
        assert request.policy == policy
        digests.add(request.digest)
    assert len(digests) == 3


@BOTH
async def test_two_gates_each_ask_about_theirs(mode: Mode) -> None:
    class Other(HumanInTheLoopMiddleware[Any, Any, Any]):
        """A gate with a name of its own."""

    shop = Shop(
        PAY, MAIL, mode=mode, gates={"pay": {"allowed_decisions": ["approve"], "when": lambda _: True}}
    )
    shop.after = [lambda: Other({"mail": True}, interrupt_mode=mode)]
    await shop.go()
    asked = shop.asked
    while shop.interrupts:
        await shop.decide(*[APPROVE] * len(shop.interrupts))
        asked += shop.asked
    assert sorted(asked) == ["mail", "pay"]
    assert sorted(shop.ran) == [("mail", "bob"), ("pay", 1, "ann")]


@BOTH
@pytest.mark.parametrize("notice", ["Changed by a person.", None])
async def test_the_edit_notice(mode: Mode, notice: str | None) -> None:
    shop = await Shop(PAY, mode=mode, edit_notice=notice).go()
    await shop.decide(edit("pay", amount=2, to="bob"))
    told = shop.results["c-pay"]
    assert told == "paid" if notice is None else told.startswith(f"{notice} Executed instead: pay")


@BOTH
async def test_calls_that_share_an_id_are_all_asked_about(mode: Mode) -> None:
    shop = Shop(mode=mode)
    shop.calls = [Call("pay", {"amount": 1}, id="same"), Call("pay", {"amount": 2}, id="same")]
    await shop.go()
    assert shop.asked == ["pay", "pay"]
    assert shop.ran == []


@BOTH
async def test_a_call_whose_id_was_used_before_is_asked_about(mode: Mode) -> None:
    """Providers use their ids again: an earlier call's result is not this one's, nor its approval."""
    shop = Shop(PAY, mode=mode)
    shop.turns = 2
    await shop.go()
    first = shop.interrupts[0].id
    await shop.decide(APPROVE)
    assert (shop.asked, shop.ran) == (["pay"], [("pay", 1, "ann")])
    assert shop.interrupts[0].id != first
    await shop.decide(REJECT)
    assert shop.ran == [("pay", 1, "ann")]


@BOTH
async def test_a_resume_that_names_its_checkpoint_calls_the_model_once(mode: Mode) -> None:
    """langgraph#7361."""
    shop = await Shop(PAY, mode=mode).go()
    state = await shop.agent().aget_state(shop.config)
    shop.config = state.config | {}
    await shop.decide(APPROVE)
    assert shop.ran == [("pay", 1, "ann")]
    assert [message.type for message in shop.messages] == ["human", "ai", "tool", "ai"]


@BOTH
async def test_a_run_that_paused_under_langchains_gate_goes_on_under_ours(mode: Mode) -> None:
    """Changing the import is all: what waits is answered, and one's edit is kept."""
    shop = Shop(PAY, MAIL, mode=mode)
    shop.gate = stock.HumanInTheLoopMiddleware
    await shop.go()
    shop.gate = HumanInTheLoopMiddleware
    await shop.decide(edit("pay", amount=3, to="eve"), REJECT)
    assert (shop.ran, shop.interrupts) == ([("pay", 3, "eve")], [])


@BOTH
@pytest.mark.parametrize("shared", ["c-1", ""])
async def test_calls_that_share_an_id_are_decided_apart(mode: Mode, shared: str) -> None:
    """Of any calls each runs as it was decided, whatever ids the model gave them."""
    calls = (
        Call("pay", {"amount": 1, "to": "ann"}, id=shared),
        Call("pay", {"amount": 2, "to": "ann"}, id=shared),
        Call("mail", {"to": "bob"}, id=shared),
        Call("pay", {"amount": 1, "to": "ann"}, id=shared),
        Call("look", {}, id=shared),
    )
    shop = await Shop(*calls, mode=mode).go()
    assert sorted(shop.asked) == ["mail", "pay", "pay", "pay"]
    requests = await shop.requests()
    assert len({request.tool_call_id for request in requests}) == 4
    given = {"pay1": [APPROVE, edit("pay", amount=7, to="ann")], "pay2": [REJECT], "mail": [APPROVE]}
    decisions = []
    for request in requests:
        name = f"pay{request.args['amount']}" if request.tool == "pay" else "mail"
        decisions.append(given[name].pop(0))
    await shop.decide(*decisions)
    assert not shop.interrupts
    assert sorted(shop.ran) == [("look",), ("mail", "bob"), ("pay", 1, "ann"), ("pay", 7, "ann")]
    (answer,) = [one for one in shop.messages if isinstance(one, AIMessage) and one.tool_calls]
    results = [one.tool_call_id for one in shop.messages if isinstance(one, ToolMessage)]
    assert sorted(results) == sorted(str(call["id"]) for call in answer.tool_calls)
    assert len(set(results)) == 5


async def test_what_became_of_a_call_is_asked_of_those_its_gate_names() -> None:
    policy = {"reviewers": ["group:finance"]}
    gates = {"pay": {"allowed_decisions": ["approve"], "policy": policy}, "mail": True}
    shop = await Shop(PAY, MAIL, gates=gates).go()
    state = (await shop.agent().aget_state(shop.config)).values
    assert [policy_of(state, one) for one in ("c-pay", "c-mail", "c-none")] == [policy, None, None]
    value = {"type": UNKNOWN_CALL, "tool": "pay", "args": {}, "tool_call_id": "c", "description": "?"}
    raised = Interrupt(value | {"policy": policy}, id=own_pause_id(value | {"policy": policy}))
    (asked,) = pause_of(run_id="r", agent="shop", interrupts=[raised]).requests
    assert (asked.kind, asked.policy) == ("unknown_call", policy)


async def test_calls_that_share_an_id_have_their_arguments_sealed_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PLACET_ENCRYPTION_KEY", "a key of 32 bytes, for the tests")
    calls = [Call("mail", {"to": f"{who}@example.com"}, id="c-1") for who in ("ann", "bob", "ann")]
    shop = Shop(*calls)
    shop.after = [lambda: PIIMiddleware("email", apply_to_input=False, apply_to_tool_args=True)]
    await shop.go()
    assert [one.args["to"] for one in await shop.requests()] == [
        "[REDACTED_EMAIL]",
        "[REDACTED_EMAIL_2]",
        "[REDACTED_EMAIL]",
    ]
    await shop.decide(APPROVE, REJECT, APPROVE)
    assert shop.ran == [("mail", "ann@example.com")] * 2


def test_ids_are_told_apart_wherever_a_message_has_its_calls() -> None:
    block = {"type": "tool_use", "id": "c", "name": "pay", "input": {}}
    message = AIMessage(
        [{"type": "text", "text": "x"}, block, block | {"id": "d"}, block],
        tool_calls=[{"name": "pay", "args": {}, "id": one} for one in ("c", "d", "c")],
    )
    told = with_distinct_ids(message)
    ids = [call["id"] for call in told.tool_calls]
    assert ids[:2] == ["c", "d"]
    assert len(set(ids)) == 3
    assert [one["id"] for one in told.content[1:]] == ids  # type: ignore[index]
    assert [one["id"] for one in message.content[1:]] == ["c", "d", "c"]  # type: ignore[index]
    assert with_distinct_ids(told) is told


@BOTH
async def test_what_became_of_a_gated_call_is_kept_for_those_its_gate_names(mode: Mode) -> None:
    policy = {"reviewers": ["group:finance"]}
    started = asyncio.Event()

    @tool
    async def pay(to: str) -> str:
        """Pay."""
        started.set()
        await asyncio.Event().wait()
        return to

    gate = HumanInTheLoopMiddleware(
        {"pay": {"allowed_decisions": ["approve"], "policy": policy}}, interrupt_mode=mode
    )
    model = ScriptedModel(script=[Step(calls=[Call("pay", {"to": "ann"})]), "end"])
    driver = Driver(create_agent(model, [pay], middleware=[gate], checkpointer=InMemorySaver()))
    await driver.go(HELLO)
    (asked,) = driver.waiting
    approve: Any = {"type": "approve"}
    answer = {"decisions": [approve]} if mode == "batched" else approve
    resume: Any = Command(resume={asked.id: answer})
    await driver.die(resume, when=started.is_set)
    # in a batch the answer was taken with the step before; a worker hands the other one over again
    await driver.go(None if mode == "batched" else resume)
    (unknown,) = [one for one in driver.waiting if one.value.get("type") == UNKNOWN_CALL]
    assert unknown.value["policy"] == policy
