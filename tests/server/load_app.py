"""A web server of a tree for many clients: `uvicorn load_app:app`, in a folder of its own."""

from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage
from load_tree import tree
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

import agentgraph as ag

runner = ag.Runner(tree(), checkpointer=Path("threads.db"), max_running=1000)


def refused(error: ag.AgentGraphError) -> Response:
    status = 404 if isinstance(error, ag.UnknownThreadError) else 409
    return JSONResponse({"error": type(error).__name__}, status_code=status)


async def begin(request: Request) -> Response:
    """Begin a turn, or go on with one that a kill or a stop has cut off."""
    thread_id = request.path_params["id"]
    status = (await runner.athread(thread_id)).status
    try:
        if status == "new":
            await runner.astart("Go.", thread_id=thread_id)
        elif status == "stopped":
            await runner.astart(thread_id=thread_id)
    except ag.AgentGraphError as error:
        return refused(error)
    return JSONResponse({"status": status})


async def act(request: Request) -> Response:
    """Stop a run, or send it a message; a client may repeat it."""
    thread_id, what = request.path_params["id"], request.path_params["what"]
    try:
        if what == "stop":
            await runner.astop(thread_id)
        else:
            await runner.asteer(thread_id, [HumanMessage("Hm.", id=f"hm-{thread_id}")])
    except ag.AgentGraphError as error:
        return refused(error)
    return JSONResponse({})


async def follow(request: Request) -> Response:
    thread_id, after = request.path_params["id"], request.headers.get("last-event-id")
    try:
        events: Any = await runner.afollow(thread_id, after)
    except ag.AgentGraphError as error:
        return refused(error)
    return StreamingResponse(runner.ato_sse(events), media_type="text/event-stream")


app = Starlette(
    routes=[
        Route("/{id}", begin, methods=["POST"]),
        Route("/{id}/events", follow),
        Route("/{id}/{what}", act, methods=["POST"]),
    ]
)
