from ag_ui.core import RunAgentInput
from ag_ui.encoder import EventEncoder
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

import agentgraph as ag
from agentgraph import agui
from report import report

app, runner = FastAPI(), ag.Runner(report, checkpointer="front.db")


@app.exception_handler(ag.AgentGraphError)
async def refuse(request: Request, error: ag.AgentGraphError) -> JSONResponse:
    return JSONResponse({"error": str(error)}, error.http_status)


@app.post("/")
async def run(run_input: RunAgentInput) -> Response:
    events = await agui.arun(runner, run_input)
    lines = (EventEncoder().encode(event) async for event in events)
    return StreamingResponse(lines, media_type=EventEncoder().get_content_type())
