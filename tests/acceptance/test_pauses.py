"""Every kind of pause: it pauses in one process and goes on in another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from fleet import PATIENCE, paused

if TYPE_CHECKING:
    from fleet import Fleet
    from placet import Placet

HUMAN = {"messages": [{"role": "user", "content": "go"}]}


async def test_batched(fleet: Fleet, placet: Placet) -> None:
    await fleet.start()
    run = await placet.enqueue("batched", HUMAN)
    pay, mail = await paused(placet, run)
    assert (pay.tool, pay.args, mail.tool) == ("pay", {"to": "ann", "amount": 10}, "mail")
    first = fleet.workers[0]
    await fleet.start()
    first.kill()
    await placet.decide(pay.id, {"type": "approve"}, reviewer="ann", seen=pay.digest)
    assert (await placet.get(run.id)).status == "interrupted"
    await placet.decide(mail.id, {"type": "reject", "message": "no mail"}, reviewer="bob")
    run = await placet.wait(run.id, timeout=PATIENCE)
    assert run.status == "success", run.error
    assert [effect.pid for effect in fleet.effects("pay")] == [fleet.workers[1].pid]
    assert fleet.effects("mail") == []
