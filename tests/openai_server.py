"""A server on the loopback address that speaks OpenAI's chat completions protocol from a script.

It answers `POST /v1/chat/completions`, whole or as server-sent events, one step of its script
for each request, and refuses with a JSON error what it does not know.
"""

import json
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

Body = dict[str, Any]

PATH = "/v1/chat/completions"
KNOWN = {
    "messages",
    "model",
    "parallel_tool_calls",
    "response_format",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
}
ROLES = {"system", "user", "assistant", "tool"}


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of an assistant message.

    Attributes:
        id: Its id.
        name: The tool.
        arguments: Its arguments as JSON, in the pieces that they stream in.
    """

    id: str
    name: str
    arguments: tuple[str, ...]

    def whole(self) -> dict[str, Any]:
        """Return the call as a message has it."""
        function = {"name": self.name, "arguments": "".join(self.arguments)}
        return {"id": self.id, "type": "function", "function": function}

    def delta(self, index: int, piece: int) -> dict[str, Any]:
        """Return what the chunk with a piece of the arguments adds to the message."""
        named = {"id": self.id, "type": "function"} if piece == 0 else {}
        function = {"name": self.name} if piece == 0 else {}
        return {"index": index, **named, "function": {**function, "arguments": self.arguments[piece]}}


@dataclass(frozen=True, slots=True)
class Reply:
    """An assistant message.

    Attributes:
        pieces: Its text in the pieces that it streams in; a generator may wait between them, or
            raise a `Failure`.
        finish_reason: Why the message ends.
        calls: Its tool calls; their pieces stream in turn, as they do where calls are parallel.
    """

    pieces: Iterable[str] = ()
    finish_reason: str = "stop"
    calls: tuple[Call, ...] = ()

    def deltas(self) -> Iterator[dict[str, Any]]:
        """Yield what each chunk adds to the message."""
        for piece in self.pieces:
            yield {"content": piece}
        for nth in range(max((len(call.arguments) for call in self.calls), default=0)):
            for index, call in enumerate(self.calls):
                if nth < len(call.arguments):
                    yield {"tool_calls": [call.delta(index, nth)]}

    def message(self) -> dict[str, Any]:
        """Return the message, made of the same pieces."""
        said = "".join(self.pieces)
        if not self.calls:
            return {"role": "assistant", "content": said, "refusal": None}
        calls = [call.whole() for call in self.calls]
        return {"role": "assistant", "content": said or None, "refusal": None, "tool_calls": calls}


class Failure(Exception):
    """An answer with an error status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    def body(self) -> Body:
        """Return the error as OpenAI tells it."""
        return {"error": {"message": str(self), "type": "error", "param": None, "code": self.status}}


Answer = str | Reply | Failure
Step = Answer | Callable[[Body], Answer]
"""The answer to one request, or a function that makes it of the request's body."""


class OpenAIServer(ThreadingHTTPServer):
    """The server; give it a script before it is asked.

    Attributes:
        script: A step for each request, in the order in which they come.
        requests: The body of each request that was not refused.
        errors: What went wrong in the server itself.
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
        """Keep an error; a client that went away is none."""
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
            body = self._checked(sent)
            reply = self.server.reply_to(body)
            answer = None if body.get("stream") else _completion(body, reply)
        except Failure as failure:
            self._send_json(failure.status, failure.body())
            return
        if answer is None:
            self._send_events(body, reply)
        else:
            self._send_json(200, answer)

    def do_GET(self) -> None:
        self._send_json(404, Failure(404, f"unknown request: GET {self.path}").body())

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what `http.server` refuses in JSON too."""
        self._send_json(code, Failure(code, message or "bad request").body())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _checked(self, sent: bytes) -> Body:
        if self.path != PATH:
            raise Failure(404, f"unknown request: POST {self.path}")
        if not self.headers.get("Authorization", "").startswith("Bearer "):
            raise Failure(401, "the request carries no API key")
        try:
            body = json.loads(sent)
        except ValueError:
            raise Failure(400, "the request is no JSON") from None
        if fault := _fault(body):
            raise Failure(400, fault)
        return dict(body)

    def _send_json(self, status: int, body: Body) -> None:
        payload = json.dumps(body).encode()
        self._send_head(status, "application/json", {"Content-Length": str(len(payload))})
        self.wfile.write(payload)

    def _send_events(self, body: Body, reply: Reply) -> None:
        self._send_head(200, "text/event-stream", {})
        try:
            for chunk in _chunks(body, reply):
                self._send_event(json.dumps(chunk))
        except Failure as failure:
            self._send_event(json.dumps(failure.body()))
        self._send_event("[DONE]")

    def _send_event(self, data: str) -> None:
        self.wfile.write(f"data: {data}\n\n".encode())

    def _send_head(self, status: int, content_type: str, headers: dict[str, str]) -> None:
        self.send_response(status)
        head = {"Content-Type": content_type, "Connection": "close", **headers}
        for name, value in head.items():
            self.send_header(name, value)
        self.end_headers()


def _fault(body: Any) -> str | None:
    if not isinstance(body, dict):
        return "the request is no JSON object"
    if unknown := sorted(body.keys() - KNOWN):
        return f"this server does not know {', '.join(unknown)}; it knows {', '.join(sorted(KNOWN))}"
    if not isinstance(body.get("model"), str):
        return "the request names no model"
    if not isinstance(body.get("messages"), list) or not body["messages"]:
        return "the request has no messages"
    if "stream_options" in body and not body.get("stream"):
        return "stream_options is for streams only"
    faults = (fault for message in body["messages"] if (fault := _message_fault(message)))
    return next(faults, None) or _pairing_fault(body["messages"])


def _message_fault(message: Any) -> str | None:
    if not isinstance(message, dict) or message.get("role") not in ROLES:
        return f"{message!r} is no message of {', '.join(sorted(ROLES))}"
    if not isinstance(message.get("content"), str | list) and not message.get("tool_calls"):
        return f"the content of {message!r} is neither text nor a list"
    return None


def _pairing_fault(messages: list[Any]) -> str | None:
    """Refuse calls without answers and answers without calls, as OpenAI does."""
    open_calls: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                return f"{message!r} answers no call of the assistant message before it"
            open_calls.remove(message["tool_call_id"])
        elif open_calls:
            return f"the calls {', '.join(sorted(open_calls))} are not answered"
        else:
            open_calls = {call["id"] for call in message.get("tool_calls") or ()}
    return f"the calls {', '.join(sorted(open_calls))} are not answered" if open_calls else None


def _completion(body: Body, reply: Reply) -> Body:
    message = reply.message()
    return {
        **_head(body, "chat.completion"),
        "choices": [_choice(_finish(reply), message=message)],
        "usage": _usage(body, message["content"] or ""),
    }


def _chunks(body: Body, reply: Reply) -> Iterator[Body]:
    head = _head(body, "chat.completion.chunk")
    said = ""
    yield {**head, "choices": [_choice(None, delta={"role": "assistant", "content": ""})]}
    for delta in reply.deltas():
        said += delta.get("content", "")
        yield {**head, "choices": [_choice(None, delta=delta)]}
    yield {**head, "choices": [_choice(_finish(reply), delta={})]}
    if (body.get("stream_options") or {}).get("include_usage"):
        yield {**head, "choices": [], "usage": _usage(body, said)}


def _finish(reply: Reply) -> str:
    return "tool_calls" if reply.calls else reply.finish_reason


def _head(body: Body, kind: str) -> Body:
    identity = f"chatcmpl-{uuid4().hex}"
    return {"id": identity, "object": kind, "created": int(time.time()), "model": body["model"]}


def _choice(finish_reason: str | None, **what: Any) -> Body:
    return {"index": 0, **what, "logprobs": None, "finish_reason": finish_reason}


def _usage(body: Body, said: str) -> Body:
    """Return the usage, where each word is a token."""
    prompt = sum(len(str(message["content"]).split()) for message in body["messages"])
    completion = len(said.split())
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
