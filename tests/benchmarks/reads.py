"""What it costs to read one element of a value of 400 kB, beside a value that is one element."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from measure import Contender, Figure, side_by_side

import agentgraph as ag

ROWS = [{"id": n, "name": "x" * 60, "tags": ["a", "b"]} for n in range(4000)]
"""400 kB as JSON."""
_STEPS, _ITEMS = 200, 1000


def figures() -> Iterator[Figure]:
    """Time steps and items that read one element of a large value and of a small one."""
    for name, tree, count in (("a step", _steps, _STEPS), ("an item", _items, _ITEMS)):
        both = [_run(tree(), rows) for rows in (ROWS, ROWS[:1])]
        ours, small = side_by_side(*both, repeats=7)
        against = "the same with one element"
        yield Figure(
            name=f"{name} that reads one element of 400 kB",
            ours=ours / count,
            theirs=small / count,
            against=against,
            unit="ms",
            aim=1.2,
        )


def _reads(name: str) -> ag.Agent:
    return ag.function_agent(name, lambda ctx: str(ctx.values["rows"][0]["id"]))


def _steps() -> ag.Agent:
    return ag.loop("l", [_reads("a"), _reads("b")], max_iterations=_STEPS // 2)


def _items() -> ag.Agent:
    return ag.each("e", _reads("w"), lambda ctx: [*range(_ITEMS)], output_key="out")


def _run(tree: ag.Agent, rows: list[Any]) -> Contender:
    @contextmanager
    def contender() -> Iterator[Callable[[], Any]]:
        graph = ag.compile_agent(tree)
        yield lambda: graph.invoke({"messages": ["Go."], "values": {"rows": rows}})

    return contender
