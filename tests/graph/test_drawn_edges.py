"""The edges of compiled graphs: which node can follow which (`..` is a conditional edge)."""

import pytest
from helpers import says, scripted

import agentgraph as ag


def handing(name: str, *workers: ag.Agent) -> ag.Agent:
    return ag.supervisor(name, scripted(), workers, mode="handoff")


def plan(**options: bool) -> ag.Agent:
    roles = {name: says(name) for name in ("planner", "executor", "replanner")}
    return ag.plan_execute("pe", **roles, **options)


FLOW = ag.workflow("flow", [says("x"), ag.step(says("y"), depends_on=["x"], compensate=says("undo"))])


@pytest.mark.parametrize(
    ("tree", "edges"),
    [
        pytest.param(
            ag.sequential("s", [handing("S", says("a"), ag.sequential("q", [says("b"), says("c")]))]),
            "__start__ -> S, S .. S.tools, S .. __end__, S.tools .. S, S.tools .. a, S.tools .. b, "
            "a -> S, b -> c, c -> S",
            id="a supervisor that hands over",
        ),
        pytest.param(
            handing("out", handing("in", says("a"))),
            "__start__ -> out, out .. out.tools, out .. __end__, out.tools .. out, out.tools .. in, "
            "in .. in.tools, in .. out, in.tools .. in, in.tools .. a, a -> in",
            id="a supervisor of a supervisor",
        ),
        pytest.param(
            ag.sequential("s", [plan(), says("z")]),
            "__start__ -> planner, planner .. planner, planner .. executor, executor -> replanner, "
            "replanner .. replanner, replanner .. executor, replanner .. z, z -> __end__",
            id="a plan",
        ),
        pytest.param(
            plan(parallel=True),
            "__start__ -> planner, planner .. planner, planner .. pe_steps, pe_steps -> replanner, "
            "replanner .. replanner, replanner .. pe_steps, replanner .. __end__",
            id="a plan with parallel steps",
        ),
        pytest.param(
            ag.sequential("s", [says("a"), FLOW]),
            "__start__ -> a, a -> flow, flow -> __end__",
            id="a workflow",
        ),
    ],
)
def test_edges_show_what_can_happen(tree: ag.Agent, edges: str) -> None:
    drawn = ag.compile_agent(tree).get_graph().edges
    found = {f"{e.source} {'..' if e.conditional else '->'} {e.target}" for e in drawn}
    assert found == set(edges.split(", "))
