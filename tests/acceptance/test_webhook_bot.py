"""Signed decisions of a program: who is believed, and what each answer says."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest
from core import request
from platforms.office import ID, opened
from platforms.webhook import DESK, NEW, OLD

from fleet import wait_until
from placet.approvals.response_schema import decision_schema
from placet.digest import digest_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from platforms.office import Office
    from platforms.webhook import Tool

pytestmark = pytest.mark.acceptance

ALL = ("approve", "edit", "reject")
PAY = {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}
WHO = "alice@example.com"


@pytest.fixture
async def office(redis_url: str, tmp_path: Path) -> AsyncIterator[Office]:
    async with opened("webhook", redis_url, tmp_path) as made:
        schema = decision_schema(ALL, tool="pay", args=PAY)
        asked = request(
            ID,
            args={"amount": 42},
            allowed=ALL,
            response_schema=schema,
            digest=digest_of("pay"),
            policy={"reviewers": ["group:finance"]},
        )
        await made.core.paused(asked)
        await made.start()
        yield made


async def test_only_what_an_endpoint_signed_now_is_read(office: Office) -> None:
    tool, body = await _tool(office), await _body(office, "approve")
    now = datetime.now(UTC)
    forged: list[dict[str, Any]] = [
        {"secret": "whsec_" + "Zm9y" * 8},
        {"secret": DESK},
        {"endpoint": "desk"},
        {"endpoint": "nosuch"},
        {"signed": body.replace("approve", "reject")},
        {"at": now - timedelta(minutes=6)},
        {"at": now + timedelta(minutes=6)},
        {"before": (("webhook-signature", "v1,"),)},
        {"before": (("webhook-id", "msg_other"),)},
    ]
    for how in forged:
        status, reply = await tool.send(body, **how)
        assert (status, reply["recorded"], reply["card"]) == (401, False, None), how
    assert (await office.core.placet.approval(ID)).status == "pending"


async def test_an_endpoint_speaks_for_its_own_people_alone(office: Office) -> None:
    tool, body = await _tool(office), await _body(office, "approve")
    status, reply = await tool.send(body, endpoint="desk", secret=DESK)
    assert (status, reply["recorded"], reply["card"]) == (403, False, None)
    assert f"webhook:desk/{WHO} is not listed" in reply["text"]
    assert (await office.core.placet.approval(ID)).status == "pending"


@pytest.mark.parametrize("secret", [OLD, NEW])
async def test_a_decision_sent_again_gets_the_same_answer(office: Office, secret: str) -> None:
    tool, body = await _tool(office), await _body(office, "approve")
    answers = [await tool.send(body, id_="msg_1", secret=secret) for _ in range(3)]
    assert [(status, reply["recorded"], reply["text"]) for status, reply in answers] == [
        (200, True, "Approved by alice")
    ] * 3
    assert [kind for kind, _ in await office.core.told()].count("approval.decided") == 1
    # another decision under the same id is not taken for that one
    status, reply = await tool.send(body.replace(":approve:", ":reject:"), id_="msg_1", secret=secret)
    assert (status, reply["recorded"]) == (409, False)


async def test_a_program_decides_with_values_and_is_told_what_is_wrong_with_them(office: Office) -> None:
    tool = await _tool(office)

    async def edited(args: Any) -> tuple[int, Any]:
        decision = {"type": "edit", "edited_action": {"name": "pay", "args": args}}
        return await tool.send(await _body(office, "edit", decision=decision))

    status, reply = await edited({"amount": "a lot"})
    assert (status, reply["recorded"], list(reply["issues"])) == (422, False, ["amount"])
    status, reply = await tool.send(await _body(office, "edit", decision={"type": "approve"}))
    assert (status, reply["issues"]) == (422, {"": "must be 'edit', as the button says"})
    status, reply = await edited({"amount": 21})
    assert (status, reply["card"]["state"]) == (200, "Edited and approved by alice -> amount=21")
    assert reply["card"]["buttons"] == []
    status, reply = await tool.send(await _body(office, "approve"))
    assert (status, reply["card"]["approval"]["decided_by"]) == (409, "alice")


async def test_what_is_no_decision_is_named(office: Office) -> None:
    tool, body = await _tool(office), await _body(office, "approve")
    wrong = {
        "[": 400,
        "{}": 400,
        json.dumps(json.loads(body) | {"typed": {}, "decision": {}}): 400,
        json.dumps(json.loads(body) | {"reviewer": "alice"}): 400,
        body.replace(WHO, "\\ud800"): 400,
    }
    nested = '{"a":' * 5000 + "1" + "}" * 5000
    wrong = {body[:-1] + f', "decision": {nested}}}': 400} | wrong
    for text, expected in wrong.items():
        status, reply = await tool.send(text)
        assert status == expected, (text[:200], reply)
    status, reply = await tool.send(body.replace(ID, "a00000000009"))
    assert (status, reply["recorded"]) == (404, False)


async def test_while_the_store_is_away_nothing_is_decided_and_that_is_said(office: Office) -> None:
    tool, body = await _tool(office), await _body(office, "approve")
    office.proxy.stall()
    status, reply = await tool.send(body, id_="msg_1")
    assert (status, reply["recorded"]) == (503, False)
    office.proxy.heal()

    async def recorded() -> bool:
        return (await tool.send(body, id_="msg_1"))[0] == 200

    await wait_until(recorded)


async def test_a_card_whose_answer_was_lost_is_sent_again_under_the_same_id(office: Office) -> None:
    tool = await _tool(office)
    known, tool.lost = len(tool.ids), 1
    await office.core.paused(request("a00000000002", digest=digest_of("2")), run_id="r2", thread_id="t2")

    async def sent_again() -> bool:
        return len(tool.ids) > known + 1

    await wait_until(sent_again)
    assert len(set(tool.ids[known:])) == 1
    assert len(await tool.cards("a00000000002")) == 1


async def _tool(office: Office) -> Tool:
    await office.card()
    return cast("Tool", office.platform)


async def _body(office: Office, action: str, **more: Any) -> str:
    card = await _tool(office)
    token = f"placet:{action}:{ID}:{digest_of('pay')}"
    assert card.messages
    return json.dumps({"button": token, "person": WHO, **more})
