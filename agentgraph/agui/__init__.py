"""Agents for AG-UI front ends, such as CopilotKit: AG-UI's run input in, AG-UI's events out.

`arun` runs the request of a client, `events` only translates agent events, and `frontend_tools` is the
middleware with which chat agents call the front end's tools. It needs the package ag-ui-protocol, the
extra `agui`. An endpoint of FastAPI (or Starlette), with a status for a rejected request:

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

The client receives:

- Messages, reasoning, tool calls and results have their ids on the thread; messages have the agent as
  their `name`. Their `metadata["agentgraph"]` has their origin: agent_name, address, step.
- Discarded messages leave the conversation: by a `MESSAGES_SNAPSHOT` without them.
- A step is open for each running agent and those around it; its name is the address.
- Questions are the interrupts of `RUN_FINISHED`; `metadata["agentgraph"]` has the question as data. At
  once they are also the `interrupt` of a `CUSTOM` event "agentgraph.interrupted": other branches may
  still run, and a request with `resume` answers them meanwhile.
- The state has the values of the run.
- Other events are `CUSTOM` events, whose value has `agent_name` and `address`: "agentgraph.custom"
  (with `data`; data of a tool also with `call` and `tool_call_id`), "agentgraph.transfer_to",
  "agentgraph.chosen", "agentgraph.exit", "agentgraph.break_loop", "agentgraph.discarded" (`ids`),
  "agentgraph.default" (`default`: the answer to a question whose deadline has passed),
  "agentgraph.error" (`error`), "agentgraph.content" (the images and files in a reply).
"""

from agentgraph.errors import AgentGraphError
from agentgraph.errors import pip_install as _pip_install

try:
    from ag_ui.core import RunAgentInput as _RunAgentInput
except ImportError as error:
    raise AgentGraphError(
        f"agentgraph.agui needs the package ag-ui-protocol; run {_pip_install('agui')}"
    ) from error

from agentgraph.agui.event_stream import EventStream, arun
from agentgraph.agui.frontend_tools import frontend_tools
from agentgraph.agui.translation import events

__all__ = ["EventStream", "arun", "events", "frontend_tools"]

del _RunAgentInput
