"""What must never break about a thread's history: one function an invariant, it yields what it finds."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_core.messages import BaseMessage

    from placet import Run

    from .evidence import Evidence
    from .violation import Found

_RESULT = re.compile(r"\w+ r\d+\.\d+\.\d+ [0-9a-f]{8}")
"""What a tool returns."""


def history_is_linear(evidence: Evidence) -> Iterator[Found]:
    """Every checkpoint of a thread lies on the way from its first to its newest."""
    for thread_id, thread in evidence.threads.items():
        passed, at = set(), thread.newest
        while at is not None and at in thread.parents and at not in passed:
            passed.add(at)
            at = thread.parents[at]  # type: ignore[assignment]
        if astray := set(thread.parents) - passed:
            run = next(run.id for run in evidence.runs.values() if run.thread_id == thread_id)
            yield (
                run,
                f"thread {thread_id}: {len(astray)} of {len(thread.parents)} checkpoints branch off",
                "",
            )


def every_message_is_there_once(evidence: Evidence) -> Iterator[Found]:
    """Each run's message stands once in its thread, in the order in which the runs began."""
    for thread_id, runs in _begun(evidence).items():
        said = [message.id for message in _messages(evidence, thread_id) if isinstance(message, HumanMessage)]
        expected = [f"{run.id}:0" for number, run in enumerate(runs) if _stays(run, said, runs[number + 1 :])]
        if said != expected:
            yield runs[-1].id, f"thread {thread_id} has the messages {said}, not {expected}", ""


def _stays(run: Run, said: Sequence[str | None], later: Sequence[Run]) -> bool:
    """Whether a run's message has to stand in its thread."""
    if run.reason.startswith("rolled back") and any(one.status == "success" for one in later):
        return False
    # one that was cancelled may not have come to it, or still has to be taken away
    return run.status != "cancelled" or f"{run.id}:0" in said


def every_call_has_one_result(evidence: Evidence) -> Iterator[Found]:
    """Before the next message of a model or person; but for those that the thread's last run left behind."""
    for thread_id, runs in _begun(evidence).items():
        for asked, results, is_last in _turns(_messages(evidence, thread_id)):
            missing = Counter(asked) - Counter(results)
            more = Counter(results) - Counter(asked)
            left = is_last and runs[-1].status != "success"
            if more or (missing and not left):
                text = f"thread {thread_id}: calls without a result {dict(missing)}, results without a call"
                yield runs[-1].id, f"{text} {dict(more)}", ""


def results_are_those_of_the_tools(evidence: Evidence) -> Iterator[Found]:
    """What stands in a thread as a tool's result was returned by it."""
    returned = {effect.result for effect in evidence.effects if effect.what == "end"}
    for thread_id, runs in _begun(evidence).items():
        for message in _messages(evidence, thread_id):
            if isinstance(message, ToolMessage):
                for result in set(_RESULT.findall(message.text)) - returned:
                    yield runs[-1].id, f"thread {thread_id} has the result {result!r}, which no tool gave", ""


def _begun(evidence: Evidence) -> dict[str, list[Run]]:
    """The runs of each thread that were claimed, in that order."""
    threads: dict[str, list[Run]] = {}
    began = [(run.started_at, run.id, run) for run in evidence.runs.values() if run.started_at is not None]
    for _, _, run in sorted(began):
        threads.setdefault(run.thread_id, []).append(run)
    return threads


def _messages(evidence: Evidence, thread_id: str) -> Sequence[BaseMessage]:
    thread = evidence.threads.get(thread_id)
    return thread.messages if thread else ()


def _turns(messages: Sequence[BaseMessage]) -> Iterator[tuple[list[str], list[str], bool]]:
    """Each message with tool calls: their ids, the ids of the results that follow, whether it is the last."""
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage) and (index == 0 or isinstance(messages[index - 1], HumanMessage)):
            yield [], [message.tool_call_id], False
        if not isinstance(message, AIMessage):
            continue
        end = index + 1
        while end < len(messages) and isinstance(messages[end], ToolMessage):
            end += 1
        results = [one.tool_call_id for one in messages[index + 1 : end] if isinstance(one, ToolMessage)]
        yield [str(call["id"]) for call in message.tool_calls], results, end == len(messages)
