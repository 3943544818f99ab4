"""A web application: people follow, answer, steer and stop the work on a newsletter in a browser."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import uvicorn
from pydantic import BaseModel, Field
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

import agentgraph as ag
from examples.models import announce, model_or_script
from examples.web.offline import SCRIPTS, SlowModel

MODEL = model_or_script("openai:gpt-5-mini", SCRIPTS, SlowModel)


# the tree


class Sender(BaseModel):
    """The sender of the newsletter."""

    name: str = Field(min_length=2)
    email: str | None = None


class Order(BaseModel):
    """The order for the newsletter."""

    tone: Literal["plain", "cheerful", "dry"]
    sections: list[str] = Field(min_length=1, description="The headings, in their order.")
    words: int = Field(60, ge=20, le=400)
    price: float = Field(0, ge=0, description="In euros.")
    pictures: bool = False
    sender: Sender


def count_readers() -> int:
    """Count the subscribers."""
    return 1200


def send(subject: str, copies: int, ctx: ag.Context) -> list[str | ag.SetValues]:
    """Send the newsletter to the subscribers."""
    sent = [*ctx.values.get("sent", []), {"subject": subject, "copies": copies}]
    return [f"{copies} copies of “{subject}” are on their way.", ag.SetValues(sent=sent)]


order = ag.human("order", "What shall it look like?", response_schema=Order, output_key="order")
writer = ag.chat_agent(
    "writer",
    MODEL,
    instruction="Write a newsletter on what the user asks for, to this order: {order}. If there is a "
    "draft, rewrite it with the critic's advice. Answer with the newsletter alone.",
    output_key="draft",
)
critic = ag.chat_agent(
    "critic",
    MODEL,
    instruction="Say in a sentence what to change, or call break_loop if it is good: {draft}",
    break_tool=True,
)
facts = ag.chat_agent("facts", MODEL, instruction="Check the facts, in a sentence: {draft}")
style = ag.chat_agent("style", MODEL, instruction="Judge the style, in a sentence: {draft}")
editor = ag.human("editor", "{draft}\n\nA few words to put above it?", output_key="preface")
desk = ag.chat_agent(
    "desk",
    MODEL,
    instruction="Count the readers, send the newsletter to all of them, and report in a sentence. "
    "It is: {preface} {draft}",
    tools=[count_readers, send],
    approve=["send"],
)
refine = ag.loop("refine", [writer, critic], max_iterations=4)
reviews = ag.parallel("reviews", [facts, style, editor])  # a person may answer while they review
newsletter = ag.sequential("newsletter", [order, refine, reviews, desk])


# the application

OWN = Path(__file__).parent
WINDOW = Path(ag.__file__).parent / "window" / "page"  # its forms for questions work in any page
FILES = {
    "/": OWN / "page.html",
    "/page.css": OWN / "page.css",
    "/page.js": OWN / "page.js",
    "/forms.js": WINDOW / "forms.js",
    "/elements.js": WINDOW / "elements.js",
}
HEADERS = {  # the page loads nothing from other servers, and runs no script in texts
    "Content-Security-Policy": "default-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-cache",
}


def make_app(tree: ag.Agent, path: str | PathLike[str]) -> Starlette:
    """Return the application for a tree, with its threads in a SQLite file."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with ag.Runner(tree, checkpointer=path) as app.state.runner:
            yield

    return Starlette(
        routes=[
            *(Route(at, partial(page, path)) for at, path in FILES.items()),
            Route("/thread", thread),
            Route("/events", events),
            Route("/messages", messages, methods=["POST"]),
            Route("/answers", answers, methods=["POST"]),
            Route("/resume", resume, methods=["POST"]),
            Route("/steer", steer, methods=["POST"]),
            Route("/stop", stop, methods=["POST"]),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])],
        exception_handlers={ag.AgentGraphError: refused, HTTPException: refused},
        lifespan=lifespan,
    )


def page(path: Path, request: Request) -> Response:
    """Return a file of the page."""
    return FileResponse(path, headers=HEADERS)


async def thread(request: Request) -> Response:
    """Return the status of a thread and the users' messages; events have the agents' work."""
    found: ag.Thread = await _runner(request).athread(_thread_id(request))
    turns = [[message.text for message in turn.messages] for turn in found.turns]
    return JSONResponse(
        {
            "status": found.status,
            "turns": turns,
            "queued": [message.text for message in found.queued],
            "pending": [question.id for question in found.pending],
        }
    )


async def events(request: Request) -> Response:
    """Stream the events of a thread after the last received one, until no run is active.

    The browser then reconnects by itself, a second later, so it also sees the runs of other tabs.
    """
    after = request.headers.get("last-event-id") or request.query_params.get("after")
    runner = _runner(request)
    follow = runner.afollow(_thread_id(request), after or None)
    await follow  # an error is raised here, before the first byte
    return StreamingResponse(runner.ato_sse(follow, retry=1), media_type="text/event-stream")


async def messages(request: Request) -> Response:
    """Start a turn; for an active run, reject, queue or steer, as the user chose.

    With the number of a turn go back to it: another text edits its message, the same one regenerates.
    """
    body = await _body(request)
    if (turn := body.get("turn")) is not None:
        await _edit(_runner(request), _thread_id(request), turn, _text(body))
        return _accepted()
    await _runner(request).astart(
        _text(body), thread_id=_thread_id(request), while_running=body.get("while_running", "refuse")
    )
    return _accepted()


async def answers(request: Request) -> Response:
    """Answer questions, by their ids: an active run takes the answers, otherwise a run starts."""
    body = await _body(request)
    await _runner(request).astart(thread_id=_thread_id(request), answers=body, while_running="steer")
    return _accepted()


async def resume(request: Request) -> Response:
    """Resume a thread that was stopped, failed or was killed."""
    await _body(request)
    await _runner(request).astart(thread_id=_thread_id(request))
    return _accepted()


async def steer(request: Request) -> Response:
    """Send a message to the run on a thread."""
    await _runner(request).asteer(_thread_id(request), _text(await _body(request)))
    return _accepted()


async def stop(request: Request) -> Response:
    """Stop the run on a thread before its next step."""
    await _body(request)
    await _runner(request).astop(_thread_id(request))
    return _accepted()


async def refused(request: Request, error: Exception) -> Response:
    """Answer a rejected call with the status and the text of its error."""
    if isinstance(error, ag.AgentGraphError):
        body = {"error": type(error).__name__, "detail": str(error)}
        return JSONResponse(body, error.http_status)
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": "HTTPException", "detail": error.detail}, error.status_code)


async def _edit(runner: ag.Runner, thread_id: str, turn: object, text: str) -> None:
    """Run a turn again, with another text of its last message; later turns stay on an older line."""
    found = await runner.athread(thread_id)
    if found.pending:
        raise HTTPException(409, "a question is open; answer it before you edit a message")
    steps = [each.step for each in await runner.avisits(thread_id) if each.turn == turn]
    if not isinstance(turn, int) or not steps:
        raise HTTPException(422, "the thread has no such turn; choose one of its turns")
    edited = found.turns[turn].messages[-1].model_copy(update={"content": text})
    await runner.astart([edited], thread_id=thread_id, at=steps[0])


def _runner(request: Request) -> ag.Runner:
    runner: ag.Runner = request.app.state.runner
    return runner


def _thread_id(request: Request) -> str:
    return request.query_params.get("thread", "")


async def _body(request: Request) -> dict[str, Any]:
    """Return the posted JSON object; pages of other sites cannot post JSON."""
    if request.headers.get("content-type") != "application/json":
        raise HTTPException(415, "the body is not JSON; post application/json")
    try:
        body = await request.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise HTTPException(400, "the body is not a JSON object; post one")
    return body


def _text(body: dict[str, Any]) -> str:
    text = body.get("text")
    if not isinstance(text, str) or not text.strip():
        raise HTTPException(422, "the message has no text; write one")
    return text


def _accepted() -> Response:
    return JSONResponse({}, 202)


if __name__ == "__main__":
    announce()
    uvicorn.run(make_app(newsletter, "web.db"), port=8000, timeout_graceful_shutdown=1)
