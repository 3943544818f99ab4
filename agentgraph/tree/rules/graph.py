"""The rules of graph agents, nested and flattened."""

from collections.abc import Iterator
from typing import Any

from langchain_core.runnables import Runnable

from agentgraph.agents.agents import GraphAgent
from agentgraph.agents.budgets import Summarized
from agentgraph.agents.functions import gives_one_value
from agentgraph.safe_repr import shown
from agentgraph.tree.rules.options import (
    cache_asked,
    cache_faults,
    history_asked,
    history_faults,
    policy_faults,
)
from agentgraph.tree.rules.row import NOTHING, Around, Rules

_INSTEAD = "pass flat=False"


def _faults(agent: GraphAgent, _: Around) -> Iterator[str]:
    graph = agent.graph
    if not (isinstance(graph, Runnable) and hasattr(graph, "get_graph") and hasattr(graph, "nodes")):
        if not hasattr(graph, "assistant_id"):  # a graph on a server
            yield f"{shown(graph)} is not a compiled LangGraph graph; call compile() on its builder"
    elif agent.output is None and "messages" not in getattr(graph, "channels", {"messages": None}):
        yield (
            "the state of its graph has no 'messages'; add them, as in MessagesState, or pass output=, "
            "a function from the state to what the agent says"
        )
    yield from _stop_faults(graph)
    yield from _flat_faults(agent)
    if agent.input is not None and not gives_one_value(agent.input):
        yield f"input={shown(agent.input)} cannot be used; pass a function of a context"
    if agent.output is not None and not gives_one_value(agent.output):
        yield f"output={shown(agent.output)} cannot be used; pass a function of the state"
    yield from history_faults(agent.history)
    yield from policy_faults(agent)
    yield from cache_faults(agent.cache_policy)
    if isinstance(agent.history, Summarized):
        yield "only a chat agent can have a summary written; use trimmed(...) for a graph"


def _stop_faults(graph: object, inside: str = "") -> Iterator[str]:
    """Yield the places at which a graph, or a graph in its nodes, stops without a question."""
    for option in ("interrupt_before", "interrupt_after"):
        if names := getattr(graph, f"{option}_nodes", ()):
            yield (
                f"its graph{inside} is compiled with {option}={shown(names)}, where it would stop "
                "without a question; compile it without, and call interrupt() in a node, or put "
                "human(...) before the agent"
            )
    for name, node in getattr(graph, "nodes", {}).items():
        for inner in getattr(node, "subgraphs", ()):
            yield from _stop_faults(inner, f" in the node {name!r}{inside}")


def _flat_faults(agent: GraphAgent) -> Iterator[str]:
    if not isinstance(agent.flat, bool):
        yield f"flat={shown(agent.flat)} is not known; use True or False"
        return
    if not agent.flat:
        return
    builder = getattr(agent.graph, "builder", None)
    if not hasattr(builder, "waiting_edges"):
        yield (
            f"flat=True takes a compiled StateGraph, such as that of create_agent(...), not "
            f"{shown(agent.graph)}; {_INSTEAD}"
        )
        return
    if agent.cache_policy is not None:
        yield f"cache_policy= is for a whole run of a graph, and flat=True runs its nodes; {_INSTEAD}"
    yield from (f"flat=True: {fault} {_INSTEAD}" for fault in _graph_faults(agent.graph, builder))


def _graph_faults(graph: object, builder: Any) -> Iterator[str]:
    if hasattr(graph, "agent"):
        yield "its graph is a compiled tree of agents; put the tree there as it is, or"
    for start, ends in sorted(_several_edges(builder).items()):
        yield f"its graph continues from {start!r} at {' and '.join(map(repr, ends))} in parallel;"
    for starts, end in sorted(builder.waiting_edges):
        yield f"its graph waits for {' and '.join(map(repr, starts))} before {end!r};"
    if "__root__" in builder.channels:
        yield "the state of its graph has no named keys;"
    for name, node in builder.nodes.items():
        if node.cache_policy is not None:
            yield f"its node {name!r} has a cache_policy;"
        if node.is_error_handler or node.error_handler_node is not None:
            yield f"its node {name!r} has, or is, an error handler;"


def _several_edges(builder: Any) -> dict[str, list[str]]:
    ends: dict[str, list[str]] = {}
    for start, end in sorted(builder.edges):
        ends.setdefault(start, []).append(end)
    return {start: several for start, several in ends.items() if len(several) > 1}


def _asked(agent: GraphAgent) -> list[tuple[str, object]]:
    own = [("input", agent.input), ("output", agent.output)]
    return [*own, *history_asked(agent), *cache_asked(agent)]


GRAPH = Rules(
    faults=_faults,
    asked=_asked,
    hidden=lambda _: (False, True),  # a node may return a Command for the parent graph
    former=lambda was: GraphAgent(name=was.name, graph=NOTHING, flat=was.is_flat),
)
