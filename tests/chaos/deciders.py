"""A reviewer that decides on everything it sees, as one of several that do: `python -m chaos.deciders 0`.

They race on each request with different decisions, repeat themselves, contradict themselves, come late, and
now and then send a digest that is not the request's or a decision that does not fit it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from placet import Placet
from placet.errors import AlreadyDecided, PermanentError, RetryableError
from placet.settings import Settings

from .witness import Witness

LOSSES = ("run.recovered", "run.given_back")
"""Events by which a segment ends that its worker did not bring to a pause or an end."""

if TYPE_CHECKING:
    from placet import Approval


class Decider:
    """One of them; what it does to a request follows from the seed, its number and the call."""

    def __init__(self, *, placet: Placet, witness: Witness, seed: str, number: int, late: float) -> None:
        self._placet = placet
        self._witness = witness
        self._seed = seed
        self._late = late
        self.name = f"decider-{number}"
        self._busy: set[str] = set()

    async def run(self) -> None:
        """Follow the requests, for ever."""
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    async for approval in self._placet.watch_approvals():
                        if approval.id not in self._busy:
                            self._busy.add(approval.id)
                            group.create_task(self._treat(approval))
                except RetryableError:
                    await asyncio.sleep(0.1)

    async def _treat(self, approval: Approval) -> None:
        rng = Random(f"{self._seed} {self.name} {key_of(approval)}")  # noqa: S311 - the same again
        try:
            pace = rng.random()
            if pace > 0.5:  # the others are as fast as they can be
                await asyncio.sleep(self._late * rng.uniform(0.3, 1.3) if pace > 0.9 else rng.uniform(0, 0.3))
            if approval.kind == "unknown_call":
                await self._decide(approval, await self._truth(approval), seen=approval.digest)
                return
            chance = rng.random()
            if chance < 0.1:
                await self._decide(approval, decision(approval, rng), seen="0" * 32)
            elif chance < 0.15:
                await self._decide(approval, unfit(approval), seen=approval.digest, sound=False)
            mine = decision(approval, rng)
            await self._decide(approval, mine, seen=approval.digest)
            again = rng.random()
            if again < 0.2:
                await self._decide(approval, mine, seen=approval.digest)
            elif again < 0.3:
                await self._decide(approval, decision(approval, rng), seen=approval.digest)
        finally:
            self._busy.discard(approval.id)

    async def _truth(self, approval: Approval) -> dict[str, Any]:
        """What the witness knows of a call: its result, that it never began, or nothing, and then give up."""
        rows = await asyncio.to_thread(self._witness.effects, key_of(approval))
        what = [row.what for row in rows]
        if "end" in what:
            return {"type": "respond", "message": next(row.result for row in rows if row.what == "end")}
        if what.count("start") == what.count("error") and await self._is_gone(approval.run_id):
            return {"type": "approve"}
        return {"type": "reject"}

    async def _is_gone(self, run_id: str) -> bool:
        """Whether the worker that lost the run can begin nothing any more: it gave it back, or is dead."""
        events = await self._placet._events.after(run_id, 0, block_ms=1)
        last = next(event for event in reversed(events) if event.type in LOSSES)
        if last.type == "run.given_back":
            return True
        try:
            os.kill(int(last.data["lost_worker"].rpartition(":")[2]), 0)
        except ProcessLookupError:
            return True
        return False

    async def _decide(
        self, approval: Approval, given: dict[str, Any], *, seen: str, sound: bool = True
    ) -> None:
        """Decide, and ask again for as long as the store is away; each attempt is told to the witness."""
        while True:
            row = await asyncio.to_thread(
                self._witness.asked,
                self.name,
                "decide",
                run=approval.run_id,
                approval=approval.id,
                given=given,
                sound=sound and seen == approval.digest,
            )
            said, detail = await self._once(approval, given, seen)
            await asyncio.to_thread(self._witness.told, row, said, detail)
            if said != "StoreUnavailable":
                return
            await asyncio.sleep(0.2)

    async def _once(self, approval: Approval, given: dict[str, Any], seen: str) -> tuple[str, str]:
        try:
            await self._placet.decide(approval.id, given, reviewer=self.name, seen=seen)
        except AlreadyDecided as error:
            return "AlreadyDecided", f"{error.decided_by} {error.decision}"
        except (PermanentError, RetryableError) as error:
            return type(error).__name__, str(error)
        return "done", ""


def key_of(approval: Approval) -> str:
    """The call that a request is about."""
    about = approval.value if approval.kind == "question" else approval.args
    return str(about["key"])


def decision(approval: Approval, rng: Random) -> dict[str, Any]:
    """A decision that fits."""
    if approval.kind == "question":
        return {"type": "answer", "value": f"answer {rng.randint(1, 999)}"}
    kind = rng.choices(("approve", "reject", "edit", "respond"), (70, 12, 12, 6))[0]
    if kind == "edit":
        return {"type": "edit", "args": {**approval.args, "amount": rng.randint(1000, 9999)}}
    if kind == "respond":
        return {"type": "respond", "message": f"no need {rng.randint(1, 999)}"}
    return {"type": kind}


def unfit(approval: Approval) -> dict[str, Any]:
    """A decision that does not fit: a question is approved, a call's edit takes another tool."""
    if approval.kind == "question":
        return {"type": "approve"}
    return {"type": "edit", "edited_action": {"name": "wipe", "args": {}}}


async def main(number: int) -> None:
    """Decide until killed."""
    settings = Settings.from_env()
    async with Placet.connect(settings=settings) as placet:
        witness = Witness(Path(os.environ["CHAOS_WITNESS"]))
        decider = Decider(
            placet=placet,
            witness=witness,
            seed=os.environ["CHAOS_SEED"],
            number=number,
            late=settings.lease_seconds,
        )
        print(f"{decider.name} ready.", flush=True)  # noqa: T201 - the harness waits for it
        await decider.run()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
