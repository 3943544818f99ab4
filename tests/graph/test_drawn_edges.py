"""The edges of compiled graphs: which node can follow which (`..` is a conditional edge)."""

from collections.abc import Iterator
from typing import Any

import pytest
from helpers import chat, says, scripted
from walking import par, rounds, seq

import agentgraph as ag


def handing(name: str, *workers: ag.Agent) -> ag.Agent:
    return ag.supervisor(name, scripted(), workers, mode="handoff")


def plan(**options: bool) -> ag.Agent:
    roles = {name: says(name) for name in ("planner", "executor", "replanner")}
    return ag.plan_execute("pe", **roles, **options)


def back(ctx: ag.Context) -> ag.TransferTo:
    return ag.TransferTo("P")


def maybe(ctx: ag.Context) -> Iterator[str | ag.TransferTo]:
    yield ag.TransferTo("P")


def route(where):  # type: ignore[no-untyped-def]
    """Routes."""
    return ag.TransferTo(where)


FLOW = ag.workflow("flow", [says("x"), ag.step(says("y"), depends_on=["x"], compensate=says("undo"))])
GROUP = [
    seq("S", says("a"), says("b")),
    rounds(2, "L", says("c"), says("d")),
    par("both", says("e"), says("f")),
]
TREES: dict[str, tuple[ag.Agent, str]] = {
    "transfers lead to each target, and to the end from what may end": (
        seq("s", chat("P", sub_agents=[chat("C"), says("D")]), says("z")),
        "__start__ -> P, P .. P.tools, P .. z, P.tools .. P, P.tools .. C, P.tools .. D, "
        "C .. C.tools, C .. z, C.tools .. C, C.tools .. P, D -> z, z -> __end__",
    ),
    "transfers lead to the first agent of a composite and out after its last": (
        rounds(2, "l", chat("P", sub_agents=GROUP)),
        "__start__ -> P, P .. P.tools, P .. P, P .. __end__, P.tools .. P, P.tools .. a, P.tools .. c, "
        "P.tools .. both, a -> b, b .. P, b .. __end__, c -> d, d .. c, d .. P, d .. __end__, "
        "both .. P, both .. __end__",
    ),
    "a function has an edge back only where its annotation names a transfer": (
        chat(
            "P", sub_agents=[*map(ag.function_agent, ("back", "maybe"), (back, maybe)), says("never")]
        ),
        "__start__ -> P, P .. P.tools, P .. __end__, P.tools .. P, P.tools .. back, P.tools .. maybe, "
        "P.tools .. never, back -> P, maybe .. P, maybe .. __end__, never -> __end__",
    ),
    "a tool without annotation adds an exit, and no target": (
        chat("P", tools=[route], sub_agents=[says("C")]),
        "__start__ -> P, P .. P.tools, P .. __end__, P.tools .. P, P.tools .. C, P.tools .. __end__, "
        "C -> __end__",
    ),
    "a supervisor that hands over": (
        seq("s", handing("S", says("a"), seq("q", says("b"), says("c")))),
        "__start__ -> S, S .. S.tools, S .. __end__, S.tools .. S, S.tools .. a, S.tools .. b, "
        "a -> S, b -> c, c -> S",
    ),
    "a supervisor of a supervisor": (
        handing("out", handing("in", says("a"))),
        "__start__ -> out, out .. out.tools, out .. __end__, out.tools .. out, out.tools .. in, "
        "in .. in.tools, in .. out, in.tools .. in, in.tools .. a, a -> in",
    ),
    "a plan": (
        seq("s", plan(), says("z")),
        "__start__ -> planner, planner .. planner, planner .. executor, executor -> replanner, "
        "replanner .. replanner, replanner .. executor, replanner .. z, z -> __end__",
    ),
    "a plan with parallel steps": (
        plan(parallel=True),
        "__start__ -> planner, planner .. planner, planner .. pe_steps, pe_steps -> replanner, "
        "replanner .. replanner, replanner .. pe_steps, replanner .. __end__",
    ),
    "a workflow": (seq("s", says("a"), FLOW), "__start__ -> a, a -> flow, flow -> __end__"),
}


def edges(tree: ag.Agent, **options: Any) -> set[str]:
    drawn = ag.compile_agent(tree).get_graph(**options).edges
    return {f"{e.source} {'..' if e.conditional else '->'} {e.target}" for e in drawn}


@pytest.mark.parametrize(("tree", "expected"), TREES.values(), ids=TREES)
def test_edges_are_what_can_happen(tree: ag.Agent, expected: str) -> None:
    assert edges(tree) == set(expected.split(", "))


def test_a_sub_agent_in_a_branch_is_drawn_in_its_branch() -> None:
    tree = par("p", chat("P", sub_agents=[says("C")]), says("b"))
    inside = {edge for edge in edges(tree, xray=True) if edge.startswith("p:P:P.tools")}
    assert inside == {"p:P:P.tools .. p:P:P", "p:P:P.tools .. p:P:C"}
