"""Finds what keeps a LangGraph graph from being laid flat, as far as that is known before it runs."""

from collections.abc import Iterator
from typing import Any

from agentgraph.agents.agents import GraphAgent
from agentgraph.safe_repr import shown

_INSTEAD = "pass flat=False"


def flat_faults(agent: GraphAgent) -> Iterator[str]:
    """Yield why the graph of an agent with `flat=True` cannot be laid flat."""
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
    yield from (f"flat=True: {fault} {_INSTEAD}" for fault in _faults(agent.graph, builder))


def _faults(graph: Any, builder: Any) -> Iterator[str]:
    if hasattr(graph, "agent"):
        yield "its graph is a compiled tree of agents; put the tree there as it is, or"
    for start, ends in sorted(_several_edges(builder).items()):
        yield f"its graph goes on from {start!r} at {' and '.join(map(repr, ends))} at the same time;"
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
    """Return the nodes with several static edges, which are all taken."""
    ends: dict[str, list[str]] = {}
    for start, end in sorted(builder.edges):
        ends.setdefault(start, []).append(end)
    return {start: several for start, several in ends.items() if len(several) > 1}
