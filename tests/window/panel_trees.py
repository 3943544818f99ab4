"""A server of the panels for tests: one tree that does what the first word of a message says."""

import sys
from contextlib import ExitStack
from pathlib import Path

import uvicorn
from helpers.web_trees import HOSTILE, GatedModel, ask, clerk_script, draft, gates_of, mail, user_texts
from langchain_core.messages import AIMessage, BaseMessage
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

import agentgraph as ag
from agentgraph.cli.page_trees import PageTrees
from agentgraph.cli.target import Target
from agentgraph.testing import ScriptedChatModel, call, calls
from agentgraph.window.app import make_app
from agentgraph.window.trees import Trees

HERE = Path(__file__).parent
TOKEN = "token-of-the-tests"
MEGABYTES = 5
NUMBER = {"type": "object", "properties": {"Answer": {"type": "integer", "minimum": 1}}}


def count_words(text: str) -> str:
    """Count the words of a text."""
    return str(len(text.split()))


def counter_script(messages: list[BaseMessage]) -> str | AIMessage:
    last = messages[-1]
    if last.type == "tool":
        return f"There are {last.text} words."
    return calls(call("count_words", f"count-{len(messages)}", text=user_texts(messages)[-1]))


def letter(ctx: ag.Context) -> list[str | ag.SetValues]:
    mood = ctx.values.get("mood", "kind")
    text = f"Dear all,\nwe are {mood}.\nYours"
    return [
        f"A {mood} letter about {user_texts(ctx.messages)[-1]}",
        ag.SetValues(letter=text, mood=mood),
    ]


def sender(ctx: ag.Context) -> str:
    return f"Sent a {ctx.values['mood']} letter, as the boss says {ctx.values['verdict']}."


def everything(folder: str) -> ag.Agent:
    """Return the tree; what waits does so until a file is in the folder of its thread."""

    def gates_in(ctx: ag.Context) -> Path:
        return gates_of(folder, ctx.config["configurable"]["thread_id"])

    def gated(ctx: ag.Context) -> GatedModel:
        return GatedModel(responses=draft, gates=str(gates_in(ctx)))

    def fail(ctx: ag.Context) -> str:
        if not (gates_in(ctx) / "1").exists():
            raise ValueError(HOSTILE)
        return "Now it works."

    writer = ag.chat_agent("writer", gated, instruction="Write, with care.", output_key="draft")
    critic = ag.function_agent("critic", lambda ctx: "Once more.")
    clerk = ag.chat_agent(
        "clerk", ScriptedChatModel(responses=clerk_script), tools=[mail], approve=["mail"]
    )
    counter = ag.chat_agent("counter", ScriptedChatModel(responses=counter_script), tools=[count_words])
    post = ag.sequential(
        "post",
        [
            ag.function_agent("author", letter),
            ag.human("boss", "May it be sent?", output_key="verdict"),
            ag.function_agent("sender", sender),
        ],
    )
    steps = [ag.function_agent(f"step{number}", lambda ctx: "Done.") for number in range(5)]
    return ag.switch(
        "does",
        lambda ctx: user_texts(ctx.messages)[-1].split()[0],
        {
            "ask": ag.function_agent("ask", ask),
            "fail": ag.function_agent("fail", fail),
            "shout": ag.function_agent("shout", lambda ctx: [HOSTILE, ag.SetValues(shouted=HOSTILE)]),
            "long": ag.function_agent("long", lambda ctx: "long words " * (MEGABYTES * 2**20 // 11)),
            "write": ag.loop("refine", [writer, critic], max_iterations=3),
            "mail": clerk,
            "count": counter,
            "post": post,
            "steps": ag.sequential("steps", steps),
            "two": ag.parallel(
                "two", [ag.human(name, f"{name}?", response_schema=NUMBER) for name in ("one", "other")]
            ),
            "meanwhile": ag.parallel(
                "meanwhile", [*(ag.human(name, f"{name}?") for name in ("here", "there")), writer]
            ),
            "both": ag.parallel("both", [ag.human("left", "Left?"), ag.human("right", "Right?")]),
        },
        otherwise=ag.function_agent("nobody", lambda ctx: "Nobody knows what that means."),
    )


async def panels_page(request: Request) -> Response:
    """Return the page of the tests, which has the panels and nothing else."""
    return FileResponse(HERE / f"panel_page{Path(request.url.path).suffix}")


if __name__ == "__main__":
    _, name, folder, port = sys.argv
    with ExitStack() as opened:
        if name == "file":
            target = Target(name=f"{folder}/tree.py:tree")
            page = PageTrees(target, f"{folder}/runs.db", opened).page("the tests")
        else:
            runner = ag.Runner(everything(folder), checkpointer=f"{folder}/runs.db")
            page = Trees({"": opened.enter_context(runner)}, "the tests")
        app = make_app(page, TOKEN)
        names = ("/page/panels.html", "/page/panels.js")  # where pages may be opened
        app.router.routes[:0] = [Route(name, panels_page) for name in names]
        uvicorn.run(app, port=int(port), log_level="warning", timeout_graceful_shutdown=1)
