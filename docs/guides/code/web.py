from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Body, FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse

import agentgraph as ag
from report import report


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with ag.Runner(report, checkpointer="web.db") as app.state.runner:
        yield


app = FastAPI(lifespan=lifespan)


@app.exception_handler(ag.AgentGraphError)
async def refuse(request: Request, error: ag.AgentGraphError) -> JSONResponse:
    return JSONResponse({"error": type(error).__name__, "detail": str(error)}, error.http_status)


@app.post("/threads/{thread_id}/turns", status_code=202)
async def turn(thread_id: str, request: Request, text: str = Body(embed=True)) -> str:
    return await request.app.state.runner.astart(text, thread_id=thread_id)


@app.post("/threads/{thread_id}/answers", status_code=202)
async def answer(thread_id: str, request: Request, answers: Any = Body()) -> str:
    runner = request.app.state.runner  # an active run takes the answers, otherwise a run starts
    return await runner.astart(thread_id=thread_id, answers=answers, while_running="steer")


@app.post("/threads/{thread_id}/messages", status_code=202)
async def steer(thread_id: str, request: Request, text: str = Body(embed=True)) -> list[str]:
    return await request.app.state.runner.asteer(thread_id, text)


@app.post("/threads/{thread_id}/stop", status_code=202)
async def stop(thread_id: str, request: Request) -> None:
    await request.app.state.runner.astop(thread_id)


@app.get("/threads/{thread_id}/events")
async def events(thread_id: str, request: Request) -> StreamingResponse:
    runner, after = request.app.state.runner, request.headers.get("last-event-id")
    lines = runner.ato_sse(await runner.afollow(thread_id, after))
    return StreamingResponse(lines, media_type="text/event-stream")
