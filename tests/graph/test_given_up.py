"""Turns that are given up or cannot be saved: in changed trees, without a runner, on full disks.

The other cases are in `tests/transcripts/given_up.txt`.
"""

from itertools import count
from typing import Any

import pytest
from helpers import Drive, asks, echo, failing, says, scripted, texts_in, unvoided
from helpers.walking import par, rounds, seq
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

import agentgraph as ag
from agentgraph.testing import call, calls

CONFIG: Any = {"configurable": {"thread_id": "t"}}


@pytest.mark.parametrize(
    "changed",
    [
        seq("s", says("first"), par("q", says("done"), says("new"))),
        seq("s", says("first"), rounds(2, "l", par("p", says("a"), says("b")))),
        seq("s", says("first"), says("p")),
        says("first"),
    ],
    ids=["another fork", "a loop", "a leaf", "one agent"],
)
def test_a_tree_without_the_fork_keeps_the_branches_that_ended(drive: Drive, changed: ag.Agent) -> None:
    fork = par("p", seq("open", says("o1"), asks("boss")), says("done"))
    runner = ag.Runner(seq("s", says("first"), fork))
    list(drive.run(runner, "Go.", thread_id="t"))
    runner = ag.Runner(changed, checkpointer=runner.saver)
    list(drive.run(runner, "Leave it.", thread_id="t", drop_pending=True))
    assert texts_in(runner)[:4] == ["Go.", "first", "done", "Leave it."]


def test_a_graph_keeps_its_messages_and_its_open_calls_are_not_finished(drive: Drive) -> None:
    nodes = [
        lambda state: {"messages": [AIMessage("One.")]},
        lambda state: {"messages": [calls(call("find"))]},
        lambda state: {"messages": [AIMessage(interrupt("Well?"))]},
    ]
    builder = StateGraph(MessagesState).add_sequence([(f"n{i}", n) for i, n in enumerate(nodes)])
    runner = ag.Runner(ag.graph_agent("g", builder.add_edge(START, "n0").compile()))
    list(drive.run(runner, "Go.", thread_id="t"))
    list(drive.run(runner, "Next.", thread_id="t", drop_pending=True))
    assert texts_in(runner)[:5] == ["Go.", "One.", "", "The call was not finished.", "Next."]


def test_without_a_runner_no_result_of_a_call_is_kept() -> None:
    model = scripted(calls(call("boss", "1", request="x"), call("echo", "2", text="b")), "Fine.")
    agent = ag.chat_agent("writer", model, tools=[ag.agent_tool(asks("boss")), echo])
    graph = ag.compile_agent(agent, checkpointer=InMemorySaver())
    for text in ("Go.", "Leave it."):
        graph.invoke({"messages": [text]}, CONFIG)
    assert [m.text for m in model.inputs[1][2:4]] == ["No result of this call was kept."] * 2


class Full(InMemorySaver):
    """A saver whose disk is full after some more checkpoints; what nodes write is still saved."""

    left: int | None = None

    def put(self, *arguments: Any) -> Any:
        if self.left == 0:
            raise OSError("disk full")
        self.left = None if self.left is None else self.left - 1
        return super().put(*arguments)

    async def aput(self, *arguments: Any) -> Any:
        return self.put(*arguments)


def test_a_node_whose_writes_were_saved_without_a_checkpoint_is_kept() -> None:
    saver, asked = Full(), count()

    def last(ctx: ag.Context) -> Any:
        saver.left = 0
        return [f"a{next(asked)}", ag.SetValues(k=1)]

    tree = seq("s", says("first"), ag.function_agent("a", last), asks("boss"))
    runner = ag.Runner(tree, checkpointer=saver)
    failing(runner.run("Go.", thread_id="t"), ag.SaverError)
    saver.left = None
    failing(runner.run("Again.", thread_id="t"), ag.SaverError)
    assert texts_in(runner) == ["Go.", "first", "a0", "Again.", "first", "a1"]
    assert runner.graph.get_state(CONFIG).values["values"] == {"k": 1}


@pytest.mark.parametrize("fails_before", [False, True])
@pytest.mark.parametrize("left", [1, 2, 3])
def test_a_turn_whose_first_steps_cannot_be_saved_is_resumed_from_its_start(
    drive: Drive, fails_before: bool, left: int
) -> None:
    one = ValueError("not now") if fails_before else "b1"
    agents = [ag.chat_agent("a", scripted("a1", "a2")), ag.chat_agent("b", scripted(one, "b2", "b3"))]
    saver = Full()
    runner = ag.Runner(seq("s", *agents), checkpointer=saver)
    heard: list[ag.AgentEvent] = []
    if fails_before:
        heard += failing(drive.run(runner, "One.", thread_id="t"), ValueError)[0]
    else:
        heard += drive.run(runner, "One.", thread_id="t")
    saver.left = left
    heard += failing(drive.run(runner, "Two.", thread_id="t"), ag.SaverError)[0]
    saver.left = None
    heard += drive.resume(runner, "t")
    assert list(runner.events("t")) == unvoided(heard)
    first = ["a1"] if fails_before else ["a1", "b1"]
    assert texts_in(runner) == ["One.", *first, "Two.", "a2", "b2"]
    said = [event.text for event in runner.events("t") if event.kind == "message"]
    assert said == [*first, "a2", "b2"]
