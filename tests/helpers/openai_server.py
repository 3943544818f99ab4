"""A server on the loopback address that follows a script in OpenAI's chat completions protocol.

It answers `POST /v1/chat/completions`, whole or as server-sent events, one step of its script
for each request, and rejects unknown requests with a JSON error. So it does with
`POST /v1/responses` (`openai_responses`), where an answer is a text.
"""

import json
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

from helpers import openai_responses

Body = dict[str, Any]

PATH = "/v1/chat/completions"
KNOWN = {
    "messages",
    "model",
    "n",
    "parallel_tool_calls",
    "response_format",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
}
PARTS = {"text", "image_url", "input_audio", "file", "refusal"}


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of an assistant message; its arguments are JSON, in the pieces that stream."""

    id: str
    name: str
    arguments: tuple[str, ...]

    def delta(self, index: int, piece: int | None = None) -> Body:
        """Return the delta of the chunk with a piece of the arguments, or of all pieces."""
        function: Body = {} if piece else {"name": self.name}
        function["arguments"] = "".join(self.arguments) if piece is None else self.arguments[piece]
        named = {} if piece else {"id": self.id, "type": "function"}
        return {"index": index, **named, "function": function}


@dataclass(frozen=True, slots=True)
class Reply:
    """An assistant message.

    Attributes:
        pieces: Its text in the pieces that it streams in; a generator may wait between them, or
            raise a `Failure`.
        finish_reason: Why the message ends.
        calls: Its tool calls; their pieces stream in turn, as they do where calls are parallel.
        cached: How many tokens of its input come from the provider's cache.
    """

    pieces: Iterable[str] = ()
    finish_reason: str = "stop"
    calls: tuple[Call, ...] = ()
    cached: int = 0

    def deltas(self) -> Iterator[Body]:
        """Yield the delta of each chunk."""
        yield {"role": "assistant", "content": ""}
        for piece in self.pieces:
            yield {"content": piece}
        for nth in range(max((len(call.arguments) for call in self.calls), default=0)):
            for index, call in enumerate(self.calls):
                if nth < len(call.arguments):
                    yield {"tool_calls": [call.delta(index, nth)]}

    def message(self) -> Body:
        """Return the whole message."""
        said = "".join(self.pieces)
        message: Body = {"role": "assistant", "content": said or (None if self.calls else said)}
        calls = [call.delta(index) for index, call in enumerate(self.calls)]
        return {**message, "refusal": None, **({"tool_calls": calls} if calls else {})}

    def choice(self, is_over: bool = True, **what: Any) -> Body:
        finish = "tool_calls" if self.calls else self.finish_reason
        return {"index": 0, **what, "logprobs": None, "finish_reason": finish if is_over else None}


class Failure(Exception):
    """An answer with an error status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    def body(self) -> Body:
        return {"error": {"message": str(self), "type": "error", "param": None, "code": self.status}}


Answer = str | Reply | Failure
Step = Answer | Callable[[Body], Answer]
"""The answer to one request, or a function that makes it of the request's body."""


class OpenAIServer(ThreadingHTTPServer):
    """The server; give it a script before it is asked.

    Attributes:
        script: A step for each request, in the order in which they come.
        requests: The body of each request that was not rejected.
        errors: The errors of the server itself.
    """

    daemon_threads = False  # so that closing the server waits for its threads

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script: list[Step] = []
        self.requests: list[Body] = []
        self.errors: list[BaseException] = []
        self._lock = threading.Lock()

    @property
    def base_url(self) -> str:
        """The address for `ChatOpenAI(base_url=...)`."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    def reply_to(self, body: Body) -> Reply:
        """Record a request, and return the reply of its step."""
        with self._lock:
            nth = len(self.requests)
            if nth >= len(self.script):
                raise Failure(400, f"the script has {nth} steps, and this is request {nth + 1}")
            self.requests.append(body)
        step = self.script[nth]
        answer = step(body) if callable(step) else step
        if isinstance(answer, Failure):
            raise answer
        return Reply(re.findall(r"\s*\S+|\s+$", answer)) if isinstance(answer, str) else answer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep an error, unless the client only went away."""
        error = sys.exception()
        if error is not None and not isinstance(error, ConnectionError):
            self.errors.append(error)


@contextmanager
def serving() -> Iterator[OpenAIServer]:
    """Start a server; at the end of the block it is closed and its threads have ended."""
    with OpenAIServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: OpenAIServer
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            if self.path not in _PROTOCOLS:
                raise Failure(404, f"unknown request: POST {self.path}")
            fault_of, whole_of, pieces_of = _PROTOCOLS[self.path]
            body = json.loads(sent)
            if fault := fault_of(body):
                raise Failure(400, fault)
            reply = self.server.reply_to(body)
            whole = None if body.get("stream") else whole_of(body, reply)
        except Failure as failure:
            self._send_json(failure.status, failure.body())
            return
        if whole is not None:
            self._send_json(200, whole)
            return
        self._send_head(200, "text/event-stream")
        try:
            for piece in pieces_of(body, reply):
                self._send_event(json.dumps(piece))
        except Failure as failure:
            self._send_event(json.dumps(failure.body()))
        self._send_event("[DONE]")

    def do_GET(self) -> None:
        self._send_json(404, Failure(404, f"unknown request: GET {self.path}").body())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _send_json(self, status: int, body: Body) -> None:
        payload = json.dumps(body).encode()
        self._send_head(status, "application/json", ("Content-Length", str(len(payload))))
        self.wfile.write(payload)

    def _send_event(self, data: str) -> None:
        self.wfile.write(f"data: {data}\n\n".encode())

    def _send_head(self, status: int, content_type: str, *more: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (("Content-Type", content_type), ("Connection", "close"), *more):
            self.send_header(name, value)
        self.end_headers()


def _fault(body: Body) -> str | None:
    """Return the fault of a request: calls and results must match, as OpenAI demands."""
    if unknown := sorted(body.keys() - KNOWN):
        return f"this server does not know {', '.join(unknown)}; it knows {', '.join(sorted(KNOWN))}"
    if "stream_options" in body and not body.get("stream"):
        return "stream_options is for streams only"
    waiting: set[str] = set()
    for message in [*body["messages"], {"role": "user", "content": "the end"}]:
        content = message.get("content")
        if not isinstance(content, str | list) and not message.get("tool_calls"):
            return f"the content of {message!r} is neither text nor a list"
        if isinstance(content, list) and any(part.get("type") not in PARTS for part in content):
            return f"the content of {message!r} has parts of no known type"
        if message["role"] == "tool":
            if message.get("tool_call_id") not in waiting:
                return f"{message!r} answers no call of the assistant message before it"
            waiting.remove(message["tool_call_id"])
        elif waiting:
            return f"the calls {', '.join(sorted(waiting))} are not answered"
        else:
            waiting = {call["id"] for call in message.get("tool_calls") or ()}
    return None


def _head(body: Body, kind: str) -> Body:
    made = f"chatcmpl-{uuid4().hex}"
    return {"id": made, "object": f"chat.{kind}", "created": 0, "model": body["model"]}


def _completion(body: Body, reply: Reply) -> Body:
    message = reply.message()
    usage = _usage(body, message["content"] or "", reply.cached)
    choices = [{**reply.choice(message=message), "index": nth} for nth in range(body.get("n", 1))]
    return {**_head(body, "completion"), "choices": choices, "usage": usage}


def _chunks(body: Body, reply: Reply) -> Iterator[Body]:
    head, said = _head(body, "completion.chunk"), ""
    for delta in reply.deltas():
        said += delta.get("content", "")
        yield {**head, "choices": [reply.choice(is_over=False, delta=delta)]}
    yield {**head, "choices": [reply.choice(delta={})]}
    if (body.get("stream_options") or {}).get("include_usage"):
        yield {**head, "choices": [], "usage": _usage(body, said, reply.cached)}


def _usage(body: Body, said: str, cached: int) -> Body:
    """Return the usage, where each word is a token."""
    sent = sum(len(str(message["content"]).split()) for message in body["messages"])
    new = len(said.split())
    details = {"prompt_tokens_details": {"cached_tokens": cached}} if cached else {}
    return {"prompt_tokens": sent, "completion_tokens": new, "total_tokens": sent + new, **details}


def _response(body: Body, reply: Reply) -> Body:
    return openai_responses.response(body, "".join(reply.pieces))


def _response_events(body: Body, reply: Reply) -> Iterator[Body]:
    return openai_responses.events(body, "".join(reply.pieces))


_PROTOCOLS: dict[str, tuple[Callable[..., str | None], Callable[..., Body], Callable[..., Any]]] = {
    PATH: (_fault, _completion, _chunks),
    openai_responses.PATH: (openai_responses.fault, _response, _response_events),
}
"""For each path: what finds a fault in a request, and what makes the answer, whole or in pieces."""
