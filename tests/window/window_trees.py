"""A server for the tests of the window: one tree that does what the first word of a message says."""

import os
import sys
import time
from pathlib import Path

import uvicorn
from helpers.web_trees import HOSTILE, GatedModel, draft, gates_of, user_texts
from langchain_core.messages import AIMessage, BaseMessage

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls
from agentgraph.window.app import make_app
from agentgraph.window.calls import Window

TOKEN = "token-of-the-tests"
RTL = "\u202egnp.exe \u2067\u05d0\u05d1"
MEGABYTES = 5


def said(ctx: ag.Context) -> list[str]:
    """Return the words of the user's message."""
    return user_texts(ctx.messages)[-1].split()


class Gates:
    """Files that let a thread go on."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def folder(self, ctx: ag.Context) -> Path:
        return gates_of(self._folder, ctx.config["configurable"]["thread_id"])

    def step(self, name: str) -> ag.Agent:
        """Return an agent that waits for a file if the message says so, and says its name."""

        def run(ctx: ag.Context) -> str:
            lap = "" if ctx.iteration is None else ctx.iteration
            while said(ctx)[0] == "gated" and not (self.folder(ctx) / f"{name}{lap}").exists():
                time.sleep(0.02)
            return f"{name} was here."

        return ag.function_agent(name, run)

    def model(self, ctx: ag.Context) -> GatedModel:
        return GatedModel(responses=draft, gates=str(self.folder(ctx)))

    def fail(self, ctx: ag.Context) -> str:
        if not (self.folder(ctx) / "mended").exists():
            raise ValueError(f"The ink is empty. {HOSTILE}")
        return "Now it works."


def newspaper(gates: Gates) -> ag.Agent:
    """Three laps, eight branches, a question."""
    review = ag.parallel("review", [gates.step(f"reader_{number}") for number in range(1, 9)])
    refine = ag.loop("refine", [gates.step("writer"), gates.step("critic")], max_iterations=3)
    boss = ag.human("boss", "Print it?", response_schema={"enum": ["yes", "no"]})
    return ag.sequential("newspaper", [refine, review, boss])


def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing new in the {where}"


def lead_script(messages: list[BaseMessage]) -> str | AIMessage:
    if messages[-1].type == "tool":
        return "Both have looked."
    return calls(call("look", "look-1", where="hive"), call("scout", "scout-1", request="the field"))


def desk(name: str, to: str | None) -> ag.Agent:
    def script(messages: list[BaseMessage]) -> str | AIMessage:
        return calls(call(f"transfer_to_{to}")) if to else f"{name} has it."

    return ag.chat_agent(name, ScriptedChatModel(responses=script))


def house(gates: Gates) -> ag.Agent:
    """An agent as a tool, agents of a function, steps, hops."""
    scout = ag.chat_agent("scout", ScriptedChatModel(responses=lambda messages: "Bees."))
    model = ScriptedChatModel(responses=lead_script)
    lead = ag.chat_agent("lead", model, tools=[look, ag.agent_tool(scout)])
    helper = ag.function_agent("helper", lambda ctx: "helped ")

    def helped(ctx: ag.Context) -> str:
        return str(ctx.run("helper", "one")) + str(ctx.run("helper", "two"))

    caller = ag.function_agent("caller", helped, agents=[helper])
    undo = ag.function_agent("undo", lambda ctx: "undone")
    steps = [
        ag.step(gates.step("third"), depends_on=["first", "second"]),
        ag.step(gates.step("first"), compensate=undo),
        ag.step(gates.step("second"), depends_on=["first"]),
        ag.step(gates.step("beside"), depends_on=["first"]),
    ]
    desks = ag.swarm("desks", [ag.handoff(desk("ann", "bob")), desk("bob", None)])
    return ag.sequential("house", [lead, caller, ag.workflow("flow", steps), desks])


def pages() -> ag.Agent:
    """Items by key: page 7 asks, and of each hundred the fiftieth fails."""

    def keys(ctx: ag.Context) -> list[str]:
        return [f"page {number}" for number in range(int(said(ctx)[1]))]

    def read(ctx: ag.Context) -> str | ag.Ask:
        assert ctx.item is not None
        page = str(ctx.item.value)
        number = int(page.split()[1])
        if number == 7 and not ctx.answered:
            return ag.Ask(f"Is {page} legible?", {"type": "boolean"})
        if number % 100 == 50:
            raise ValueError(f"{page} is torn")
        return f"{page} read"

    reader = ag.function_agent("read", read)
    return ag.each("pages", reader, keys, key=lambda page: page, on_error="collect", errors_key="torn")


def count(ctx: ag.Context) -> str | ag.BreakLoop:
    is_last = ctx.iteration is not None and ctx.iteration + 1 >= int(said(ctx)[1])
    return ag.BreakLoop() if is_last else "."


def tick(ctx: ag.Context) -> str | ag.BreakLoop:
    return ag.BreakLoop() if "outer[1]" in ctx.address else "Tick."


def shout(ctx: ag.Context) -> str:
    return f"{RTL} {HOSTILE} [link](javascript:window.hacked=1)"


def huge(ctx: ag.Context) -> str:
    return "bees " * (MEGABYTES * 1_000_000 // 5)


def tree_of(folder: str) -> ag.Agent:
    gates = Gates(folder)
    laps = ag.loop("laps", [gates.step("walk")], max_iterations=5)
    inner = ag.loop("inner", [ag.function_agent("tick", tick)], max_iterations=3)
    return ag.switch(
        "does",
        lambda ctx: said(ctx)[0],
        {
            "print": newspaper(gates),
            "gated": ag.sequential("gated", [laps, gates.step("rest")]),
            "write": ag.chat_agent("novelist", gates.model),
            "fail": ag.function_agent("printer", gates.fail),
            "shout": ag.function_agent("shout", shout),
            "huge": ag.function_agent("huge", huge),
            "pages": pages(),
            "count": ag.loop("counting", [ag.function_agent("counter", count)], max_iterations=2000),
            "house": house(gates),
            "nest": ag.loop("outer", [inner], max_iterations=2),
            "rhyme": ag.chat_agent(
                "poet",
                ScriptedChatModel(responses=lambda messages: f"{messages[0].text} Done."),
                instruction="Rhyme on {topic}.",
            ),
        },
        otherwise=ag.function_agent("nobody", lambda ctx: "Nobody knows what that means."),
    )


if __name__ == "__main__":
    _, name, folder, port = sys.argv
    window = Window(ag.Runner(tree_of(folder), checkpointer=Path(folder) / "runs.db"), name)
    app = make_app(window, os.environ.get("TEST_TOKEN", TOKEN))
    uvicorn.run(app, port=int(port), log_level="warning", timeout_graceful_shutdown=1)
