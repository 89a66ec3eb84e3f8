"""`placet demo`: one run, watched: it pauses in one process, you decide, another process finishes it."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import signal
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

from ..cli.arguments import current_user
from ..cli.asking import Asker
from ..errors import InvalidDecision
from ..execution.timeline import Timeline
from ..output import print_json, say
from ..settings import Settings
from ..worker.processes import Child, on_stop_signal
from ..worker.serve import worker_command, worker_env
from .demo_story import DemoFailed, Story
from .embedded import embedded_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ..client import Placet
    from ..state.approvals import Approval

_TEXT = "My kettle, order A-17, arrived broken. I want my money back."
_GRACE_SECONDS = 10.0


class Workers:
    """The demo's worker processes: stopped one by one, replaced when none is left."""

    def __init__(self, settings: Settings, timeline: Timeline) -> None:
        self._settings = settings
        self._timeline = timeline
        self._children: dict[int, Child] = {}
        self._said: collections.deque[str] = collections.deque(maxlen=30)
        self._started = 0
        self._death = asyncio.Event()
        self._watches: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start one more."""
        self._started += 1
        child = await Child.start(
            worker_command(self._settings, number=self._started),
            env=worker_env(self._settings),
            on_line=lambda _, line: self._said.append(line),
            death_signal=signal.SIGKILL,
        )
        self._children[child.pid] = child
        self._watches.add(asyncio.create_task(self._watch(child)))
        self._timeline.note(datetime.now(UTC), child.pid, "worker.started", "a worker process, loading")

    async def stop(self, pid: int) -> None:
        """Stop the one that paused: what it held would be lost now."""
        await self._children.pop(pid).stop(grace_seconds=_GRACE_SECONDS)
        self._timeline.note(
            datetime.now(UTC),
            pid,
            "worker.stopped",
            "stopped by the demo: it holds nothing of the paused run",
        )
        if not self._children:
            await self.start()

    async def stop_all(self) -> None:
        """Stop those that are left."""
        await asyncio.gather(*(child.stop(grace_seconds=_GRACE_SECONDS) for child in self._children.values()))
        await asyncio.gather(*self._watches)

    async def _watch(self, child: Child) -> None:
        await child.wait()
        if child.pid in self._children:
            self._death.set()

    async def died(self) -> NoReturn:
        """Wait for a death that nobody asked for.

        Raises:
            DemoFailed: with the last thing that the workers printed.
        """
        await self._death.wait()
        for line in self._said:
            sys.stderr.write(f"{line}\n")
        raise DemoFailed("a worker process ended by itself; its last lines are above")


async def demonstrate(*, decide: str | None, as_json: bool) -> int:
    """Run the demo; 0 when it showed what it promises.

    Raises:
        EndOfInput: when standard input ended before a decision; the run was left waiting.
        DemoFailed: when something else happened than what was decided.
    """
    task = asyncio.current_task()
    timeline = Timeline(as_json=as_json)

    def stop() -> None:
        if task is not None and not task.cancelling():
            sys.stderr.write("\nstopped; the demo's server and its run go with it\n")
            task.cancel()

    with on_stop_signal(stop):
        async with _started(timeline) as (placet, workers):
            telling = asyncio.create_task(_tell(placet, workers, timeline, decide))
            dying = asyncio.create_task(workers.died())
            try:
                await asyncio.wait({telling, dying}, return_when=asyncio.FIRST_COMPLETED)
                summary = telling.result() if telling.done() else dying.result()
            finally:
                telling.cancel()
                dying.cancel()
                await asyncio.wait({telling, dying})
    if as_json:
        print_json(summary)
    else:
        say(summary["message"])
    return 0


@contextlib.asynccontextmanager
async def _started(timeline: Timeline) -> AsyncIterator[tuple[Placet, Workers]]:
    """Give a client and two worker processes on a server of their own."""
    from ..client import Placet  # noqa: PLC0415 - after the checks that need no client
    from ..logs import configure_logs  # noqa: PLC0415

    async with embedded_server() as server:
        config = server.data_dir / "langgraph.json"
        config.write_text(json.dumps({"graphs": {"support": "placet.dev.demo_agent:agent"}}))
        settings = Settings(
            redis_url=server.url, broker_url=server.url, config=str(config), concurrency=10, grace_seconds=5
        )
        configure_logs(settings)
        timeline.note(datetime.now(UTC), server.pid, "server.started", f"an embedded Valkey, {server.url}")
        workers = Workers(settings, timeline)
        try:
            sys.stderr.write("starting two workers…\n")
            await workers.start()
            await workers.start()
            async with Placet.connect(settings=settings) as placet:
                yield placet, workers
        finally:
            await workers.stop_all()


async def _tell(placet: Placet, workers: Workers, timeline: Timeline, decide: str | None) -> dict[str, Any]:
    """Enqueue the run and follow it to its end, deciding at each pause; the summary."""
    story = Story()
    asker = Asker()
    run = await placet.enqueue("support", {"messages": [{"role": "user", "content": _TEXT}]})
    after: int | None = None
    while True:
        async for event in placet.stream(run.id, after=after, until="pause"):
            after = event.id
            timeline.event(event)
            story.follow(event)
        run = await placet.get(run.id)
        if run.ended:
            return story.summary(run)
        story.paused_in = story.process
        if story.process is not None:
            await workers.stop(story.process)
        for approval in reversed(await placet.approvals(run_id=run.id)):
            story.decided.append(await _decide(placet, approval, asker, decide))


async def _decide(placet: Placet, approval: Approval, asker: Asker, decide: str | None) -> Approval:
    while True:
        decision = await asker.decision(approval) if decide is None else _decision(approval, decide)
        try:
            return await placet.decide(
                approval.id, decision, reviewer=current_user() or "demo", seen=approval.digest
            )
        except InvalidDecision as error:
            if decide is not None:
                raise
            asker.say(f"Refused: {error}")


def _decision(approval: Approval, decide: str) -> dict[str, Any]:
    """The decision that `--decide` stands for; edit halves the amount."""
    if decide == "edit":
        args = approval.args | {"amount": approval.args["amount"] / 2}
        return {"type": "edit", "edited_action": {"name": approval.tool, "args": args}}
    if decide == "reject":
        return {"type": "reject", "message": "The photo shows a toaster."}
    if decide == "respond":
        return {"type": "respond", "message": "Refunded by hand already; tell the customer so."}
    return {"type": "approve"}
