"""Random LangGraph graphs that take one way at a time: laid flat they come to the same."""

import operator
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pytest
from helpers import Drive, Session, unvoided
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt
from test_spine import DRIVES

import agentgraph as ag

MOST = 12
"""How many nodes run before a graph ends."""


class State(MessagesState):
    log: Annotated[list[str], operator.add]
    last: str


class Node(NamedTuple):
    """What a node does, and how it says which node is next."""

    does: str
    goes: str
    to: tuple[int, ...]


NODES = st.lists(
    st.builds(
        Node,
        st.sampled_from(["say", "say", "log", "last", "edit", "remove", "ask", "nothing"]),
        st.sampled_from(["edge", "branch", "branch", "command", "send", "end"]),
        st.tuples(st.integers(0, 5), st.integers(0, 5)),
    ),
    min_size=1,
    max_size=6,
)
STARTS = st.sampled_from(["edge", "branch"])


def graph_of(nodes: list[Node], starts: str) -> StateGraph[Any, Any, Any, Any]:
    """Return a graph; `work` is the node to which packets are sent, and which goes on at the first."""
    builder = StateGraph(State)
    names = [f"n{i}" for i in range(len(nodes))]

    def way(i: int, state: State) -> str:
        if len(state["log"]) >= MOST:
            return END
        return names[nodes[i].to[len(state["log"]) % 2] % len(names)]

    for i, node in enumerate(nodes):
        builder.add_node(names[i], acting(i, node, lambda state, i=i: way(i, state)))
        match node.goes:
            case "edge" if i + 1 < len(names):
                builder.add_edge(names[i], names[i + 1])
            case "branch":
                builder.add_conditional_edges(names[i], lambda state, i=i: way(i, state))
            case "send":
                builder.add_conditional_edges(
                    names[i],
                    lambda state, i=i: [
                        Send("work", {"of": i, "n": n}) for n in range(nodes[i].to[0] % 4)
                    ],
                    ["work"],
                )
    builder.add_node("work", work)
    builder.add_conditional_edges(
        "work", lambda state: END if len(state["log"]) >= MOST else names[0], [names[0], END]
    )
    if starts == "edge":
        builder.add_edge(START, names[0])
    else:
        builder.add_conditional_edges(START, lambda state: names[-1], names)
    return builder


def work(packet: Any) -> Any:
    at = f"{packet['of']}.{packet['n']}"
    return {"log": [f"worked {at}"], "messages": [AIMessage(f"worked {at}")]}


def acting(i: int, node: Node, way: Callable[[State], str]) -> Callable[[State], Any]:
    def act(state: State) -> Any:
        seen = state["messages"]
        update: dict[str, Any] = {"log": [f"{i}: {state.get('last')} {[m.text for m in seen]}"]}
        match node.does:
            case "say":
                update["messages"] = [AIMessage(f"{i} says {len(seen)}")]
            case "last":
                update["last"] = f"last of {i}"
            case "edit" if len(seen) > 1:
                update["messages"] = [seen[-1].model_copy(update={"content": f"edited by {i}"})]
            case "remove" if len(seen) > 1:
                update["messages"] = [RemoveMessage(id=seen[-1].id)]
            case "ask":
                update["messages"] = [AIMessage(interrupt(f"{i}?"))]
        if node.goes == "command":
            after: Any = {**state, "log": [*state["log"], *update["log"]]}
            return Command(update=update, goto=way(after))
        return update

    return act


def by_langgraph(builder: StateGraph[Any, Any, Any, Any]) -> Any:
    """Return the state in which LangGraph's own run ends."""
    graph, config = builder.compile(checkpointer=InMemorySaver()), {"configurable": {"thread_id": "t"}}
    given: Any = {"messages": [HumanMessage("Go.", id="user")]}
    while True:
        graph.invoke(given, config)  # type: ignore[arg-type]
        if not graph.get_state(config).next:  # type: ignore[arg-type]
            return graph.get_state(config).values  # type: ignore[arg-type]
        given = Command(resume="yes")


def run_to_the_end(session: Session) -> list[ag.AgentEvent]:
    """Run and answer until nothing is left to do, and return all events."""
    heard: list[ag.AgentEvent] = []
    session.follow("run", HumanMessage("Go.", id="user"), hear=heard.append, thread_id="t")
    while session.pending():
        session.follow("resume", "t", "yes", hear=heard.append)
    return heard


WRAPPED: dict[str, Callable[[ag.Agent], ag.Agent]] = {
    "root": lambda agent: agent,
    "branch": lambda agent: ag.parallel("p", [agent, ag.function_agent("b", lambda ctx: None)]),
}


@pytest.mark.parametrize("lane", list(WRAPPED))
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(nodes=NODES, starts=STARTS, drive=DRIVES, has_output=st.booleans())
def test_it_comes_to_the_same(
    lane: str, nodes: list[Node], starts: str, drive: Drive, has_output: bool
) -> None:
    builder = graph_of(nodes, starts)
    wanted = by_langgraph(builder)
    kept: dict[str, Any] = {}

    def output(state: Any) -> Any:
        kept.update(state)
        return ag.SetValues(log=state["log"])

    made = ag.graph_agent("g", builder.compile(), flat=True, output=output if has_output else None)
    with tempfile.TemporaryDirectory() as folder:
        session = Session(WRAPPED[lane](made), drive, Path(folder) / "threads.db")
        heard, again = run_to_the_end(session), session.events()
        history = session.state()["messages"]
    assert again == unvoided(heard)
    if has_output:
        assert (kept["log"], kept.get("last")) == (wanted["log"], wanted.get("last"))
        assert [m.text for m in kept["messages"]] == [m.text for m in wanted["messages"]]
    else:
        assert [m.text for m in history] == [m.text for m in wanted["messages"]]
