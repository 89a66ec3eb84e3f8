"""What the acceptance agents do to the world, seen from outside: a log of effects and barriers.

Log: the file PLACET_TEST_LOG. Each tool (and each node or model that the table below says so) appends a
line when it starts and one when it has ended, `pid start|end name {"arg": …}`, arguments as JSON with
sorted keys. A line is one O_APPEND write. Without the variable nothing is written.

Barrier: `await barrier(name)` blocks until the file `name` exists in the folder PLACET_TEST_BARRIERS.
The slow agents name their barrier by the text of the last human message, so each run has its own.

Agents, by name in langgraph.json; those above the line take `{"messages": [human]}`, the others `{}`.

| agent           | what it does and where it pauses; `done: …` is the last message's text            |
|-----------------|-----------------------------------------------------------------------------------|
| plain           | no pause: tool look_up(key="a"), "done: found a"                                  |
| batched         | 3 calls in one message: pay(to="ann", amount=10), look_up(key="a") and            |
|                 | mail(to="bob", text="hello"); one interrupt, 2 actions (pay, mail), all four      |
|                 | decisions; "done: " and the tools' answers, joined with "; "                      |
| per_call        | the same calls; one interrupt each for pay and mail                               |
| tool_question   | interrupt("Which colour?") in tool paint(thing="door"); "done: painted door RED"  |
| again           | one action: pay(to="ann", amount=10), then the same call once more, another pause |
| wrapped         | tool_question inside tool retry, model retry and two fallbacks                    |
| sync_tool       | one action: count(n=3), a sync tool; "done: counted 3"                            |
| slow_tool       | no pause: tool slow(barrier_name=…) blocks at its barrier; "done: passed BARRIER" |
| gated_slow_tool | one action: slow(barrier_name=…), which blocks then; "done: passed BARRIER"       |
| slow_twice      | no pause: the model blocks, then slow(barrier_name=BARRIER-tool)                   |
| slow_thread_tool| no pause: sync tool slow_thread(barrier_name=…) blocks its thread at its barrier   |
| stubborn_tool    | no pause: tool stubborn(barrier_name=…) blocks, deaf to cancellation              |
| gated_brief_tool | as gated_slow_tool, with a timeout of 0.2 s on the tool                           |
| slow_sibling    | no pause: look_up(key="a") beside slow(barrier_name=…)                            |
| slow_per_call   | one interrupt each for slow(barrier_name=…) and mail(to="bob", text="hello")      |
| slow_model      | no pause: the model, logged as `model`, blocks at its barrier; "done: BARRIER"    |
| failing_tool    | no pause: tool explode() logs its start and raises RuntimeError("boom")           |
| failing_model   | no pause: the model raises ConnectionError("no model")                            |
| carrying        | one action: carry(value=…), the human message's additional_kwargs["note"];        |
|                 | returned as text and as artifact                                                  |
| remembering     | a node counts the runs in the store, note(text="日本語") writes there, then one   |
|                 | action: recall(), a sync tool that reads both; "done: visit 1: 日本語"            |
| refunds         | no pause: refund(order="A-1"), which declares nothing and blocks, when it has had |
|                 | its effect (the end in the log), at barrier refund; "done: refunded A-1"          |
| gated_refunds   | one interrupt each for refund(order="A-1") and mail(to="bob", text="hello")       |
| stopped_refunds | interrupt_before the tools, then as refunds                                       |
| stopped_question | interrupt_before the tools, then as tool_question                                 |
| asking_refunds  | interrupt("How much?") in refund(order="A-1"), then as refunds                    |
| delegated_refunds | tool delegate(), idempotent, runs refunds as a subagent                         |
| retried_refunds | refunds in a retry of two more attempts; the first attempt fails                  |
| wires           | no pause: wire(order="A-1"), as refund, whose runs fail if it is unknown          |
| charges         | no pause: charge(order="A-1"), as refund, which looks into the log if unknown     |
| tenant_limited  | no pause: one model call, logged; a tenant has 100 an hour; "done"                |
| tenant_parked   | the same, with two a second; a run without room sleeps                            |
| limited_model   | no pause: the model, logged as `model`, blocks at barrier go, then look_up(…),    |
|                 | again and again; 3 model calls a run                                              |
| limited_gate    | one action: pay(to="ann", amount=10), again and again; 2 model calls a run        |
| limited_tool    | the same, twice, then "done: …"; 1 tool call a run                                |
| limited_window  | one action: pay(to="ann", amount=10), then "done: …"; 1 tool call an hour          |
| limited_slow_tool | no pause: slow(barrier_name="never"), then "done: …"; 1 call of it a thread      |
| limited_error   | no pause: look_up(…) again and again; the third model call of a run is an error   |
| limited_search  | no pause: tool search(), idempotent, whose agent looks up for ever, its model,    |
|                 | logged as `inner`, blocking at barrier go; 5 model calls a run                    |
|-----------------|-----------------------------------------------------------------------------------|
| questions       | interrupt("first?"), then interrupt({"ask": "second?"}) in one node; logs `ask`;  |
|                 | state answers: both, in order                                                     |
| parallel        | interrupt("left?"), interrupt("right?") in two nodes of one step; logs `join`;    |
|                 | state left, right                                                                 |
| subgraph        | interrupt("inner?") in a subgraph's node; logs `inner`; state answer              |
| before          | interrupt_before=["act"]; nodes plan, act (logged), finish; state steps: names    |
| after           | interrupt_after=["act"]: `act` is logged before the pause; state as above         |
| relaying        | interrupt(given); given goes into the store and an event too; state seen: what    |
|                 | arrived by input, store, answer, context, configurable.note, metadata.note        |
| making_odd      | streams, asks or returns, by state how, what is too large, too deep or no text    |
| poison          | no pause: kills its process (logged as `die`) by state how, sigkill or segfault,  |
|                 | until the barrier `healed` is open                                                |
| brief           | no pause: two steps that take a moment; state steps: 2                            |
| quits_async     | no pause: raises SystemExit, KeyboardInterrupt or an own BaseException, by state how |
| quits_sync      | no pause: sys.exit(how) in a sync node                                            |
| schema_question | interrupt("How much?", response_schema=Budget), Budget being amount: Decimal > 0  |
|                 | and note: str = ""; logs `spend`; state budget, a Budget                          |
| typed           | a state of Decimal, datetime, UUID, Enum and a pydantic model; interrupt of       |
|                 | amount: Decimal, at: datetime, id: UUID, raw: bytes, text: "日本語 🚀"; logs      |
|                 | `typed`; state kinds: class names as the node found them, answer                  |
| made            | interrupt(configurable["question"] or "made?"); state answer; an async factory    |
|                 | makes it, with a saver of its own that is replaced                                |
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def logged(name: str, **args: object) -> Iterator[None]:
    """Write the start and, unless it fails, the end of an effect."""
    _write("start", name, args)
    yield
    _write("end", name, args)


async def barrier(name: str) -> None:
    """Block until the test lets it pass."""
    while not is_open(name):  # noqa: ASYNC110 (the one who opens it is another process)
        await asyncio.sleep(0.01)


def is_open(name: str) -> bool:
    """Whether the test lets what waits there pass."""
    return (Path(os.environ["PLACET_TEST_BARRIERS"]) / name).exists()


def _write(what: str, name: str, args: dict[str, object]) -> None:
    if file := os.environ.get("PLACET_TEST_LOG"):
        line = f"{os.getpid()} {what} {name} {json.dumps(args, sort_keys=True, default=str)}\n"
        handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)
