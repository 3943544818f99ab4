"""The edges of compiled graphs: the cases of `edges.txt`."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import chat, says, scripted
from helpers.walking import NAMES, cases, par

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


def unknown(where):  # type: ignore[no-untyped-def]
    """Routes."""
    return ag.TransferTo(where)


def edges_of(tree: ag.Agent, **options: Any) -> list[str]:
    """Return a line for each node, with the nodes that may follow it."""
    after: dict[str, list[str]] = defaultdict(list)
    for edge in ag.compile_agent(tree).get_graph(**options).edges:
        after[edge.source].append(f"{'..' if edge.conditional else '->'} {edge.target}")
    return sorted(f"{source} {', '.join(sorted(targets))}" for source, targets in after.items())


@pytest.mark.parametrize(("expression", "expected"), cases(Path(__file__).with_name("edges.txt")))
def test_edges_are_what_can_happen(expression: str, expected: str) -> None:
    assert "\n".join(edges_of(eval(expression, {**NAMES, **globals()}))) == expected


def test_a_sub_agent_in_a_branch_is_drawn_in_its_branch() -> None:
    tree = par("p", chat("P", sub_agents=[says("C")]), says("b"))
    assert "p:P:P.tools .. p:P:C, .. p:P:P" in edges_of(tree, xray=True)
