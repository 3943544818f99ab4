"""Agents for front ends that speak AG-UI, such as CopilotKit: its run input in, its events out.

`arun` runs what a client asks for, `events` translates agent events alone, and `frontend_tools` is the
middleware by which chat agents call the front end's tools. The package ag-ui-protocol is needed: the
extra `agui`. Served by FastAPI (or Starlette), where a refusal is a status:

```
app, runner = FastAPI(), ag.Runner(chat, checkpointer="threads.db")

@app.post("/")
async def run(run_input: RunAgentInput) -> Response:
    try:
        events = await agui.arun(runner, run_input)
    except ag.ThreadError as error:  # busy, pending questions, answers that do not fit
        return JSONResponse({"error": str(error)}, status_code=409)
    encoder = EventEncoder()
    lines = (encoder.encode(event) async for event in events)
    return StreamingResponse(lines, media_type=encoder.get_content_type())
```

What the client shows:

- Messages, reasoning, tool calls and results have the ids that they have on the thread; messages have
  the agent as their `name`. Where they were said is in their `metadata["agentgraph"]`: agent_name,
  address, step.
- What is void leaves the conversation: by a `MESSAGES_SNAPSHOT` without it.
- A step is open for each agent that runs, and those around it; its name is the address.
- Questions are the interrupts of `RUN_FINISHED`; `metadata["agentgraph"]` has the question as data.
- The state has the values of the run.
- All else is a `CUSTOM` event, whose value has `agent_name` and `address`: "agentgraph.custom" (with
  `data`), "agentgraph.transfer_to", "agentgraph.chosen", "agentgraph.exit", "agentgraph.break_loop",
  "agentgraph.discarded" (`ids`), "agentgraph.error" (`error`), "agentgraph.content" (the images and
  files in a reply).
"""

from agentgraph.errors import AgentGraphError

try:
    from ag_ui.core import RunAgentInput as _RunAgentInput
except ImportError as error:
    raise AgentGraphError(
        "agentgraph.agui needs the package ag-ui-protocol: pip install 'agentgraph[agui]'"
    ) from error

from agentgraph.agui.event_stream import EventStream, arun
from agentgraph.agui.frontend_tools import frontend_tools
from agentgraph.agui.translation import events

__all__ = ["EventStream", "arun", "events", "frontend_tools"]

del _RunAgentInput
