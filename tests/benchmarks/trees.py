"""What the shape of a tree costs: branches side by side, and a thousand agents compiled."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from compiling import compiled, compiled_by_hand
from measure import Contender, Figure, side_by_side

import agentgraph as ag


def figures() -> Iterator[Figure]:
    """Measure branches that wait, and compiling."""
    branches = [_waits("x", 0.4, 0.05), _waits("y", 0.05, 0.4)]
    both, longer = side_by_side(
        _run(ag.parallel("p", branches)), _run(branches[0]), repeats=3, clock=time.perf_counter
    )
    yield Figure(
        name="Parallel of [0.4, 0.05] and [0.05, 0.4] s",
        ours=both,
        theirs=longer,
        against="the longer branch alone",
        unit="s",
        aim=1.1,
    )
    ours, theirs = side_by_side(compiled, compiled_by_hand, repeats=5)
    yield Figure(
        name="compile a tree of 1,000 agents",
        ours=ours,
        theirs=theirs,
        against="the same nodes by hand",
        unit="ms",
        aim=2.0,
    )


def _waits(name: str, *pauses: float) -> ag.Agent:
    return ag.sequential(name, [_sleeps(f"{name}{i}", pause) for i, pause in enumerate(pauses)])


def _sleeps(name: str, pause: float) -> ag.Agent:
    def fn(ctx: ag.Context) -> str:
        time.sleep(pause)
        return name

    return ag.function_agent(name, fn)


def _run(agent: ag.Agent) -> Contender:
    @contextmanager
    def contender() -> Iterator[Callable[[], Any]]:
        runner = ag.Runner(agent)
        yield lambda: list(runner.run("hi"))

    return contender
