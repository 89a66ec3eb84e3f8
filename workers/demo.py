"""`placet demo`: one run, watched: it pauses in one process, you decide, another process finishes it."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import signal
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

from .arguments import current_user
from .asking import Asker
from .embedded import embedded_server
from .errors import InvalidDecision, PermanentError
from .fleet import worker_command, worker_env
from .output import console, print_json
from .processes import Child, on_stop_signal
from .settings import Settings
from .timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from .client import Placet
    from .state.approvals import Approval
    from .state.events import Event
    from .state.runs import Run

_TEXT = "My kettle, order A-17, arrived broken. I want my money back."
_GRACE_SECONDS = 10.0
_DONE = {"approve": "Approved", "edit": "Edited", "reject": "Rejected", "respond": "Responded"}


class DemoFailed(PermanentError):
    """Raised when the demo did not show what it promises; the message says what happened instead."""


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
        self._timeline.note(datetime.now(UTC), child.pid, "worker.started", "a worker process")

    async def stop(self, pid: int) -> None:
        """Stop the one that paused: what it held would be lost now."""
        await self._children.pop(pid).stop(grace_seconds=_GRACE_SECONDS)
        self._timeline.note(datetime.now(UTC), pid, "worker.stopped", "it holds nothing of the paused run")
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


@dataclass(slots=True, kw_only=True)
class Story:
    """What the demo saw: which worker process executed the run, what was decided, what tools returned."""

    process: int | None = None
    """The process of the run's latest event from a worker."""
    paused_in: int | None = None
    decided: list[Approval] = field(default_factory=list)
    results: list[tuple[str, int | None]] = field(default_factory=list)
    """Tool and process of each result that a tool itself gave."""

    def follow(self, event: Event) -> None:
        """Take in one event of the run."""
        if event.pid is not None and event.type != "approval.decided":
            self.process = event.pid
        if event.type == "updates" and isinstance(event.data, dict):
            self.results += [(tool, event.pid) for tool in _tool_results(event.data)]

    def summary(self, run: Run) -> dict[str, Any]:
        """Put it in one record; `message` is the demo's last line.

        Raises:
            DemoFailed: when something else happened than what was decided.
        """
        if run.status != "success" or not self.decided:
            why = run.error["message"] if run.error else "it asked for no approval"
            raise DemoFailed(f"the run ended as {run.status}: {why}")
        approval = self.decided[-1]
        decision = approval.decision or {}
        kind = decision["type"]
        args = decision["edited_action"]["args"] if kind == "edit" else approval.args
        what = f"{approval.tool} of {float(args.get('amount', 0)):.2f} EUR"
        expected = sum((one.decision or {})["type"] in {"approve", "edit"} for one in self.decided)
        ran_in = [process for tool, process in self.results if tool == approval.tool]
        if len(ran_in) != expected or self.process == self.paused_in:
            raise DemoFailed(
                f"{what} ran {len(ran_in)} times (in {ran_in}), expected {expected}; "
                f"paused in {self.paused_in}, ended in {self.process}"
            )
        if kind in {"approve", "edit"}:
            done = f"ran once, in process {ran_in[-1]} (paused in {self.paused_in})"
        else:
            done = f"never ran; process {self.process} finished (paused in {self.paused_in})"
        return {
            "type": "summary",
            "pid": self.process,
            "run_id": run.id,
            "status": run.status,
            "decision": kind,
            "tool": approval.tool,
            "args": args,
            "executions": len(ran_in),
            "paused_in": self.paused_in,
            "finished_in": self.process,
            "message": f"{_DONE[kind]}: {what} {done}.",
        }


async def demonstrate(*, decide: str | None, as_json: bool) -> int:
    """Run the demo; 0 when it showed what it promises.

    Raises:
        EndOfInput: when standard input ended before a decision; the run was left waiting.
        DemoFailed: when something else happened than what was decided.
    """
    task = asyncio.current_task()
    timeline = Timeline(as_json=as_json)
    with on_stop_signal(lambda: task and not task.cancelling() and task.cancel()):
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
        console().print(summary["message"], markup=False, soft_wrap=True)
    return 0


@contextlib.asynccontextmanager
async def _started(timeline: Timeline) -> AsyncIterator[tuple[Placet, Workers]]:
    """Give a client and two worker processes on a server of their own."""
    from .client import Placet  # noqa: PLC0415 - after the checks that need no client

    async with embedded_server() as server:
        config = server.data_dir / "langgraph.json"
        config.write_text(json.dumps({"graphs": {"support": "placet.demo_agent:agent"}}))
        settings = Settings(
            redis_url=server.url, broker_url=server.url, config=str(config), concurrency=10, grace_seconds=5
        )
        timeline.note(datetime.now(UTC), server.pid, "server.started", f"an embedded Valkey, {server.url}")
        workers = Workers(settings, timeline)
        try:
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


def _tool_results(updates: dict[str, Any]) -> list[str]:
    """Names of the tools whose results a node has written; a reviewer's answer comes from another node."""
    found = []
    for node, update in updates.items():
        messages = update.get("messages", []) if isinstance(update, dict) else []
        if node == "tools":
            found += [m["name"] for m in messages if m.get("type") == "tool" and m.get("status") == "success"]
    return found
