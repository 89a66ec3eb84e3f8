"""A server on loopback that speaks OpenAI's chat completions and Anthropic's messages, by script.

    with WireServer() as wire:
        wire.script = [Reply(status=429, headers={"retry-after": "2"}), Reply("hello")]
        model = wire.openai()  # or wire.anthropic(): the real client, its own retries off
        await model.ainvoke("hi")
        wire.requests[0].body["messages"]

It runs in a thread; worker processes reach it too, by `wire.url` (`url + "/v1"` is OpenAI's base_url).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Literal, Self

from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from placet.middleware.testing import Call

Provider = Literal["openai", "anthropic"]
_PATHS: dict[str, Provider] = {"/v1/chat/completions": "openai", "/v1/messages": "anthropic"}
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer; what is asked to be streamed is, word by word."""

    text: str = ""
    calls: Sequence[Call] = ()
    status: int = 200
    """Another one makes it an error with `text` as its message, `code` its code (OpenAI), `kind` its type."""
    code: str | None = None
    kind: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    silent: bool = False
    """It never comes: the client's time runs out."""
    breaks: bool = False
    """The connection is cut after the first words of a stream, or before an answer that is not streamed."""


@dataclass(frozen=True, slots=True)
class WireRequest:
    """What a client asked."""

    provider: Provider
    model: str
    body: dict[str, Any]
    headers: Mapping[str, str]
    at: float
    """`time.monotonic()` when it was there."""


Script = Sequence[Reply] | Callable[[WireRequest], Reply]
"""Replies in turn, the last one again and again, or a function that is called in the server's threads."""


class _Server(ThreadingHTTPServer):
    """With room for many who connect at once: the library's own, for five, refuses the others."""

    request_queue_size = 512
    daemon_threads = True


class WireServer:
    """Serves within its `with`; `script` may be set anew at any time, `requests` is all that was asked."""

    def __init__(self, script: Script = (Reply("ok"),)) -> None:
        self.requests: list[WireRequest] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self.script = script
        owner = self

        class Handler(_Handler):
            wire = owner

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def script(self) -> Script:
        return self._script

    @script.setter
    def script(self, script: Script) -> None:
        with self._lock:
            self._script, self._next = script, 0

    def openai(self, model: str = "gpt-test", **options: Any) -> ChatOpenAI:
        """A real client of this server, which does not retry by itself."""
        given: dict[str, Any] = {"api_key": SecretStr("test"), "max_retries": 0, "timeout": 30, **options}
        return ChatOpenAI(model=model, base_url=f"{self.url}/v1", **given)

    def anthropic(self, model: str = "claude-test", **options: Any) -> ChatAnthropic:
        """As `openai`."""
        given: dict[str, Any] = {"api_key": SecretStr("test"), "max_retries": 0, "timeout": 30, **options}
        return ChatAnthropic(model_name=model, base_url=self.url, stop=None, **given)

    def asked(self, model: str | None = None) -> list[WireRequest]:
        """The requests so far, of one model or all."""
        with self._lock:
            return [one for one in self.requests if model in (None, one.model)]

    def take(self, request: WireRequest) -> Reply:
        """Note a request, and choose its reply."""
        with self._lock:
            self.requests.append(request)
            script = self._script
            if not callable(script):
                reply = script[min(self._next, len(script) - 1)]
                self._next += 1
                return reply
        return script(request)

    def wait_closed(self) -> None:
        """Wait for the server's end."""
        self._closing.wait()


class _Handler(BaseHTTPRequestHandler):
    wire: WireServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Say nothing: `requests` has it."""

    def do_POST(self) -> None:
        provider = _PATHS.get(self.path.partition("?")[0])
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", "0"))))
        if provider is None:
            self._send(404, {"error": {"message": f"nothing at {self.path}", "type": "not_found_error"}}, {})
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = WireRequest(provider, body.get("model", ""), body, headers, time.monotonic())
        reply = self.wire.take(request)
        number = len(self.wire.requests)
        streamed = bool(body.get("stream"))
        if reply.silent:
            self.close_connection = True
            self.wire.wait_closed()
        elif reply.status != 200:
            self._send(reply.status, _ERROR[provider](reply), reply.headers)
        elif reply.breaks and not streamed:
            self.close_connection = True
        elif streamed:
            self._stream(_STREAM[provider](reply, request, number), reply)
        else:
            self._send(200, _WHOLE[provider](reply, request, number), reply.headers)

    def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response_only(status)
        for name, text in {"date": self.date_time_string(), **headers}.items():
            self.send_header(name, text)

    def _send(self, status: int, value: Any, headers: Mapping[str, str]) -> None:
        data = json.dumps(value).encode()
        self._begin(status, {"content-type": "application/json", **headers})
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, lines: Iterator[str], reply: Reply) -> None:
        self.close_connection = True
        self._begin(200, {"content-type": "text/event-stream", **reply.headers})
        self.send_header("transfer-encoding", "chunked")
        self.send_header("connection", "close")
        self.end_headers()
        for number, line in enumerate(lines):
            if reply.breaks and number == 3:
                return  # without the last chunk the client knows that it was cut
            data = line.encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


def _kind(reply: Reply) -> str:
    return reply.kind or _TYPES.get(reply.status, "api_error")


def _openai_error(reply: Reply) -> Any:
    message = reply.text or f"scripted {reply.status}"
    return {"error": {"message": message, "type": _kind(reply), "param": None, "code": reply.code}}


def _anthropic_error(reply: Reply) -> Any:
    message = reply.text or f"scripted {reply.status}"
    return {"type": "error", "error": {"type": _kind(reply), "message": message}, "request_id": "req_test"}


def _call_id(call: Call, number: int, index: int) -> str:
    return call.id or f"call_{number}_{index}"


def _words(text: str) -> list[str]:
    return [word if not index else f" {word}" for index, word in enumerate(text.split(" "))] if text else []


_OPENAI_USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


def _openai_calls(reply: Reply, number: int) -> list[dict[str, Any]]:
    return [
        {
            "id": _call_id(call, number, index),
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.args)},
        }
        for index, call in enumerate(reply.calls)
    ]


def _openai_whole(reply: Reply, request: WireRequest, number: int) -> Any:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.calls:
        message["tool_calls"] = _openai_calls(reply, number)
    finish = "tool_calls" if reply.calls else "stop"
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": request.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": _OPENAI_USAGE,
    }


def _openai_stream(reply: Reply, request: WireRequest, number: int) -> Iterator[str]:
    def chunk(choices: list[Any], **more: Any) -> str:
        value = {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion.chunk",
            "created": 1_700_000_000,
            "model": request.model,
            "choices": choices,
            **more,
        }
        return f"data: {json.dumps(value)}\n\n"

    def delta(value: dict[str, Any], finish: str | None = None) -> str:
        return chunk([{"index": 0, "delta": value, "finish_reason": finish, "logprobs": None}])

    yield delta({"role": "assistant", "content": ""})
    for word in _words(reply.text):
        yield delta({"content": word})
    for index, call in enumerate(_openai_calls(reply, number)):
        yield delta({"tool_calls": [{"index": index, **call}]})
    yield delta({}, "tool_calls" if reply.calls else "stop")
    if (request.body.get("stream_options") or {}).get("include_usage"):
        yield chunk([], usage=_OPENAI_USAGE)
    yield "data: [DONE]\n\n"


def _anthropic_blocks(reply: Reply, number: int) -> list[dict[str, Any]]:
    text = [{"type": "text", "text": reply.text}] if reply.text else []
    return text + [
        {"type": "tool_use", "id": _call_id(call, number, index), "name": call.name, "input": call.args}
        for index, call in enumerate(reply.calls)
    ]


def _anthropic_whole(reply: Reply, request: WireRequest, number: int) -> Any:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": _anthropic_blocks(reply, number),
        "stop_reason": "tool_use" if reply.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 7, "output_tokens": 3},
    }


def _anthropic_stream(reply: Reply, request: WireRequest, number: int) -> Iterator[str]:
    def event(kind: str, **more: Any) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n"

    whole = _anthropic_whole(reply, request, number)
    yield event("message_start", message={**whole, "content": [], "stop_reason": None})
    for index, block in enumerate(whole["content"]):
        if block["type"] == "text":
            yield event("content_block_start", index=index, content_block={"type": "text", "text": ""})
            deltas = [{"type": "text_delta", "text": word} for word in _words(block["text"])]
        else:
            yield event("content_block_start", index=index, content_block={**block, "input": {}})
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        for delta in deltas:
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=ended, usage=whole["usage"])
    yield event("message_stop")


_ERROR = {"openai": _openai_error, "anthropic": _anthropic_error}
_WHOLE = {"openai": _openai_whole, "anthropic": _anthropic_whole}
_STREAM = {"openai": _openai_stream, "anthropic": _anthropic_stream}
