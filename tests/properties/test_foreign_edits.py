"""Graphs that add, replace, remove and sum up messages at random, against a small reference.

Each step of such a graph does one thing, and beside it a node may ask a person, fail once, or say
something; in a graph that is laid flat the same node does. Whatever happens on the way: what was heard
and not discarded is what the thread gives, and the history in the state agrees with both.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from helpers import Drive, Session, says, unvoided
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
)
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, interrupt
from test_spine import DRIVES, EXAMPLES

import agentgraph as ag
from agentgraph.testing import call, calls


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


class Story:
    """A graph with a node for each stage and one beside it (or in it), and what must come of its steps.

    Attributes:
        said: What is said in the end, by id.
        user: What the user said, as it is in the end.
    """

    def __init__(self, stages: list[Stage], *, is_flat: bool) -> None:
        self.said: dict[str, str] = {}
        self.user = "Go."
        self._failed: set[int] = set()
        self._seen: dict[int, list[Any]] = {}
        self._stages = stages
        builder = StateGraph(MessagesState)
        before: list[str] = [START]
        for n, stage in enumerate(stages):
            nodes = {f"n{n}": self._node(n), f"b{n}": self._beside(n)}
            if is_flat:
                nodes = {f"n{n}": self._both(n)}
            elif not stage.beside:
                del nodes[f"b{n}"]
            for name, node in nodes.items():
                builder.add_node(name, node)
                builder.add_edge(before if len(before) > 1 else before[0], name)
            before = list(nodes)
        self.graph = builder.compile()

    def _node(self, n: int) -> Callable[..., Any]:
        def does(state: MessagesState) -> Any:
            self._seen[n] = state["messages"]
            return {"messages": edit(self._stages[n], n, state["messages"])}

        return does

    def _both(self, n: int) -> Callable[..., Any]:
        def does(state: MessagesState) -> Any:
            beside = self._beside(n)(state)
            return [Command(update=beside), Command(update=self._node(n)(state))]

        return does

    def _beside(self, n: int) -> Callable[..., Any]:
        def does(state: MessagesState) -> Any:
            match self._stages[n].beside:
                case "ask":
                    interrupt(f"{n}?")
                case "fail" if n not in self._failed:
                    self._failed.add(n)
                    raise ConnectionError("down")
                case "say":
                    return {"messages": [AIMessage(f"beside {n}", id=f"b{n}")]}
            return {}

        return does

    def apply_rules(self) -> None:
        """Apply the rules to what each stage saw."""
        for n, stage in enumerate(self._stages):
            seen = self._seen[n]
            target = came_as(seen[stage.which % len(seen)]) if seen else None
            if stage.beside == "say":
                self.said[f"b{n}"] = f"beside {n}"
            if stage.does == "word":
                self.said[f"w{n}"] = f"word {n}"
            elif stage.does == "call":
                self.said |= {f"c{n}": f"call {n}", f"r{n}": f"result {n}"}
            elif stage.does == "replace" and target in self.said:
                self.said[target] = f"now {n}"
            elif stage.does == "replace" and target == "user":
                self.user = f"now {n}"
            elif stage.does == "remove" and target and target[0] in "wb":
                self.said.pop(target, None)


def edit(stage: Stage, n: int, seen: list[Any]) -> list[Any]:
    """Return what the node of a stage writes."""
    summary = HumanMessage(f"summary {n}", id=f"h{n}")
    target = seen[stage.which % len(seen)] if seen else None
    match stage.does:
        case "word":
            return [AIMessage(f"word {n}", id=f"w{n}")]
        case "call":
            asks = calls(call("look", str(n)), text=f"call {n}").model_copy(update={"id": f"c{n}"})
            return [asks, ToolMessage(f"result {n}", id=f"r{n}", tool_call_id=str(n))]
        case "summary":
            return [summary]
        case "remove all":
            kept = seen[len(seen) - stage.which % (len(seen) + 1) :]
            return [RemoveMessage(id=REMOVE_ALL_MESSAGES), summary, *kept]
        case "remove" if target:
            return [RemoveMessage(id=target.id)]
        case "replace" if target:
            return [target.model_copy(update={"content": f"now {n}"})]
    return []


FEW, MANY = 15, 300
"""How many stories each test tells: few in `make test`, many in `make properties`."""
LANES: dict[str, Callable[[ag.Agent], ag.Agent]] = {
    "root": lambda agent: ag.sequential(
        "s", [ag.function_agent("a", lambda ctx: AIMessage("Before.", id="a")), agent]
    ),
    "branch": lambda agent: ag.parallel("p", [agent, says("b")]),
}


def came_as(message: BaseMessage) -> str | None:
    """Return the id of a message in the graph, which may be another one in the history."""
    return message.response_metadata.get("provider_message_id") or message.id


def run_to_the_end(session: Session) -> list[ag.AgentEvent]:
    """Run and resume until nothing is left to do, and return all events."""
    heard: list[ag.AgentEvent] = []
    args: Any = ("run", HumanMessage("Go.", id="user"))
    options = {"thread_id": "t"}
    while args:
        before = len(heard)
        try:
            session.follow(*args, hear=heard.append, **options)
            is_asked = any(each.kind == "interrupted" for each in heard[before:])
            args = ("resume", "t", "yes") if is_asked else None
        except ConnectionError:
            args = ("resume", "t")
        options = {}
    return heard


@pytest.mark.parametrize("is_flat", [False, True], ids=["inside", "flat"])
@pytest.mark.parametrize("lane", list(LANES))
@settings(
    max_examples=MANY if EXAMPLES >= MANY else FEW,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(stages=STAGES, drive=DRIVES)
def test_what_is_heard_and_what_is_kept_agree(
    lane: str, is_flat: bool, stages: list[Stage], drive: Drive
) -> None:
    story = Story(stages, is_flat=is_flat)
    with tempfile.TemporaryDirectory() as folder:
        graph = ag.graph_agent("g", story.graph, flat=is_flat)
        session = Session(LANES[lane](graph), drive, Path(folder) / "threads.db")
        heard, again = run_to_the_end(session), session.events()
        history = session.state()["messages"]
    story.apply_rules()
    mine = [e.message for e in again if "g" in e.run_path.names and e.message]
    assert {came_as(each): each.text for each in mine} == story.said
    if lane == "root":
        assert [e for e in again if e.message] == [e for e in unvoided(heard) if e.message]
        assert [history[0].text, history[1].text] == [story.user, "Before."]
    kept = [(came_as(m), m.text) for m in history if m.id not in ("a", "user") and m.text != "b"]
    assert kept == list(story.said.items())
