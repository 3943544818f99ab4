"""Accepts requests of this server's pages alone: checks `Host`, `Origin` and `Sec-Fetch-Site`.

The loopback address alone does not keep other pages out. Any page in the browser can send requests to
it, and a DNS name that points to it makes them look like ours. So a request must name this address. A
call must also come from a page of this address and send the token. The token is not a cookie, because
a browser sends cookies by itself.
"""

import hmac
import logging

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("agentgraph.window")

NAMES = ("127.0.0.1", "localhost", "[::1]")
"""The names of the loopback address."""
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data: blob:; font-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_OPEN = ("/", "/page/")
"""Paths served without a token: the page itself, which contains no data."""


class Guard:
    """Rejects requests of other pages; adds headers that hide the answers from them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or reject it."""
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return None  # a WebSocket: the server closes it
        fault = fault_of(scope)

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        if fault is None:
            return await self._app(scope, receive, sent)
        log.warning("%s %s is rejected: %s", scope["method"], scope["path"], fault)
        body = {"error": "ForbiddenError", "detail": fault}
        return await JSONResponse(body, 403)(scope, receive, sent)


def fault_of(scope: Scope) -> str | None:
    """Return the reason to reject a request; None to accept it."""
    headers = Headers(scope=scope)
    port = scope["server"][1]
    hosts = {f"{name}:{port}" for name in NAMES} | ({*NAMES} if port == 80 else set())
    named = headers.getlist("host")
    if len(named) != 1 or named[0].lower() not in hosts:
        return f"this server is reached at 127.0.0.1:{port} only; open the address that it printed"
    origins = headers.getlist("origin")
    is_ours = all(each.lower() == f"http://{named[0].lower()}" for each in origins)
    sites = {"same-origin", "none"} if _is_open(scope["path"]) else {"same-origin"}
    is_ours = is_ours and (
        headers.get("sec-fetch-site", "same-origin") in sites or _is_link(scope, headers)
    )
    return None if is_ours else "other pages may not use this server; use its own page"


def _is_open(path: str) -> bool:
    return path == _OPEN[0] or path.startswith(_OPEN[1])


def _is_link(scope: Scope, headers: Headers) -> bool:
    return scope["path"] == _OPEN[0] and headers.get("sec-fetch-mode") == "navigate"


def has_token(request: Request, token: str, *, in_query: bool = False) -> bool:
    """Return whether a request has the token.

    Args:
        request: The request.
        token: The token.
        in_query: Whether the token may be in the query, because `EventSource` cannot set headers.
    """
    brought = request.headers.get("x-token") or (in_query and request.query_params.get("token")) or ""
    return hmac.compare_digest(brought.encode(), token.encode())
