"""Graphs that add, replace, remove and sum up messages at random, against a small reference.

Each step of such a graph does one thing, and beside it a node may ask a person, fail once, or say
something. Whatever happens on the way: who drops what was told to be void has what the thread tells
again, and the history in the state agrees with both.
"""

import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from helpers import Disk, Drive, collect, standing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import interrupt

import agentgraph as ag


class Stage(NamedTuple):
    """A step of a graph: what one node does to which message, and what another does beside it."""

    does: str
    which: int
    beside: str


STAGES = st.lists(
    st.builds(
        Stage,
        st.sampled_from(["word", "call", "summary", "replace", "replace", "remove", "remove all"]),
        st.integers(0, 9),
        st.sampled_from(["", "", "ask", "fail", "say"]),
    ),
    min_size=1,
    max_size=7,
)


class Reference:
    """What the rules say: what is said, by id, and what the user said."""

    def __init__(self) -> None:
        self.said: dict[str, str] = {}
        self.user = "Go."

    def take(self, stage: Stage, number: int, seen: list[Any]) -> None:
        if stage.beside == "say":
            self.said[f"b{number}"] = f"beside {number}"
        if stage.does == "word":
            self.said[f"w{number}"] = f"word {number}"
        elif stage.does == "call":
            self.said |= {f"c{number}": f"call {number}", f"r{number}": f"result {number}"}
        elif seen and stage.does in ("replace", "remove"):
            target = seen[stage.which % len(seen)]
            if stage.does == "replace" and target.id in self.said:
                self.said[target.id] = f"now {number}"
            elif stage.does == "replace" and target.id == "user":
                self.user = f"now {number}"
            elif stage.does == "remove" and target.id[0] in "wb":
                self.said.pop(target.id, None)


def edit(stage: Stage, number: int, seen: list[Any]) -> list[Any]:
    """Return what the node of a stage writes."""
    match stage.does:
        case "word":
            return [AIMessage(f"word {number}", id=f"w{number}")]
        case "call":
            calls = [{"name": "look", "args": {}, "id": f"{number}", "type": "tool_call"}]
            return [
                AIMessage(f"call {number}", id=f"c{number}", tool_calls=calls),
                ToolMessage(f"result {number}", id=f"r{number}", tool_call_id=f"{number}"),
            ]
        case "summary":
            return [HumanMessage(f"summary {number}", id=f"h{number}")]
        case "remove all":
            kept = seen[len(seen) - stage.which % (len(seen) + 1) :]
            summary = HumanMessage(f"summary {number}", id=f"h{number}")
            return [RemoveMessage(id=REMOVE_ALL_MESSAGES), summary, *kept]
    if not seen:
        return []
    target = seen[stage.which % len(seen)]
    if stage.does == "remove":
        return [RemoveMessage(id=target.id)]
    return [target.model_copy(update={"content": f"now {number}"})]


class Story:
    """A graph with a node for each stage and one beside it, and what its steps come to."""

    def __init__(self, stages: list[Stage]) -> None:
        self.failed: set[int] = set()
        self.seen: dict[int, list[Any]] = {}
        builder = StateGraph(MessagesState)
        before: list[str] = []
        for number, stage in enumerate(stages):
            nodes: dict[str, Callable[..., Any]] = {f"n{number}": self.node(stage, number)}
            if stage.beside:
                nodes[f"b{number}"] = self.beside(stage, number)
            for name, node in nodes.items():
                builder.add_node(name, node)
                if before:
                    builder.add_edge(before, name)
                else:
                    builder.add_edge(START, name)
            before = list(nodes)
        self.graph = builder.compile()

    def node(self, stage: Stage, number: int) -> Callable[..., Any]:
        def does(state: MessagesState) -> Any:
            self.seen[number] = state["messages"]
            return {"messages": edit(stage, number, state["messages"])}

        return does

    def beside(self, stage: Stage, number: int) -> Callable[..., Any]:
        def does(state: MessagesState) -> Any:
            if stage.beside == "ask":
                interrupt(f"{number}?")
            elif stage.beside == "fail" and number not in self.failed:
                self.failed.add(number)
                raise ConnectionError("down")
            elif stage.beside == "say":
                return {"messages": [AIMessage(f"beside {number}", id=f"b{number}")]}
            return {}

        return does


LANES: dict[str, Callable[[ag.Agent], ag.Agent]] = {
    "root": lambda agent: ag.sequential(
        "s", [ag.function_agent("a", lambda ctx: AIMessage("Before.", id="a")), agent]
    ),
    "branch": lambda agent: ag.parallel("p", [agent, ag.function_agent("b", lambda ctx: "b")]),
}


def driven_to_the_end(disk: Disk, tree: ag.Agent) -> list[ag.AgentEvent]:
    """Run and resume until nothing is left to do, and return all that was told."""
    told: list[ag.AgentEvent] = []
    step: Any = ("run", HumanMessage("Go.", id="user")), {"thread_id": "t"}
    while step is not None:
        before, (args, options) = len(told), step
        step = ("resume", "t"), {}
        with suppress(ConnectionError):
            collect(told, disk.drive, disk.path, tree, *args, **options)
            asked = [each for each in told[before:] if each.kind == "interrupted"]
            step = (("resume", "t", "yes"), {}) if asked else None
    return told


def words(events: list[ag.AgentEvent]) -> list[ag.AgentEvent]:
    return [each for each in events if each.message]


@pytest.mark.parametrize("lane", list(LANES))
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(stages=STAGES)
def test_what_is_told_and_what_is_kept_agree(drive: Drive, lane: str, stages: list[Stage]) -> None:
    story, reference = Story(stages), Reference()
    tree = LANES[lane](ag.graph_agent("g", story.graph))
    with tempfile.TemporaryDirectory() as folder:
        disk = Disk(drive, Path(folder) / "threads.db")
        told = driven_to_the_end(disk, tree)
        again = disk.events(tree)
        with ag.sqlite_saver(disk.path) as saver:
            graph = ag.compile_agent(tree, checkpointer=saver)
            history = graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"]
    for number, stage in enumerate(stages):
        reference.take(stage, number, story.seen[number])
    assert {e.id: e.text for e in again if e.agent_name == "g" and e.message} == reference.said
    if lane == "root":
        assert words(again) == words(standing(told))
        assert history[0].text == reference.user
        assert history[1].text == "Before."
    kept = [(m.id, m.text) for m in history if m.id != "a" and m.id != "user" and m.text != "b"]
    assert kept == list(reference.said.items())
