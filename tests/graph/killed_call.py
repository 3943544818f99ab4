"""A program whose function runs agents, and that dies in one: `killed_call.py FILE die REQUEST`."""

import os
import sys
from collections.abc import Iterator

import agentgraph as ag
from agentgraph.show.lines import event_text

FILE, MODE, REQUEST = sys.argv[1:]


def flow(ctx: ag.Context) -> str:
    return str(ctx.run("team", REQUEST))


def last(ctx: ag.Context) -> str:
    if MODE == "die":
        os.kill(os.getpid(), 9)
    return f"after {ctx.messages[-1].text}"


def first(ctx: ag.Context) -> str:
    return f"{MODE}: {ctx.messages[-1].text}"


team = ag.sequential("team", [ag.function_agent("first", first), ag.function_agent("last", last)])
with ag.sqlite_saver(FILE) as saver:
    runner = ag.Runner(ag.function_agent("flow", flow, agents=[team]), checkpointer=saver)
    events: Iterator[ag.AgentEvent] = (
        runner.run("Go.", thread_id="t") if MODE == "die" else runner.resume("t")
    )
    try:
        for event in events:
            print(f"{event.address}: {event_text(event)}")
    except ag.AgentGraphError as error:
        print(error)
