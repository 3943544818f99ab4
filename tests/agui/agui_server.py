"""A server of AG-UI: a tree at each path, on the loopback address, in a thread or a process."""

import asyncio
import operator
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

import uvicorn
from ag_ui.core import RunAgentInput
from ag_ui.encoder import EventEncoder
from helpers import mail
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

import agentgraph as ag
from agentgraph import agui
from agentgraph.testing import ScriptedChatModel, call, calls


def scripted(fn: Any) -> ScriptedChatModel:
    """Return a model that makes each reply of what it is asked."""
    return ScriptedChatModel(responses=fn)


def once(*made: Any, text: str = "", then: str = "Done.") -> ScriptedChatModel:
    """Return a model that makes calls after a user's message, and then says what came of them."""

    def reply(messages: list[BaseMessage]) -> AIMessage | str:
        results = [str(each.text) for each in messages if isinstance(each, ToolMessage)]
        return " ".join([then, *results]) if results else calls(*made, text=text)

    return scripted(reply)


def weather(city: str) -> str:
    """Return the weather of a city."""
    return f"sunny in {city}"


class State(TypedDict, total=False):
    topic: str
    log: Annotated[list[str], operator.add]


@ag.agent
def notes(ctx: ag.Context) -> ag.SetValues:
    return ag.SetValues(topic="bees", log=[f"turn of {ctx.values.get('topic', 'nothing')}"])


@ag.agent
def tells(ctx: ag.Context) -> str:
    return f"About {ctx.values['topic']}."


@ag.agent
def writer(ctx: ag.Context) -> str:
    return f"Draft {ctx.iteration}."


@ag.agent
def critic(ctx: ag.Context) -> str | ag.BreakLoop:
    return ag.BreakLoop() if ctx.iteration == 1 else "Too short."


@ag.agent
def breaks(ctx: ag.Context) -> str:
    raise ValueError("the disk is full")


GATE = threading.Event()
"""Opens what waits."""


@ag.agent
async def waits(ctx: ag.Context) -> Any:
    yield AIMessageChunk("One, ", id="words")
    while not GATE.is_set():
        await asyncio.sleep(0.01)
    yield AIMessageChunk("two.", id="words")


ARRIVED: set[str] = set()
"""The threads on which the other branch has arrived."""


@ag.agent
def arrives(ctx: ag.Context) -> str:
    ARRIVED.add(ctx.config["configurable"]["thread_id"])
    return "Here."


@ag.agent
async def meets(ctx: ag.Context) -> str:
    while ctx.config["configurable"]["thread_id"] not in ARRIVED:
        await asyncio.sleep(0.01)
    return "We met."


@ag.agent
def mind(ctx: ag.Context) -> Iterator[AIMessageChunk]:
    key = f"mind-{ctx.config['configurable']['thread_id']}"
    for piece in ("Hm, ", "well."):
        yield AIMessageChunk([{"type": "reasoning", "reasoning": piece, "index": 0}], id=key)
    yield AIMessageChunk([{"type": "text", "text": "Yes.", "index": 1}], id=key)


@ag.agent
def first(ctx: ag.Context) -> str:
    return "First."


def trees() -> dict[str, ag.Agent]:
    """Return the trees by their paths."""
    tool_call = call("weather", "w1", city="Bonn")
    chat = ag.chat_agent("chat", once(tool_call, text="Let me look."), tools=[weather])
    ann = ag.chat_agent("ann", scripted(lambda _: "one two three four five"))
    bob = ag.chat_agent("bob", scripted(lambda _: "six seven eight nine ten"))
    refine = ag.loop("refine", [writer, critic], max_iterations=3)
    boss = ag.human("boss", "Print it?", response_schema={"enum": ["yes", "no"]})
    research = ag.chat_agent("research", scripted(lambda _: "They hum."))
    color = call("set_color", "c1", color="red")
    look = call("look", "c2")
    return {
        "chat": chat,
        "parallel": ag.sequential("both", [ag.parallel("talk", [ann, bob]), first]),
        "loop": ag.sequential("report", [refine, boss]),
        "supervisor": ag.supervisor(
            "lead", once(call("research", "s1", request="bees")), [research], mode="tools"
        ),
        "approval": ag.chat_agent(
            "post", once(call("mail", "m1", to="Ann")), tools=[mail], approve=["mail"]
        ),
        "frontend": ag.chat_agent(
            "ui",
            once(color, call("weather", "w2", city="Rome"), look),
            tools=[weather],
            middleware=[agui.frontend_tools()],
        ),
        "values": ag.sequential("note", [notes, tells]),
        "failure": ag.sequential("job", [first, breaks]),
        "mind": mind,
        "waiting": ag.sequential("slow", [first, waits]),
        "meeting": ag.parallel("meeting", [ag.sequential("left", [boss, arrives]), meets]),
        "branches": ag.parallel("both", [ag.sequential("left", [boss, first]), waits]),
    }


def app_of(runners: dict[str, ag.Runner]) -> Starlette:
    """Return an application that serves runners by their paths."""

    async def run(request: Request) -> Response:
        run_input = RunAgentInput.model_validate(await request.json())
        try:
            events = await agui.arun(runners[request.path_params["tree"]], run_input)
        except ag.AgentGraphError as error:
            text = f"{type(error).__name__}: {error}"
            return JSONResponse({"error": text}, 409 if isinstance(error, ag.ThreadError) else 422)
        encoder = EventEncoder()
        lines = (encoder.encode(event) async for event in events)
        return StreamingResponse(lines, media_type=encoder.get_content_type())

    return Starlette(routes=[Route("/{tree}", run, methods=["POST"])])


def runners_of(path: Path | None = None) -> dict[str, ag.Runner]:
    """Return a runner for each tree; their threads are in memory, or in a file."""
    return {
        name: ag.Runner(tree, checkpointer=path, values=State if name == "values" else None)
        for name, tree in trees().items()
    }


@contextmanager
def serving(runners: dict[str, ag.Runner]) -> Iterator[str]:
    """Serve runners in a thread, and give the address."""
    server = uvicorn.Server(uvicorn.Config(app_of(runners), port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        host, port = server.servers[0].sockets[0].getsockname()
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        thread.join()


if __name__ == "__main__":  # <folder of the threads> [open], or --for <a command that gets the address>
    if sys.argv[1] == "--for":
        GATE.set()
        with serving(runners_of()) as address:
            ended = subprocess.run([*sys.argv[2:], address], check=False)
        sys.exit(ended.returncode)
    if "open" in sys.argv[2:]:
        GATE.set()
    folder = Path(sys.argv[1])
    with serving(runners_of(folder / "threads.db")) as address:
        print(address, flush=True)
        while not (folder / "end").exists():
            time.sleep(0.01)
