"""Drives an agent's graph through one segment: from where it stands to its next pause or its end."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.errors import UnknownInterruptError, is_invalid_resume
from langgraph.runtime import RunControl
from langgraph.types import Command, StreamMode

from placet.middleware.shared import ENDED_BY_LIMIT, MODEL_FAILURE

from ..agents.compatibility import incompatibility
from ..agents.fingerprint import fingerprint
from ..agents.gates import tool_nodes
from ..agents.graph_input import check_input
from ..agents.graphs import tool_schemas
from ..agents.masked_events import MaskedEvents
from ..agents.masks import masks_of
from ..approvals.answers import resume_map
from ..approvals.interrupts import StaticBreakpoint, pause_of
from ..approvals.tool_calls import pending_tool_calls
from ..encoding import check_size, dump_shown
from ..errors import IncompatibleGraph, ThreadExpired, Unsealable
from ..sealing import Unreadable, is_sealed
from .breakpoints import due_breakpoint, has_breakpoints, pass_leftovers
from .cut_off import cut_off_results
from .event_writer import EventWriter
from .repair import repair_thread, roll_back

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.types import Interrupt, StateSnapshot

    from ..agents.factories import Graph
    from ..state.approvals import ApprovalRequest, Approvals
    from ..state.leases import Claim, Leases

_MOST_REQUESTS = 10_000
MODES: list[StreamMode] = ["updates", "messages", "custom", "values"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The graph came to its end."""

    result: str
    """Its output, as JSON text."""
    reason: str = ""
    """What is wrong with it, though the graph came to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """The graph waits for people, for a timer, or both."""

    checkpoint_id: str
    requests: Sequence[ApprovalRequest]
    wake_at_ms: int | None
    interrupts: list[dict[str, Any]]
    sleeps: str = ""
    """What it waits for until then."""
    reopen_reason: str = ""
    """Why the graph did not take an answer that was delivered."""


class Segment:
    """One segment of one run; `control` asks it to stop at the next checkpoint."""

    def __init__(self, *, claim: Claim, graph: Graph, leases: Leases, approvals: Approvals) -> None:
        self.control = RunControl()
        self.outcomes: dict[str, str] = {}
        """What became of the calls that were decided on: approval id to outcome."""
        self.masks = masks_of(graph)
        """What hides personal data in all that tells of the run."""
        self._claim = claim
        self._graph = graph
        self._leases = leases
        self._approvals = approvals
        self._settings = leases.settings
        self._config = graph_config(claim)
        self._config["configurable"]["__placet_saved"] = list(claim.saved)
        self._values: Any = None
        self._interrupts: dict[str, Interrupt] | None = None
        self._call_of = {a.tool_call_id: a.approval_id for a in claim.answers if a.tool_call_id}

    async def drive(self) -> Finished | Paused:
        """Go on from where the thread stands.

        Raises:
            TooLarge: when its result, or what it asks, is larger than the settings allow.
            GraphDrained: when it stopped at a checkpoint because `control` asked for it.
            ThreadExpired: when the checkpoint it paused at is gone.
            IncompatibleGraph: when it cannot go on in this graph; nothing has happened then.
            InvalidInput: when the graph would take nothing of the run's input.
            Exception: whatever the graph raises.
        """
        start = await self._start()
        if isinstance(start, Finished | Paused):
            return start
        async with EventWriter(claim=self._claim, leases=self._leases) as writer:
            events = MaskedEvents(writer, self.masks)
            try:
                async for part in self._graph.astream(
                    start.input,
                    self._config,
                    context=self._claim.run.context,
                    stream_mode=MODES,
                    subgraphs=True,
                    version="v2",
                    durability="sync",
                    control=self.control,
                ):
                    self._take(part, events)
            except UnknownInterruptError as error:
                state = await self._graph.aget_state(self._config)
                if (state.metadata or {}).get("run_id") != self._claim.run.id:
                    raise ThreadExpired(self._claim.run.thread_id) from error
                raise
            except Exception as error:
                if not is_invalid_resume(error):
                    raise
                return await self._reopened(error)
            finally:
                events.flush()
        if self._interrupts is None:
            return self._finished(self._output(self._values))
        return await self._paused(await self._graph.aget_state(self._config))

    def _finished(self, values: Any) -> Finished:
        result = dump_shown(self.masks.value(values))
        most = self._settings.max_result_bytes
        check_size("the result", result, most_bytes=most, setting="PLACET_MAX_RESULT_BYTES")
        return Finished(result=result, reason=_lacks(values))

    def _take(self, part: Any, events: MaskedEvents) -> None:
        kind, ns, data = part["type"], part["ns"], part["data"]
        if kind == "values":
            if not ns:
                if self._values is not None:  # the first are those it begins with
                    events.progressed()
                self._values = data
        elif kind == "messages":
            message, about = data
            events.add_message(ns, message, node=about.get("langgraph_node"))
        elif kind == "updates":
            if "__interrupt__" in data:
                if not ns:
                    self._interrupts = {
                        **(self._interrupts or {}),
                        **{i.id: i for i in data["__interrupt__"]},
                    }
                return
            self._note_outcomes(data)
            events.add("updates", ns, data)
        else:
            events.add(kind, ns, data)

    def _note_outcomes(self, updates: Mapping[str, Any]) -> None:
        for update in updates.values():
            messages = update.get("messages") if isinstance(update, dict) else None
            for message in messages if isinstance(messages, list) else ():
                if isinstance(message, ToolMessage) and message.tool_call_id in self._call_of:
                    outcome = "failed" if message.status == "error" else "succeeded"
                    told = message.additional_kwargs.get("placet_outcome")
                    if told in ("unknown", "not_run"):
                        outcome = told
                    self.outcomes[self._call_of[message.tool_call_id]] = outcome

    async def _start(self) -> _Start | Finished | Paused:
        """What to drive the graph with, or the end or pause that it stands at already."""
        claim = self._claim
        if any(is_sealed(answer.decision.get("sealed")) for answer in claim.answers):
            raise Unsealable
        await self._match()
        if claim.run.segment == 1:
            return await self._begin()
        resume = resume_map(claim.answers)
        first_attempt = claim.run.attempt == 1 and not any(answer.delivered for answer in claim.answers)
        if resume and first_attempt and not has_breakpoints(self._graph):
            return _Start(Command(resume=resume))
        return await self._start_from(await self._graph.aget_state(self._config), resume)

    @property
    def begun(self) -> bool:
        """Whether the graph has taken its input, or its answers."""
        return self._values is not None

    async def _match(self) -> None:
        """See that the run fits the graph, unless it was left by the same one."""
        claim, run = self._claim, self._claim.run
        if run.segment == 1 and not run.incompatible:
            return
        own = fingerprint(self._graph)
        if run.segment > 1 and claim.graph != own.digest:
            stored = await self._leases.fingerprint(claim.graph) if claim.graph else None
            requests = await self._approvals.newest(status=None, run_id=run.id, limit=_MOST_REQUESTS)
            if why := await incompatibility(self._graph, run, stored=stored, requests=requests):
                raise IncompatibleGraph(why)
        elif not run.incompatible:
            return
        await self._leases.matched(claim, own)

    async def _begin(self) -> _Start:
        """The run's input, once the thread is in order."""
        claim, given = self._claim, first_input(self._claim)
        check_input(self._graph, given)
        # checkpoints with this run's id would say that its input is there
        config: RunnableConfig = {**self._config, "metadata": {}}
        if claim.rollback:
            await roll_back(self._graph, config, claim.rollback)
        if claim.repair:
            guarded = {name for _, tools in tool_nodes(self._graph) for name in tools}
            read = partial(self._leases.cut_off, claim)
            results = partial(cut_off_results, reason=claim.repair, read=read, guarded=guarded)
            await repair_thread(self._graph, config, results)
        if claim.rollback or claim.repair:
            await self._leases.repaired(claim)
        return _Start(self.masks.input(given))

    async def _start_from(self, state: StateSnapshot, resume: dict[str, Any]) -> _Start | Finished | Paused:
        claim = self._claim
        if (state.metadata or {}).get("run_id") != claim.run.id:
            if claim.progress:
                raise ThreadExpired(claim.run.thread_id)  # it has paused once: a new start would do it again
            return await self._begin()  # its worker died before the input was written
        if not state.tasks:  # `next` would not do: it leaves out tasks whose writes are saved
            return self._finished(self._output(state.values))  # it ended, and that was not committed
        if stop := await due_breakpoint(self._graph, state):
            pause = pause_of(run_id=claim.run.id, agent=claim.run.agent, breakpoint_at=stop)
            approved = {a.interrupt_id for a in claim.answers if a.mode == "static"}
            if not approved & {request.interrupt_id for request in pause.requests}:
                return await self._paused(state)
            await pass_leftovers(self._graph, state)
        waiting = {interrupt.id for interrupt in state.interrupts}
        deliver = {key: answer for key, answer in resume.items() if key in waiting}
        return _Start(Command(resume=deliver) if deliver else None)

    async def _paused(self, state: StateSnapshot) -> Paused:
        claim, stop = self._claim, None
        if not self._interrupts:
            # a breakpoint, perhaps a subgraph's own, which only its parent's pending node tells of
            stop = await due_breakpoint(self._graph, state) or StaticBreakpoint(
                checkpoint_id=_checkpoint_id(state), when="before", nodes=state.next
            )
        pause = pause_of(
            run_id=claim.run.id,
            agent=claim.run.agent,
            interrupts=_in_order(self._interrupts or {}, state),
            pending=pending_tool_calls(_messages(state.values)),
            tool_schemas=tool_schemas(self._graph) if self._interrupts else {},
            breakpoint_at=stop,
            masks=self.masks,
        )
        for request in pause.requests:
            what = "what is asked" if request.tool is None else f"what is asked about {request.tool!r}"
            text = dump_shown([request.args, request.value, request.description])
            most = self._settings.max_arguments_bytes
            check_size(what, text, most_bytes=most, setting="PLACET_MAX_ARGUMENTS_BYTES")
        return Paused(
            checkpoint_id=_checkpoint_id(state),
            requests=pause.requests,
            wake_at_ms=pause.wake_at_ms,
            interrupts=pause.interrupts,
            sleeps=pause.sleeps,
        )

    async def _reopened(self, error: Exception) -> Paused:
        """LangGraph refused an answer that fitted the schema we knew: its request is asked again."""
        state = await self._graph.aget_state(self._config)
        waiting = {interrupt.id for interrupt in state.interrupts}
        requests = [
            request
            for request in await self._approvals.of_pause(self._claim.run.id)
            if request.interrupt_id in waiting
        ]
        if not requests:
            raise error
        return Paused(
            checkpoint_id=_checkpoint_id(state),
            requests=requests,
            wake_at_ms=None,
            interrupts=[
                {
                    "id": request.interrupt_id,
                    "value": request.value,
                    "response_schema": request.response_schema,
                }
                for request in requests
            ],
            reopen_reason=self.masks.text(f"the agent did not take the answer: {error}"),
        )

    def _output(self, values: Any) -> Any:
        """What the graph's output schema has of its state: not what middleware keeps there for itself."""
        channels = self._graph.output_channels
        if isinstance(channels, str) or not isinstance(values, dict):
            return values
        return {name: values[name] for name in channels if name in values}


@dataclass(frozen=True, slots=True)
class _Start:
    input: Any


def graph_config(claim: Claim) -> RunnableConfig:
    """The config a graph is driven with: the caller's part, and what is ours alone to set."""
    run = claim.run
    config: RunnableConfig = {**run.config}  # type: ignore[typeddict-item]
    own = {
        "thread_id": run.thread_id,
        "__placet_token": claim.token,
        "__pregel_strict_resume": True,
    }
    principal = {} if run.principal is None else {"principal": run.principal}
    config["configurable"] = {**run.config.get("configurable", {}), **principal, **own}
    # LangGraph keeps the run id with each checkpoint: that is how a later attempt knows its input is there
    config["metadata"] = {**run.config.get("metadata", {}), "run_id": run.id}
    return config


def first_input(claim: Claim) -> Any:
    """The run's input, its messages with ids that are the same in every attempt."""
    given = claim.run.input
    if isinstance(given, Unreadable):
        raise Unsealable
    if not isinstance(given, dict) or not isinstance(given.get("messages"), list):
        return given
    return {
        **given,
        "messages": [_with_id(m, f"{claim.run.id}:{n}") for n, m in enumerate(given["messages"])],
    }


def _with_id(message: Any, message_id: str) -> Any:
    pair = 2
    if isinstance(message, list) and len(message) == pair and all(isinstance(part, str) for part in message):
        message = {"role": message[0], "content": message[1]}
    if isinstance(message, dict) and "content" in message and not message.get("id"):
        return {**message, "id": message_id}
    return message


def _in_order(raised: Mapping[str, Interrupt], state: StateSnapshot) -> list[Interrupt]:
    """The interrupts in the order of their tasks, which is that of a model's calls."""
    known = [raised[one.id] for one in state.interrupts if one.id in raised]
    return known + [one for one in raised.values() if one not in known]


def _messages(values: Any) -> list[Any]:
    messages = values.get("messages") if isinstance(values, dict) else getattr(values, "messages", None)
    return messages if isinstance(messages, list) else []


def _lacks(values: Any) -> str:
    """Say that a limit or an error stands at the end in place of a model's answer; empty if none does."""
    last = next(iter(_messages(values)[-1:]), None)
    if not isinstance(last, AIMessage):
        return ""
    if limiter := last.response_metadata.get(ENDED_BY_LIMIT):
        return f"ended by {limiter}: {last.text}"
    about = last.response_metadata.get(MODEL_FAILURE)
    if not isinstance(about, dict):
        return ""
    attempts = about.get("attempts")
    return f"the model gave no answer: {about.get('type')} in {attempts} attempt{'s' * (attempts != 1)}"


def _checkpoint_id(state: StateSnapshot) -> str:
    return str(state.config["configurable"].get("checkpoint_id", ""))
