"""What an agent remembers in one process is there in another, and for its next thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet import PATIENCE, human, paused

if TYPE_CHECKING:
    from fleet import Fleet
    from placet import Placet


async def test_a_node_and_tools_share_the_store_over_processes(fleet: Fleet, placet: Placet) -> None:
    for visit in (1, 2):
        (writer,) = await fleet.start()
        run = await placet.enqueue("remembering", human("go"))
        (recall,) = await paused(placet, run)
        writer.kill()
        (reader,) = await fleet.start()
        await placet.decide(recall.id, {"type": "approve"}, reviewer="ann")
        run = await placet.wait(run.id, timeout=PATIENCE)
        assert run.result["messages"][-1]["content"] == f"done: visit {visit}: 日本語"
        assert fleet.effects("recall")[-1].pid == reader.pid
        reader.kill()
    assert fleet.effects("recall")[-1].args == {"namespaces": [["notes", "ann"]]}
