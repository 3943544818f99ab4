"""Serves the page on the loopback address: its files, its calls, and a stream of thread updates.

Each call needs the token and has to come from a page of this server: see `guard.py`.
"""

import json
import logging
from collections.abc import AsyncIterator
from hashlib import sha256
from typing import NoReturn

from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from agentgraph.errors import AgentGraphError
from agentgraph.safe_repr import reason
from agentgraph.window.calls import Window
from agentgraph.window.failures import failure_of
from agentgraph.window.guard import Guard, has_token
from agentgraph.window.joined import PAGE, joined_modules
from agentgraph.window.trees import Trees
from agentgraph.window.updates import thread_updates

log = logging.getLogger("agentgraph.window")

MOST_BYTES = 32 * 2**20
"""Maximum size of the body of a call, in bytes."""
_KINDS = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
_NO_TOKEN = "the token is missing or wrong; open the address that `agentgraph inspect` printed"


def make_app(window: Window | Trees, token: str) -> Starlette:
    """Return the application of a window, or of several.

    Args:
        window: Answers the calls; or the windows of several trees.
        token: The secret that a call sends in the header `X-Token`, and `/news` in its query.
    """
    app = Starlette(
        routes=[
            Route("/", _index),
            Route("/page/joined.js", _joined),
            Route("/page/{name}", _file),
            Route("/call/{name}", _call, methods=["POST"]),
            Route("/news", _updates),
        ],
        exception_handlers={HTTPException: _error_response},
        middleware=[Middleware(Guard)],
    )
    app.state.trees = window if isinstance(window, Trees) else Trees.of(window)
    app.state.token = token
    return app


async def _index(request: Request) -> Response:
    return _file_as_answer(request, "index.html")


async def _joined(request: Request) -> Response:
    # One request: separate requests for the modules take most of the time until the page is shown.
    return _content_as_answer(request, joined_modules("start.js").encode(), ".js")


async def _file(request: Request) -> Response:
    return _file_as_answer(request, request.path_params["name"])


def _file_as_answer(request: Request, name: str) -> Response:
    path = next((each for each in PAGE.iterdir() if each.name == name), None)
    if path is None or path.suffix not in _KINDS or not path.is_file():
        raise HTTPException(404, "the page has no such file; open the page at /")
    return _content_as_answer(request, path.read_bytes(), path.suffix)


def _content_as_answer(request: Request, content: bytes, suffix: str) -> Response:
    tag = f'"{sha256(content).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=_KINDS[suffix], headers=headers)


async def _call(request: Request) -> Response:
    name = request.path_params["name"]
    if not has_token(request, request.app.state.token):
        raise HTTPException(403, _NO_TOKEN)
    arguments = await _arguments_of(request)
    try:
        window = _window(request)
        return _answer(await run_in_threadpool(window.call, name, arguments))
    except Exception as error:
        return _answer(*failure_of(name, error, "server"))


def _window(request: Request) -> Window:
    """Return the window of the tree in the query, or the first.

    Raises:
        AgentGraphError: No tree has that name.
    """
    trees: Trees = request.app.state.trees
    return trees.window(request.query_params.get("tree", ""))


async def _arguments_of(request: Request) -> object:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(
            415, "the arguments of a call must be JSON; send Content-Type: application/json"
        )
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > MOST_BYTES:
                raise HTTPException(
                    413, f"the body is longer than {MOST_BYTES // 2**20} MB; send less at a time"
                )
    except ClientDisconnect:
        raise HTTPException(400, "the body is incomplete; send the call again") from None
    try:
        arguments = json.loads(bytes(body), parse_constant=_no_number)
        if b"\\u" in body:
            json.dumps(arguments, ensure_ascii=False).encode()  # an escape may be half a character
        return arguments
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is not JSON; correct it: {reason(error)}") from None


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")


async def _updates(request: Request) -> Response:
    if not has_token(request, request.app.state.token, in_query=True):
        raise HTTPException(403, _NO_TOKEN)
    thread_id = request.query_params.get("thread", "")
    if not thread_id:
        raise HTTPException(422, "news: thread is missing; add one, such as /news?thread=monday")
    since = request.headers.get("last-event-id") or request.query_params.get("since") or None

    try:
        window = _window(request)
    except AgentGraphError as error:
        raise HTTPException(404, f"news: {error}") from None

    async def sent() -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n"
        async for kind, data in thread_updates(window, thread_id, since):
            name = b"id: %s\n" % _line(data["upto"]) if kind == "timeline" else b""
            yield b"%sevent: %s\ndata: %s\n\n" % (name, kind.encode(), _encoded(data))

    return StreamingResponse(
        sent(), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
    )


def _line(text: str) -> bytes:
    return "".join(text.splitlines()).encode()


def _answer(data: object, status: int = 200) -> Response:
    headers = {"Cache-Control": "no-store"}
    return Response(_encoded(data), status, headers, media_type="application/json")


def _encoded(data: object) -> bytes:
    # Values that JSON cannot represent become a text or null, so that the page is shown all the same.
    try:
        return to_json(data, inf_nan_mode="null", fallback=repr)
    except ValueError:  # a text has half a character
        return json.dumps(data, separators=(",", ":"), default=repr).encode()


async def _error_response(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    log.warning("%s %s is rejected: %s", request.method, request.url.path, error.detail)
    return _answer({"error": "HTTPException", "detail": error.detail}, error.status_code)
