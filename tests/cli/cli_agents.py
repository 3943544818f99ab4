"""The agents that the tests of the command line run, as the text of a Python file."""

import signal

from helpers.commands import Commands, wait_until

AGENTS = """
import time
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls


def says(name, text):
    def fn(ctx) -> str:
        with open("ledger", "a") as ledger:
            ledger.write(name + "\\n")
        return text(ctx) if callable(text) else text

    return ag.function_agent(name, fn)


def echoes(messages):
    return "told: " + messages[0].text


def fails(ctx):
    if not Path("mended").exists():
        raise ValueError("the printer is jammed")
    return "printed"


def hangs(ctx):
    Path("hanging").touch()
    while not Path("go").exists():
        time.sleep(0.01)
    return "went on"


first, last = says("first", "one"), says("last", "three")
echo = says("echo", lambda ctx: ctx.messages[-1].text)
chat = ag.chat_agent("chat", ScriptedChatModel(responses=[echoes]), instruction="About {topic}.")
unmade = ag.sequential("unmade", [first, ag.chat_agent("typo", "opnai:gpt-5")])
failing = ag.sequential("failing", [first, says("failer", fails), last])
hanger = says("hanger", hangs)
alone = ag.sequential("alone", [first, hanger])
longer = ag.sequential("longer", [first, hanger, last])
renamed = ag.Runner(ag.sequential("renamed", [first, hanger]), renames={"alone": "renamed"})
hanging = ag.sequential("hanging", [first, ag.parallel("pair", [hanger, says("other", "two")]), last])
boss = ag.human("boss", "Print it?", response_schema=Literal["yes", "no"], output_key="word")
deciding = ag.parallel("deciding", [hanger, ag.sequential("desk", [boss, last])])
asking = ag.sequential("asking", [first, boss, says("printer", lambda ctx: ctx.values["word"])])
hurried = ag.human("hurried", "Print it?", timeout=0.01, default="no")
size = ag.human("size", "How many?", response_schema=int, output_key="size")
label = ag.human("label", "Which label?", response_schema=str, output_key="label")
glossy = ag.human("glossy", {"ask": "Glossy?"}, response_schema=bool, output_key="glossy")
order = says("order", lambda ctx: repr([ctx.values[key] for key in ("size", "label", "glossy")]))
three = ag.sequential("three", [ag.parallel("form", [size, label, glossy]), order])
broken = ag.sequential("broken", [
    ag.loop("empty", [], max_iterations=2),
    ag.loop("none", [first], max_iterations=0),
    ag.chat_agent("mute", 5),
    ag.function_agent("bad name", print),
    ag.function_agent("keyed", print, output_key="no key"),
])
runner = ag.Runner(first)


class Page(BaseModel):
    number: int


def knows(ctx) -> str:
    return f"{ctx.context['user']} {ctx.config['configurable']['lang']}"


paging = ag.sequential("paging", [
    ag.function_agent("pager", lambda ctx: ag.SetValues(page=Page(number=1))),
    ag.human("boss", "Print it?"),
    ag.function_agent("last", lambda ctx: repr(ctx.values["page"])),
])
branches = [ag.function_agent(n, lambda ctx: ag.SetValues(word=ctx.name)) for n in ("north", "south")]
clashing = ag.sequential("clashing", [ag.parallel("pair", branches), asking.sub_agents[2]])
told = ag.sequential("told", [
    ag.each("letters", ag.sequential("read", [says("reads", lambda ctx: ctx.item.value), ag.switch(
        "route", lambda ctx: ctx.item.value == "odd", {True: ag.human("clerk", "Well?"), False: ag.SKIP}
    )]), "letters", key=str, output_key="kinds", max_concurrency=1),
    ag.function_agent("sums", lambda ctx: ag.SetValues(total=len(ctx.values["kinds"]), _own=1)),
    ag.function_agent("flow", lambda ctx: ctx.run("echo", "Bees?", key="bees"), agents=[echo]),
])
knowing = ag.sequential("knowing", [
    says("before", knows), ag.human("boss", "Well?"), says("after", knows)
])
replying = ag.sequential("replying", [
    ag.human("boss", "Well?"), ag.chat_agent("chat", ScriptedChatModel(responses=["one two"]))
])


def mail(to: str) -> str:
    "Send a mail."
    return f"mailed {to}"


def posts(messages):
    asked = any(message.type == "ai" for message in messages)
    return "Done." if asked else calls(call("mail", to="ann"), call("mail", to="bob"))


post = ScriptedChatModel(responses=[posts] * 9)
clerk = ag.chat_agent("clerk", post, tools=[mail], approve=["mail"])
each = ag.chat_agent("clerk", post, tools=[mail], approve=["mail"], interrupt_mode="per_call")
strict = ag.chat_agent(
    "clerk", post, tools=[mail], approve={"mail": {"allowed_decisions": ["reject", "respond"]}}
)
"""

REFUSED, FAILED, PAUSED, STOPPED = 2, 1, 3, 130


def killed(command: Commands, tree: str, thread: str) -> None:
    """Kill a run in its second step."""
    running = command.start("run", f"agents.py:{tree}", "bees", "--thread", thread)
    wait_until((command.folder / "hanging").exists)
    running.signal(signal.SIGKILL)
    running.wait()
    (command.folder / "hanging").unlink()
