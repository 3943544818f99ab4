"""A value that `lint` calls missing on some way is missing in a run that takes that way."""

from collections.abc import Callable
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import agentgraph as ag

NAMES = ("alpha", "bravo")
RUNS = 20
"""Number of runs of a tree, each with other choices."""
COIN = Random(0)


def choose(ctx: ag.Context) -> bool:
    return COIN.random() < 0.5


def maybe_break(ctx: ag.Context) -> ag.BreakLoop | None:
    return ag.BreakLoop() if COIN.random() < 0.5 else None


FUNCTIONS: list[Callable[[Any], Any]] = [
    lambda ctx: ag.SetValues(alpha=1),
    lambda ctx: ag.SetValues(bravo=1),
    lambda ctx: str(ctx.values["alpha"]),
    lambda ctx: str(ctx.values["bravo"]),
    lambda ctx: "Hi.",
]


@st.composite
def trees(draw: Callable[..., Any]) -> ag.Agent:
    count = iter(range(1000))

    def agent(depth: int, *, in_loop: bool = False) -> ag.Agent:
        name = f"n{next(count)}"
        kinds = ["leaf", "sequential", "switch", "loop", "parallel", "workflow"]
        kind = draw(st.sampled_from(kinds)) if depth else "leaf"

        def inside(number: int, **options: bool) -> list[ag.Agent]:
            return [agent(depth - 1, **options) for _ in range(number)]

        match kind:
            case "sequential":
                return ag.sequential(name, inside(draw(st.integers(1, 3)), in_loop=in_loop))
            case "switch":
                [yes] = inside(1, in_loop=in_loop)
                return ag.switch(name, choose, {True: yes, False: ag.SKIP})
            case "loop":
                return ag.loop(name, inside(2, in_loop=True), max_iterations=2)
            case "parallel":
                return ag.parallel(name, inside(2))
            case "workflow":
                first, second = inside(2)
                when = draw(st.sampled_from([None, choose]))
                needs = draw(st.sampled_from([(), (first.name,)]))
                return ag.workflow(name, [ag.step(first, when=when), ag.step(second, depends_on=needs)])
        functions = [*FUNCTIONS, *([maybe_break] if in_loop else [])]
        return ag.function_agent(name, draw(st.sampled_from(functions)))

    return agent(3)


@settings(deadline=None)
@given(tree=trees())
def test_a_value_that_is_missing_on_some_way_is_missing_in_a_run(tree: ag.Agent) -> None:
    findings = [each for each in ag.lint(tree) if each.kind == "unwritten_value"]
    runner = ag.Runner(tree)
    for name in {each.name for each in findings}:
        others = {each: 0 for each in NAMES if each != name}
        assert any(is_missing(runner, name, others, seed) for seed in range(RUNS)), (
            str(tree),
            findings,
        )


def is_missing(runner: ag.Runner, name: str, values: dict[str, int], seed: int) -> bool:
    COIN.seed(seed)
    try:
        list(runner.query("Go.", values=values))
    except ag.AgentGraphError as failed:
        error: BaseException | None = failed
        while error is not None and not isinstance(error, ag.MissingValueError):
            error = error.__cause__  # that of a step
        return error is not None and name in str(error)
    return False
