"""One attempt at a tool call, under the ledger."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import structlog
from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp, GraphDrained, GraphInterrupt, is_invalid_resume

from placet import errors
from placet.checkpoint.codec import Codec
from placet.checkpoint.serde import CheckpointSerde
from placet.json_values import canonical, shown

from ..calling import message_of
from ..gate.reviews import policy_of
from ..limits.refused import CallRefused, LimitExceeded
from ..pii.masked_calls import MaskedCall
from ..reach import StoreUnavailable, reaching_the_store
from ..shared import CallId
from .declared import UnknownCall
from .replays import counted, earlier_error, skip
from .unknown import Unknown, settle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from langchain_core.messages import AIMessage, ToolCall
    from langgraph.prebuilt.tool_node import ToolCallRequest

    from ..shared import CallOutcome, CallRecord, CallState, RunContext
    from .declared import Declaration

log = structlog.get_logger("placet")

MOST_RESULT_BYTES = 4 * 1024 * 1024
"""Of a result that is kept; a larger one's call is unknown if it is executed a second time."""
_MOST_ERROR_TEXT = 10_000


unsafe_retry: ContextVar[Callable[[Exception], bool] | None] = ContextVar("placet_unsafe_retry", default=None)
"""Says of an error whether the call would be tried again, where nobody has said that it may run twice."""

_idempotency_key: ContextVar[str | None] = ContextVar("placet_idempotency_key", default=None)


def current_idempotency_key() -> str:
    """A key for the tool call under way, the same one in each attempt at it and after each pause.

    Hand it to an interface that does a thing once for each key, as Stripe's.

    Raises:
        NoToolCall: when none is under way, or no ledger guards it.
    """
    key = _idempotency_key.get()
    if key is None:
        raise errors.NoToolCall("no tool call is under way that a ledger guards")
    return key


class Attempt:
    """One attempt at a tool call; `begin`, then `executed` around the tool, then how it ended."""

    def __init__(
        self, run: RunContext, request: ToolCallRequest, declaration: Declaration, *, messages_key: str
    ) -> None:
        self._run = run
        self._request = request
        self._declaration = declaration
        self._codec = Codec(run.serde or CheckpointSerde(), b"")
        self._messages_key = messages_key
        self._call = call_id_of(request, messages_key)
        self._number = run.enter(self._call.key, request.runtime)
        self._start = 0
        self._unsafe_retry = unsafe_retry.get()
        self._consumed = [0, 0]
        name = canonical([run.run_id, self._call.key])
        self._idempotency_key = blake2b(name, digest_size=16, person=b"placet.key").hexdigest()

    async def begin(self) -> Any:
        """Mark it as started, or return the result that it has; None: the tool is to be executed.

        Raises:
            GraphInterrupt: when a person is asked whether it ran.
            LeaseLost, StoreUnavailable: when it must not start.
            OutcomeUnknown: when it may have run, and is to fail then.
            EarlierToolError: when it ran and failed.
        """
        for number in self._run.passed(self._call.key):
            self._skip_failed(await self._mark(number=number))
        record = await self._mark()
        while record.state != "new":
            self._start = record.start
            result = self._stored(record) if record.state != "unknown" else None
            if result is None:
                result = await self._settle(record)
            if result is not None:
                return result
            record = await self._mark(again=record.start)
        self._start = record.start
        return None

    @contextmanager
    def executed(self) -> Iterator[None]:
        """Make it the current tool call, and count what it takes from LangGraph's counters."""
        token = _idempotency_key.set(self._idempotency_key)
        retry = unsafe_retry.set(None)  # what an agent inside the tool calls is its own matter
        try:
            with counted(self._request.runtime.config) as self._consumed:
                yield
        finally:
            unsafe_retry.reset(retry)
            _idempotency_key.reset(token)

    async def succeeded(self, result: Any) -> None:
        """Store the result."""
        failed = isinstance(result, ToolMessage) and result.status == "error"
        await self._end("done", result, "failed" if failed else "succeeded")

    async def ended_by(self, error: BaseException) -> None:
        """Store the error, or take the start back if it did not run; one that was cancelled stays unknown."""
        if self._did_not_run(error):
            shared, start = self._run.shared, self._start
            await self._told(
                shared.withdraw_call(self._run.run_id, self._call, attempt=self._number, start=start)
            )
        elif isinstance(error, CallRefused):
            await self._keep("unknown", b"", f"it was cut off, {error}", "failed")
        elif _is_failure(error):
            text = str(error).encode("utf-8", "replace").decode()[:_MOST_ERROR_TEXT]
            if self._is_asked_about(error):
                note = f"failed with {type(error).__name__}, and may have taken effect all the same: {text}"
                self._run.enter_again(self._call.key)
                await self._keep("unknown", b"", note, "unknown")
                return
            self._run.failed(self._call.key, self._number)
            await self._end("failed", [type(error).__name__, text], "failed")

    def _is_asked_about(self, error: BaseException) -> bool:
        """Whether the tool or a person has to say if it may run once more: a retry takes it for granted."""
        if self._unsafe_retry is None or self._declaration.on_unknown == "rerun":
            return False
        if isinstance(error, LimitExceeded):  # none follows
            return False
        return isinstance(error, Exception) and self._unsafe_retry(error)

    def _did_not_run(self, error: BaseException) -> bool:
        """Whether it is entered again from its beginning, or a limit had no room for it."""
        if isinstance(error, CallRefused):
            ns = self._request.runtime.config.get("configurable", {}).get("checkpoint_ns", "")
            return error.is_of(ns, self._request.tool_call["id"])
        return isinstance(error, GraphInterrupt | GraphDrained) or is_invalid_resume(error)

    async def _mark(self, *, number: int = 0, again: int = 0) -> CallRecord:
        run = self._run
        with reaching_the_store():
            return await run.shared.start_call(
                run.run_id, self._call, attempt=number or self._number, again=again
            )

    def _skip_failed(self, record: CallRecord) -> None:
        """Take from LangGraph's counters what a failed attempt took before the node was entered again."""
        if record.state == "failed":
            with suppress(errors.UnreadableCheckpoint):
                skip(self._request.runtime.config, self._codec.load(record.payload, iter(()))[1])

    def _stored(self, record: CallRecord) -> Any:
        """Return the result that is stored, or raise the error; None if it cannot be read any more."""
        try:
            value, consumed = self._codec.load(record.payload, iter(()))
        except errors.UnreadableCheckpoint as error:
            log.warning("call.unreadable", tool=self._call.tool, error=str(error))
            return None
        skip(self._request.runtime.config, consumed)
        log.info("call.replayed", tool=self._call.tool, attempt=self._number, state=record.state)
        if record.state == "failed":
            self._run.failed(self._call.key, self._number)
            raise earlier_error(*value)
        return value

    async def _settle(self, record: CallRecord) -> Any:
        masked = MaskedCall(self._request, self._messages_key)
        call = UnknownCall(
            tool=self._call.tool,
            args=self._request.tool_call["args"],
            tool_call_id=self._call.tool_call_id,
            idempotency_key=self._idempotency_key,
        )
        unknown = Unknown(
            call=call,
            raw=replace(call, args=masked.request.tool_call["args"]),
            key=self._call.key,
            attempt=self._number,
            start=record.start,
            note=record.note,
            started_ms=record.started_ms,
            policy=policy_of(self._request.state, self._call.tool_call_id),
        )
        run = self._run
        settled = await settle(unknown, self._declaration, run, self._request.runtime.config)
        if settled.result is None:
            return None
        result = masked.masked(settled.result)
        await self._end("done", result, settled.outcome)
        return result

    async def _end(self, state: CallState, value: Any, outcome: CallOutcome) -> None:
        payload, note = self._packed(value)
        await self._keep("unknown" if note else state, payload, note, outcome)

    async def _keep(self, state: CallState, payload: bytes, note: str, outcome: CallOutcome) -> None:
        run = self._run
        await self._told(
            run.shared.end_call(
                run.run_id,
                self._call,
                attempt=self._number,
                start=self._start,
                state=state,
                payload=payload,
                note=note,
                outcome=outcome,
            )
        )

    def _packed(self, value: Any) -> tuple[bytes, str]:
        """Serialize with the checkpointer's serializer; what cannot be kept is empty, with the reason."""
        try:
            payload = self._codec.whole([value, self._consumed])
        except Exception as error:  # noqa: BLE001 - a serializer that is brought raises what it likes
            payload, note = b"", str(error) or type(error).__name__
        else:
            size = len(payload)
            note = f"{size} bytes, more than {MOST_RESULT_BYTES}" if size > MOST_RESULT_BYTES else ""
        if not note:
            return payload, ""
        log.warning("call.not_stored", tool=self._call.tool, reason=note)
        return b"", f"ran to its end, but what it returned was not kept: {note}"

    async def _told(self, change: Awaitable[None]) -> None:
        """Tell the store after the fact: while it is away, the run goes on as far as it can."""
        try:
            with reaching_the_store():
                await change
        except StoreUnavailable as error:
            log.warning("call.not_stored", tool=self._call.tool, reason=str(error))


def _is_failure(error: BaseException) -> bool:
    if isinstance(error, errors.OutcomeUnknown | LimitExceeded):  # of a call inside the tool
        return True
    return isinstance(error, Exception) and not isinstance(error, GraphBubbleUp)


def call_id_of(request: ToolCallRequest, messages_key: str) -> CallId:
    """Name a call so that every execution of it has that name, and no other call of the run has.

    Providers use their ids again in each of a model's answers, hence the id of the message; some even within
    one, hence the arguments.
    """
    call = request.tool_call
    task = request.runtime.config.get("configurable", {}).get("checkpoint_ns", "")
    message = message_of(call["id"], request.state, messages_key)
    return CallId(call_key(call, message, task=task), call["name"], call["id"] or "")


def call_key(call: ToolCall, message: AIMessage | None, *, task: str) -> str:
    """Name a call of a message that was executed in `task`, of which the namespace above it counts."""
    parts = [task.rpartition("|")[0], task if message is None else message.id or task, call["id"]]
    if message is not None and sum(other["id"] == call["id"] for other in message.tool_calls) > 1:
        parts += [call["name"], shown(call["args"])]
    return blake2b(canonical(parts), digest_size=12, person=b"placet.call").hexdigest()
