"""What a long sequence costs: `run` and `events()` of ever more agents, and the same chain by hand."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from loops import HELLO, TEXT, THREAD, FlatState, Graph, says
from measure import Contender, Figure, side_by_side

import agentgraph as ag

SIZES = (250, 500, 1000)


def figures() -> Iterator[Figure]:
    """Measure each size against the chain, and `events()` against reading its checkpoints."""
    for size in SIZES:
        ours, chain = side_by_side(_ours(size), _chain(size), repeats=3)
        yield Figure(
            name=f"a sequence of {size:,} agents",
            ours=ours,
            theirs=chain,
            against="the chain by hand, its own stream",
            unit="s",
            aim=1.3,
        )
        again, read = side_by_side(_replayed(size), _checkpoints(size), repeats=3)
        yield Figure(
            name=f"events() of {size:,} agents",
            ours=again,
            theirs=read,
            against="the checkpoints of the chain, read",
            unit="s",
            aim=1.3,
        )


def _tree(size: int) -> ag.Agent:
    return ag.sequential("s", [says(f"a{i}") for i in range(size)])


def _ours(size: int) -> Contender:
    @contextmanager
    def contender() -> Iterator[Callable[[], Any]]:
        runner = ag.Runner(_tree(size))
        yield lambda: list(runner.run("hi"))

    return contender


def _say(state: Any) -> dict[str, Any]:
    return {"messages": [AIMessage(TEXT)]}


def _by_hand(size: int) -> tuple[Graph, Any]:
    """Return the chain, and the config of its thread."""
    builder = StateGraph(FlatState)
    names = [f"a{i}" for i in range(size)]
    for name in names:
        builder.add_node(name, _say)
    for before, name in zip([START, *names], names, strict=False):
        builder.add_edge(before, name)
    graph = builder.compile(checkpointer=InMemorySaver())
    return graph, {**THREAD, "recursion_limit": size + 2}


def _chain(size: int) -> Contender:
    @contextmanager
    def contender() -> Iterator[Callable[[], Any]]:
        graph, config = _by_hand(size)
        yield lambda: list(graph.stream(HELLO, config, stream_mode="updates"))

    return contender


def _checkpoints(size: int) -> Contender:
    @contextmanager
    def contender() -> Iterator[Callable[[], Any]]:
        graph, config = _by_hand(size)
        graph.invoke(HELLO, config)
        saver: Any = graph.checkpointer
        yield lambda: list(saver.list(config))

    return contender


def _replayed(size: int) -> Contender:
    @contextmanager
    def contender() -> Iterator[Callable[[], Any]]:
        runner = ag.Runner(_tree(size))
        (thread_id,) = {event.thread_id for event in runner.run("hi")}
        yield lambda: list(runner.events(str(thread_id)))

    return contender
