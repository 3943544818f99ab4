"""A tree of a thousand agents, and a graph of the same nodes by hand, to be compiled."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import END, START, StateGraph
from loops import TEXT, FlatState, says

import agentgraph as ag

_PAIRS = 500


@contextmanager
def compiled() -> Iterator[Callable[[], Any]]:
    """A sequence of loops of two: one that only says, and one that may do everything."""
    tree = ag.sequential("s", [_pair(i) for i in range(_PAIRS)])
    yield lambda: ag.compile_agent(tree)


def _pair(i: int) -> ag.Agent:
    return ag.loop(f"l{i}", [says(f"a{i}"), ag.function_agent(f"b{i}", print)], max_iterations=3)


@contextmanager
def compiled_by_hand() -> Iterator[Callable[[], Any]]:
    """Compile the same nodes and edges, without the nodes that ask the questions of functions."""
    yield _chained


def _chained() -> Any:
    builder, say = StateGraph(FlatState), lambda state: {"messages": [AIMessage(TEXT)]}
    for i in range(_PAIRS):
        builder.add_node(f"a{i}", say).add_node(f"b{i}", say)
    builder.add_edge(START, "a0")
    for i in range(_PAIRS):
        builder.add_edge(f"a{i}", f"b{i}")
        ways = [f"a{i}", f"a{i + 1}" if i + 1 < _PAIRS else END]
        builder.add_conditional_edges(f"b{i}", lambda state: END, ways)
    return builder.compile()
