"""What a level of nested parallels costs, on SQLite, beside compiled graphs nested by hand.

LangGraph writes into the metadata of each checkpoint the checkpoints of all graphs around it, under
their whole namespaces: the bytes of a nest by hand grow with the cube of its depth, and so do ours.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from loops import HELLO, TEXT, THREAD, Graph, Saver, invoked, says
from measure import Contender, Figure, grown, side_by_side
from steps import opened

import agentgraph as ag

Nest = Callable[[int, Saver], Graph]
_CONFIG: RunnableConfig = {**THREAD, "recursion_limit": 1000}


def figures() -> Iterator[Figure]:
    """Measure the time of nests, and their files."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.db"
        for name, (nest, aim) in NESTS.items():
            for sizes in ((16, 8), (32, 16)):
                totals = side_by_side(*(run(nest, depth, path) for depth in sizes), repeats=5)
                yield level(name, totals, sizes, aim, "ms")
                yield level(f"{name}, bytes", [size(nest, n, path) for n in sizes], sizes, aim, "KB")


def level(name: str, totals: list[float], sizes: tuple[int, int], aim: float, unit: str) -> Figure:
    """Return what a level costs in a deep nest and in one of half its depth.

    Args:
        name: The name of the figure.
        totals: What the deep nest takes, and the other.
        sizes: The depth of the deep nest, and of the other.
        aim: The power of the depth with which the whole is to grow at most; 0 if there is no aim.
        unit: The unit of the totals.
    """
    bounds = {"aim": (sizes[0] / sizes[1]) ** (aim - 1)} if aim else {}
    return grown(f"{name}, a level of {sizes[0]}", totals, sizes, of="one of", unit=unit, **bounds)


def ours(depth: int, saver: Saver) -> Graph:
    """Return so many parallels in each other, each with a leaf beside the next."""
    tree = says("leaf")
    for i in range(depth):
        tree = ag.parallel(f"p{i}", [tree, says(f"w{i}")])
    return ag.compile_agent(tree, checkpointer=saver)


def by_hand(depth: int, saver: Saver) -> Graph:
    """Return so many graphs in each other, each with a node beside the next."""

    def say(state: Any) -> dict[str, Any]:
        return {"messages": [AIMessage(TEXT)]}

    nest: Any = say
    for i in range(depth):
        builder = StateGraph(MessagesState).add_node(f"p{i}", nest).add_node(f"w{i}", say)
        builder.add_edge(START, f"p{i}").add_edge(START, f"w{i}")
        nest = builder.compile(checkpointer=saver if i == depth - 1 else None)
    graph: Graph = nest
    return graph


NESTS: dict[str, tuple[Nest, float]] = {
    "nested parallels": (ours, 1.1),
    "graphs nested by hand": (by_hand, 0.0),
}
"""What makes them by what they are, and the power of their depth that is aimed at; 0 for none."""


def run(nest: Nest, depth: int, path: Path) -> Contender:
    """Run a nest on a new file."""
    return invoked(partial(nest, depth), HELLO, partial(opened, path), _CONFIG)


def size(nest: Nest, depth: int, path: Path) -> float:
    """Return the bytes of the file of a nest that has run."""
    with run(nest, depth, path)() as call:
        call()
    return path.stat().st_size
