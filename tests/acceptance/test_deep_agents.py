"""deepagents' subagents and files, over pauses and `kill -9`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fleet import PATIENCE, human, paused, wait_until

if TYPE_CHECKING:
    from fleet import Fleet
    from placet import Approval, Placet, Run

AGENTS = Path(__file__).parent / "agents" / "prebuilt" / "deep.json"
APPROVE = {"type": "approve"}
pytestmark = pytest.mark.settings(config=str(AGENTS))


async def success(placet: Placet, run: Run) -> str:
    run = await placet.wait(run.id, timeout=PATIENCE)
    assert run.status == "success", run.error
    return str(run.result["messages"][-1]["content"])


async def test_subagents_and_files_over_a_kill(fleet: Fleet, placet: Placet) -> None:
    (first,) = await fleet.start()
    names = ("clerks", "limited_clerks", "notes")
    clerks, limited, notes = [await placet.enqueue(name, human("remember me")) for name in names]
    asked = {request.args["to"]: request for request in await paused(placet, clerks)}
    (note,) = await paused(placet, notes)
    said = await success(placet, limited)
    first.kill()
    await fleet.start()
    await check_pauses(fleet, placet, clerks, asked)
    assert "limit" in said
    assert [effect.args["to"] for effect in fleet.effects("pay")] == [
        "ann",
        "bob",
    ]  # limited_clerks', clerks'
    await placet.decide(note.id, APPROVE, reviewer="eve")
    assert "/memories/note.txt" in await success(placet, notes)
    await check_memories(placet)


async def check_pauses(fleet: Fleet, placet: Placet, run: Run, asked: dict[str, Approval]) -> None:
    """Pauses of parallel subagents are requests of their parent's run, and are answered one by one."""
    assert set(asked) == {"ann", "bob"}
    assert {request.run_id for request in asked.values()} == {run.id}
    await placet.decide(asked["bob"].id, APPROVE, reviewer="eve")
    await fleet.started("pay", 2)

    async def status(run: Run) -> str:
        return (await placet.get(run.id)).status

    async def one_left() -> bool:
        left = await placet.approvals(run_id=run.id, status="pending")
        return [one.id for one in left] == [asked["ann"].id] and await status(run) == "interrupted"

    await wait_until(one_left)
    await placet.decide(asked["ann"].id, {"type": "reject", "message": "no"}, reviewer="eve")
    assert (await success(placet, run)).endswith("with reason: no; done: paid bob 10")


async def check_memories(placet: Placet) -> None:
    """A file under /memories/ is there in another thread and process, one elsewhere is not."""
    run = await placet.enqueue("notes", human("read"))
    (question,) = await paused(placet, run)
    await placet.decide(question.id, APPROVE, reviewer="eve")
    memory, draft, _ = (await success(placet, run)).split(" | ")
    assert "remember me" in memory
    assert "not found" in draft


@pytest.mark.settings(config=str(AGENTS), lease_seconds=2)
async def test_nobody_is_asked_about_a_subagent_but_about_its_call(fleet: Fleet, placet: Placet) -> None:
    (first,) = await fleet.start()
    run = await placet.enqueue("senders", human("go"))
    await fleet.started("send")
    first.kill()
    fleet.open_barrier("send")
    await fleet.start()
    (question,) = await paused(placet, run)
    assert (question.kind, question.tool) == ("unknown_call", "send")
    await placet.decide(question.id, APPROVE, reviewer="ann")
    assert await success(placet, run) == "done: done: sent to ann"
    assert [effect.name for effect in fleet.effects()] == ["pay", "send", "send"]
