"""With LangGraph's LANGGRAPH_STRICT_MSGPACK a saver of the user's reads the types that a tree names.

LangGraph reads the variable when it is imported, so the cases run in one process that has it set.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = '''
import asyncio, json, sys
from dataclasses import dataclass
from typing import NotRequired

from langchain.agents.middleware import AgentMiddleware, AgentState
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from pydantic import BaseModel

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

READ = []


class Verdict(BaseModel):
    label: str


@dataclass
class Place:
    verdict: Verdict


class State(AgentState):
    verdict: NotRequired[Verdict]
    places: NotRequired[list[Place]]


class Mark(AgentMiddleware[State]):
    state_schema = State

    def before_agent(self, state, runtime):
        return {"verdict": Verdict(label="x"), "places": [Place(Verdict(label="y"))]}

    def after_agent(self, state, runtime):
        READ.append(repr((state["verdict"], state["places"])))


def ask(what: str) -> str:
    """Ask."""
    return interrupt(what)


def bot():
    def reply(messages):
        return "Done." if messages[-1].type == "tool" else calls(call("ask", what="sure?"))

    model = ScriptedChatModel(responses=reply)
    return ag.chat_agent("bot", model, tools=[ask], middleware=[Mark()])



def resumed(saver):
    runner = ag.Runner(bot(), checkpointer=saver)
    runner.invoke("Go.", thread_id="t")
    ag.Runner(bot(), checkpointer=saver).invoke(thread_id="t", answers="yes")


async def aresumed(saver):
    await ag.Runner(bot(), checkpointer=saver).ainvoke("Go.", thread_id="t")
    await ag.Runner(bot(), checkpointer=saver).ainvoke(thread_id="t", answers="yes")


def in_branches(saver):
    tree = ag.loop("again", [ag.parallel("both", [bot(), ag.human("boss", "Well?")])], max_iterations=1)
    runner = ag.Runner(tree, checkpointer=saver)
    asked = runner.invoke("Go.", thread_id="t").pending
    runner.invoke(thread_id="t", answers={each.id: "yes" for each in asked})


def compiled(saver):
    graph, config = ag.compile_agent(bot(), checkpointer=saver), {"configurable": {"thread_id": "t"}}
    graph.invoke({"messages": "Go."}, config)
    graph.invoke(Command(resume="yes"), config)


def in_a_graph_of_the_user(saver):
    builder = StateGraph(MessagesState)
    builder.add_node("office", ag.compile_agent(bot()))
    builder.add_edge(START, "office")
    graph, config = builder.compile(checkpointer=saver), {"configurable": {"thread_id": "t"}}
    graph.invoke({"messages": "Go."}, config)
    graph.invoke(Command(resume="yes"), config)


def copied(saver):
    runner = ag.Runner(bot(), checkpointer=saver)
    runner.invoke("Go.", thread_id="t")
    runner.copy("t", "u")
    runner.invoke(thread_id="u", answers="yes")


def rewound(saver):
    runner = ag.Runner(bot(), checkpointer=saver)
    runner.invoke("Go.", thread_id="t")
    list(runner.rewind("t", "bot"))
    runner.invoke(thread_id="t", answers="yes")


def other_runners_have_its_locks(saver):
    gate = []

    def slow(ctx):
        try:
            ag.Runner(bot(), checkpointer=saver).invoke("Go.", thread_id="t")
        except ag.ThreadBusyError:
            gate.append("busy")
        return "Done."

    first = ag.Runner(ag.function_agent("slow", slow), checkpointer=saver)
    first.invoke("Go.", thread_id="t")
    READ.extend(gate)


async def main():
    seen = {}
    cases = [resumed, in_branches, compiled, in_a_graph_of_the_user, copied, rewound]
    cases.append(other_runners_have_its_locks)
    for case in cases:
        for name, saver in (("memory", InMemorySaver()), ("file", None)):
            if saver is None:
                with SqliteSaver.from_conn_string(f"{case.__name__}.db") as saver:
                    await asyncio.to_thread(case, saver)
            else:
                await asyncio.to_thread(case, saver)
            seen[f"{case.__name__} {name}"] = [*READ]
            READ.clear()
    async with AsyncSqliteSaver.from_conn_string("async.db") as saver:
        for name, each in (("memory", InMemorySaver()), ("file", saver)):
            await aresumed(each)
            seen[f"aresumed {name}"] = [*READ]
            READ.clear()
    print(json.dumps(seen))


asyncio.run(main())
'''
OBJECTS = "(Verdict(label='x'), [Place(verdict=Verdict(label='y'))])"
NAMES = [
    *("resumed", "in_branches", "compiled", "in_a_graph_of_the_user", "copied", "rewound", "aresumed")
]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Return the state of a middleware as its last hook has read it after a resume, by case."""
    folder: Path = tmp_path_factory.mktemp("strict")
    ended = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:agentgraph", "-c", CASES],
        cwd=folder,
        env={**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "Blocked deserialization" not in ended.stderr
    found: dict[str, list[str]] = json.loads(ended.stdout)
    return found


@pytest.mark.parametrize("saver", ["memory", "file"])
@pytest.mark.parametrize("name", NAMES)
def test_the_state_of_a_middleware_has_its_types_after_a_resume(
    seen: dict[str, list[str]], name: str, saver: str
) -> None:
    assert seen[f"{name} {saver}"] == [OBJECTS]


@pytest.mark.parametrize("saver", ["memory", "file"])
def test_runners_of_one_saver_have_its_locks(seen: dict[str, list[str]], saver: str) -> None:
    assert seen[f"other_runners_have_its_locks {saver}"] == ["busy"]
