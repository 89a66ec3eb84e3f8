"""The command line: `placet`, with all its commands; an error is one line and never a traceback."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..errors import PlacetError, StoreUnavailable
from ..output import NO_SERVER, plain, say
from ..settings import Settings
from . import approvals, runs
from .arguments import AsJson, Concurrency, Processes, Queues  # noqa: TC001 - typer reads them

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

Decide = Literal["approve", "edit", "reject", "respond"]


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version  # noqa: PLC0415

        say(f"placet {version('placet')}")
        raise typer.Exit


app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(runs.enqueue)
app.add_typer(runs.runs, name="runs")
app.add_typer(approvals.approvals, name="approvals")
for decision in ("approve", "reject", "edit", "respond", "answer"):
    app.command(decision)(getattr(approvals, decision))
app.add_typer(runs.threads, name="threads")


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Agents on many workers, with people who approve what they do."""
    _ = version


@app.command()
def doctor(
    agent: Annotated[
        str | None, typer.Argument(help="Only this agent of langgraph.json: the order of its middleware.")
    ] = None,
    *,
    worker: Annotated[
        bool, typer.Option("--worker", help="Only that a worker of this machine is alive: a health check.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check server, broker, workers, agents and versions; exit 1 if something fails."""
    from .doctor import examine  # noqa: PLC0415 - it loads libraries that other commands need not

    _exit(examine(as_json=as_json, worker=worker, agent=agent))


@app.command()
def worker(processes: Processes = 1, concurrency: Concurrency = None, queues: Queues = None) -> None:
    """Execute runs; stops warm on SIGTERM or Ctrl-C, cold on the second one."""
    from ..worker.serve import serve, worker_command  # noqa: PLC0415

    settings = Settings.from_env(concurrency=concurrency, queues=queues)
    if processes == 1:
        command = worker_command(settings)
        os.execv(command[0], command)  # noqa: S606 - no shell is wanted
    _exit(serve(settings, processes=processes))


@app.command()
def bot(
    channel: Annotated[
        str,
        typer.Argument(
            metavar="CHANNEL",
            help="slack, telegram, discord, webhook, notify, or package.module:factory of another.",
        ),
    ],
) -> None:
    """Show requests on a chat platform and take the decisions given there."""
    from ..bots.bot import serve as serve_bot  # noqa: PLC0415

    _exit(serve_bot(channel))


@app.command()
def dev(
    processes: Processes = 2,
    redis_url: Annotated[str | None, typer.Option("--redis-url", help="Use this server.")] = None,
    port: Annotated[int, typer.Option("--port", help="Of the embedded server, if it is free.")] = 6379,
    reset: Annotated[bool, typer.Option("--reset", help="Forget what .placet/ holds.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show all that workers log.")] = False,
) -> None:
    """Run your own agents: embedded server, workers, reload when code changes."""
    from ..dev.playground import develop  # noqa: PLC0415

    if reset and redis_url:
        raise typer.BadParameter("only the embedded server's data can be reset", param_hint="--reset")
    _exit(develop(processes=processes, redis_url=redis_url, port=port, reset=reset, verbose=verbose))


@app.command()
def demo(
    decide: Annotated[Decide | None, typer.Option("--decide", help="Answer without a terminal.")] = None,
    as_json: AsJson = False,
) -> None:
    """Watch a run pause in one process, be decided by you, and end in another process."""
    from ..dev.demo import demonstrate  # noqa: PLC0415

    _exit(demonstrate(decide=decide, as_json=as_json))


def main() -> None:
    """Run the command line and exit."""
    sys.exit(invoke(sys.argv[1:]))


def invoke(args: Sequence[str]) -> int:
    """Run one command; its exit status: 1 for an error, 2 for wrong usage, 130 after Ctrl-C."""
    as_json = "--json" in args
    try:
        status = app(list(args), prog_name="placet", standalone_mode=False)
    except typer.TyperException as error:
        return _report(error, _usage(error), as_json, status=error.exit_code)
    except PlacetError as error:
        return _report(error, f"{error}{_hint(error)}", as_json)
    except (KeyboardInterrupt, asyncio.CancelledError, typer.Abort):
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # noqa: BLE001 - a person gets a line, whatever happened
        return _report(error, f"{type(error).__name__}: {error}", as_json)
    return status if isinstance(status, int) else 0


def _usage(error: typer.TyperException) -> str:
    """What was wrong with the words of the command, and where they are told."""
    # typer's types are checked by pydantic, which says so
    message = error.format_message().replace("Value error, ", "")
    context = getattr(error, "ctx", None)
    return f"{message.rstrip('.')}; see {context.command_path} --help" if message and context else message


def _hint(error: PlacetError) -> str:
    if not isinstance(error, StoreUnavailable):
        return ""
    from redis.exceptions import ResponseError  # noqa: PLC0415 - loaded by now

    return "" if isinstance(error.__cause__, ResponseError) else f"; {NO_SERVER}"


def _report(error: Exception, message: str, as_json: bool, *, status: int = 1) -> int:
    message = " ".join(plain(message).split())
    if not message:  # the help was shown instead
        return status
    if as_json:
        body: dict[str, Any] = {"type": type(error).__name__, "message": message}
        if isinstance(error, PlacetError):
            body |= {name: value for name, value in vars(error).items() if not name.startswith("_")}
        sys.stderr.write(json.dumps({"error": body}, ensure_ascii=False, default=str) + "\n")
    else:
        sys.stderr.write(f"error: {message}\n")
    return status


def _exit(what: Coroutine[Any, Any, int]) -> None:
    raise typer.Exit(asyncio.run(what))


if __name__ == "__main__":
    main()
