"""Commands on runs and threads: enqueue, list, show, watch, cancel, retry, delete."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..output import as_data, details, lay_out, print_json, run_details, runs_table, say, warn
from .arguments import (
    JSON_HELP,
    AsJson,
    Limit,
    OfAgent,
    OfThread,
    RunId,
    connected,
    read_json,
    read_object,
    read_seconds,
    read_time,
)

if TYPE_CHECKING:
    from datetime import timedelta

    from ..client import Placet
    from ..state.approvals import Approval
    from ..state.runs import Run
    from ..state.workers import WorkerSeen

Status = Literal["pending", "running", "interrupted", "success", "error", "timeout", "cancelled"]
"""As `RunStatus`, which is not imported: `placet --help` loads no Redis client."""
Strategy = Literal["enqueue", "reject", "interrupt", "rollback"]
"""As `MultitaskStrategy`, for the same reason."""
Until = Literal["end", "pause"]
ThreadId = Annotated[str, typer.Argument(metavar="THREAD", help="The thread's id.")]

runs = typer.Typer(no_args_is_help=True, help="Look at runs, cancel and retry them.")
threads = typer.Typer(no_args_is_help=True, help="Look at conversations, delete them.")


def enqueue(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Its name in langgraph.json.")],
    *,
    value: Annotated[str, typer.Option("--input", help=f"The graph's input: {JSON_HELP}")],
    thread: Annotated[str | None, typer.Option("--thread", help="Thread id; a new one if left out.")] = None,
    run_id: Annotated[str | None, typer.Option("--run-id", help="Same id, same input: the same run.")] = None,
    config: Annotated[str | None, typer.Option("--config", help=f"Run configuration: {JSON_HELP}")] = None,
    context: Annotated[str | None, typer.Option("--context", help=f"Runtime context: {JSON_HELP}")] = None,
    metadata: Annotated[str | None, typer.Option("--metadata", help=f"Kept with it: {JSON_HELP}")] = None,
    principal: Annotated[str | None, typer.Option("--principal", help="On whose behalf it runs.")] = None,
    queue: Annotated[str, typer.Option("--queue", help="Which workers may take it.")] = "",
    start_at: Annotated[str | None, typer.Option("--start-at", help="ISO 8601, or 30s, 5m, 2h.")] = None,
    strategy: Annotated[
        Strategy, typer.Option("--multitask-strategy", help="What becomes of runs that the thread has.")
    ] = "enqueue",
    run_timeout: Annotated[
        str | None, typer.Option("--run-timeout", help="It may take 30s, 5m, 2h, waits for people left out.")
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for its end; exit 1 unless it succeeds.")
    ] = False,
    timeout: Annotated[str | None, typer.Option("--timeout", help="Wait at most 30s, 5m, 2h.")] = None,
    as_json: AsJson = False,
) -> None:
    """Put a run on a thread's queue."""
    given = {
        "input": read_json(value, "--input"),
        "thread_id": thread,
        "run_id": run_id,
        "config": read_object(config, "--config"),
        "context": None if context is None else read_json(context, "--context"),
        "metadata": read_object(metadata, "--metadata"),
        "principal": principal,
        "queue": queue,
        "start_at": read_time(start_at, "--start-at"),
        "multitask_strategy": strategy,
        "timeout_seconds": read_seconds(run_timeout, "--run-timeout"),
    }
    limit = read_seconds(timeout, "--timeout")
    if limit is not None and not wait:
        raise typer.BadParameter("goes with --wait only", param_hint="--timeout")

    async def do(placet: Placet) -> Run:
        run = await placet.enqueue(agent, given.pop("input"), **given)
        for doubt in await _doubts(run):
            warn(doubt, as_json=as_json)
        return await _wait(placet, run, limit) if wait else run

    run = connected(do)
    _print(run, as_json)
    if wait and run.status != "success":
        raise typer.Exit(1)


async def _doubts(run: Run) -> list[str]:
    """Say why no worker that lives now will take the run, or not as it should."""
    from redis.exceptions import RedisError  # noqa: PLC0415

    from ..settings import Settings  # noqa: PLC0415
    from ..state.connection import Connection  # noqa: PLC0415
    from ..state.workers import key_doubt, workers_seen  # noqa: PLC0415

    settings = Settings.from_env()
    try:
        async with Connection.open(settings) as connection:
            seen, seal = await workers_seen(connection.reader, connection.keys), connection.seal
    except (RedisError, OSError):  # the run is kept: nothing more is to be said
        return []
    alive = [one for one in seen if one.alive(reconcile_seconds=settings.reconcile_seconds)]
    return [doubt for doubt in (_unserved(run, alive), key_doubt(alive, seal)) if doubt]


def _unserved(run: Run, alive: list[WorkerSeen]) -> str:
    if not alive:
        return "no worker lives now: placet worker starts one"
    agents = frozenset[str]().union(*(one.agents for one in alive))
    queues = frozenset[str]().union(*(one.queues for one in alive))
    if run.agent not in agents:
        return f"no live worker serves {run.agent!r}; known: {', '.join(sorted(agents))}"
    if run.queue not in queues:
        return f"no live worker consumes the queue {run.queue!r}; known: {', '.join(sorted(queues))}"
    if not any(run.agent in one.agents and run.queue in one.queues for one in alive):
        return f"no live worker serves {run.agent!r} on the queue {run.queue!r}"
    return ""


async def _wait(placet: Placet, run: Run, limit: timedelta | None) -> Run:
    run = await placet.wait(run.id, until="pause", timeout=limit)
    if not run.ended:
        sys.stderr.write(f"run {run.id} waits for a person: placet approvals list --run {run.id}\n")
        run = await placet.wait(run.id, until="end", timeout=limit)
    return run


@runs.command("list")
def list_runs(
    *,
    status: Annotated[Status | None, typer.Option("--status", help="Only with this status.")] = None,
    agent: OfAgent = None,
    thread: OfThread = None,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""
    found = connected(lambda placet: placet.runs(status=status, agent=agent, thread_id=thread, limit=limit))
    if as_json:
        for run in found:
            print_json(as_data(run))
    elif found:
        lay_out(runs_table(found))
    else:
        say("no runs")


@runs.command()
def show(run_id: RunId, as_json: AsJson = False) -> None:
    """Show one run: status, input, result or error, and what it waits for."""

    async def do(placet: Placet) -> tuple[Run, list[Approval]]:
        run = await placet.get(run_id)
        if as_json or run.status != "interrupted":
            return run, []
        return run, await placet.approvals(run_id=run_id)

    run, asked = connected(do)
    if as_json:
        print_json(as_data(run))
    else:
        lay_out(run_details(run, waits_for=reversed(asked)))


@runs.command()
def watch(
    run_id: RunId,
    after: Annotated[int | None, typer.Option("--after", min=0, help="Only events after this id.")] = None,
    until: Annotated[Until, typer.Option("--until", help="Stop at the next pause or at the end.")] = "end",
    as_json: AsJson = False,
) -> None:
    """Follow a run's events, past ones first; exit 1 if it ends without success."""
    from ..execution.timeline import Timeline  # noqa: PLC0415

    timeline = Timeline(as_json=as_json)

    async def do(placet: Placet) -> Run:
        async for event in placet.stream(run_id, after=after, until=until):
            failed = event.type == "run.ended" and not as_json
            timeline.event(event, error=(await placet.get(run_id)).error if failed else None)
        return await placet.get(run_id)

    run = connected(do)
    if run.ended and run.status != "success":
        raise typer.Exit(1)


@runs.command()
def cancel(
    run_id: RunId,
    reason: Annotated[str, typer.Option("--reason", help="Kept with the run.")] = "cancelled",
    as_json: AsJson = False,
) -> None:
    """Cancel a pending, waiting or running run."""
    _print(connected(lambda placet: placet.cancel(run_id, reason=reason)), as_json)


@runs.command()
def retry(run_id: RunId, as_json: AsJson = False) -> None:
    """Run a failed run again from its last checkpoint."""
    _print(connected(lambda placet: placet.retry(run_id)), as_json)


@threads.command("show")
def show_thread(thread_id: ThreadId, as_json: AsJson = False) -> None:
    """Show a thread's newest state."""
    state = connected(lambda placet: placet.state(thread_id))
    if as_json:
        print_json(state)
    else:
        lay_out(details({"thread": thread_id, **state}))


@threads.command()
def delete(thread_id: ThreadId, as_json: AsJson = False) -> None:
    """Delete a thread: its runs and requests are cancelled, its state is gone."""
    connected(lambda placet: placet.delete_thread(thread_id))
    if as_json:
        print_json({"thread_id": thread_id, "deleted": True})
    else:
        say(f"thread {thread_id} deleted")


def _print(run: Run, as_json: bool) -> None:
    if as_json:
        print_json(as_data(run))
    else:
        lay_out(run_details(run))
