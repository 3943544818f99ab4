"""Turns that are given up where the tree has changed, the saver failed, or no runner is used.

The other cases are in `tests/transcripts/given_up.txt`.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from helpers import Disk, Drive, asks, echo, failing, says, scripted
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

import agentgraph as ag
from agentgraph.testing import call, calls

CONFIG: Any = {"configurable": {"thread_id": "t"}}


def texts_in(path: Path) -> list[str]:
    """Return the messages of the thread, those with calls as the names of the tools."""
    with ag.sqlite_saver(path) as saver:
        found = ag.compile_agent(says("any"), checkpointer=saver).get_state(CONFIG).values["messages"]
    return [each.text or ", ".join(made["name"] for made in each.tool_calls) for each in found]


def forking(*branches: ag.Agent) -> ag.Agent:
    return ag.sequential("s", [says("first"), ag.parallel("p", branches)])


OPEN = ag.sequential("open", [says("o1"), asks("boss")])
LOOP = ag.loop("l", [ag.parallel("p", [says("a"), says("b")])], max_iterations=2)


@pytest.mark.parametrize(
    ("changed", "kept"),
    [
        (forking(says("new"), OPEN, says("done")), ["o1", "done"]),
        (ag.sequential("s", [says("first"), ag.parallel("q", [says("done"), says("new")])]), ["done"]),
        (ag.sequential("s", [says("first"), LOOP]), ["done"]),
        (ag.sequential("s", [says("first"), says("p")]), ["done"]),
        (says("first"), ["done"]),
    ],
    ids=["with one more branch", "another fork", "a loop", "no fork", "one agent"],
)
def test_a_changed_tree_keeps_the_branches_that_can_be_found(
    disk: Disk, changed: ag.Agent, kept: list[str]
) -> None:
    disk.run(forking(OPEN, says("done")))
    with ag.sqlite_saver(disk.path) as saver:
        list(ag.Runner(changed, checkpointer=saver).run("Leave it.", thread_id="t", drop_pending=True))
    assert texts_in(disk.path)[: 3 + len(kept)] == ["Go.", "first", *kept, "Leave it."]


def test_a_graph_keeps_its_messages_and_its_open_calls_are_not_finished(drive: Drive) -> None:
    steps = [
        lambda state: {"messages": [AIMessage("One.")]},
        lambda state: {"messages": [calls(call("find"))]},
        lambda state: {"messages": [AIMessage(interrupt("Well?"))]},
    ]
    builder = StateGraph(MessagesState)
    for number, step in enumerate(steps):
        builder.add_node(f"n{number}", step)
        builder.add_edge(f"n{number - 1}" if number else START, f"n{number}")
    runner = ag.Runner(ag.graph_agent("g", builder.compile()))
    list(drive.run(runner, "Go.", thread_id="t"))
    list(drive.run(runner, "Next.", thread_id="t", drop_pending=True))
    messages = runner.graph.get_state(CONFIG).values["messages"]
    assert [each.text for each in messages][:5] == [
        *["Go.", "One.", "", "The call was not finished.", "Next."]
    ]


class FullDisk(InMemorySaver):
    """A saver that takes what nodes write, and then no checkpoint any more."""

    is_full = False

    def put(self, *args: Any) -> Any:
        if self.is_full:
            raise OSError("no space left on device")
        return super().put(*args)


def test_a_node_whose_writes_were_saved_without_a_checkpoint_is_kept() -> None:
    saver = FullDisk()

    def last(ctx: ag.Context) -> Any:
        saver.is_full = True
        return ["a", ag.SetValues(k=1)]

    tree = ag.sequential("s", [says("first"), ag.function_agent("a", last), asks("boss")])
    runner = ag.Runner(tree, checkpointer=saver)
    failing(runner.run("Go.", thread_id="t"), OSError)
    saver.is_full = False
    failing(runner.run("Again.", thread_id="t"), OSError)
    state = runner.graph.get_state(CONFIG).values
    assert [each.text for each in state["messages"]] == [
        *["Go.", "first", "a"],
        *["Again.", "first", "a"],
    ]
    assert state["values"] == {"k": 1}


@pytest.mark.parametrize("is_async", [False, True])
def test_without_a_runner_no_result_of_a_call_is_kept(is_async: bool) -> None:
    model = scripted(calls(call("boss", "1", request="x"), call("echo", "2", text="b")), "Fine.")
    agent = ag.chat_agent("writer", model, tools=[ag.agent_tool(asks("boss")), echo])
    graph = ag.compile_agent(agent, checkpointer=InMemorySaver())
    for text in ("Go.", "Leave it."):
        given = {"messages": [text]}
        asyncio.run(graph.ainvoke(given, CONFIG)) if is_async else graph.invoke(given, CONFIG)
    assert [m.text for m in model.inputs[1][2:4]] == ["No result of this call was kept."] * 2
