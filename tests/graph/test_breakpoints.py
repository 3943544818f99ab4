"""Graphs that LangGraph stops before or after a node without a question, inside a tree."""

from typing import Any

import pytest
from helpers import Drive, around, failing, foreign, lines, says, scripted
from langchain.agents import create_agent

import agentgraph as ag
from agentgraph.testing import call, calls


def two_steps(**options: Any) -> Any:
    return foreign(lambda _: "one", lambda _: "two", **options)


INSTEAD = (
    ", where it would stop without a question; compile it without, and call interrupt() in a node, or "
    "put human(...) before the agent"
)
STOPS: list[tuple[Any, str]] = [
    (two_steps(interrupt_before=["n1"]), "its graph is compiled with interrupt_before=['n1']"),
    (two_steps(interrupt_after=["n0"]), "its graph is compiled with interrupt_after=['n0']"),
    (two_steps(interrupt_before="*"), "its graph is compiled with interrupt_before='*'"),
    (
        around(around(two_steps(interrupt_before=["n1"]))),
        "its graph in the node 'inner' in the node 'inner' is compiled with interrupt_before=['n1']",
    ),
    (
        create_agent(scripted(), interrupt_before=["model"]),
        "its graph is compiled with interrupt_before=['model']",
    ),
    (
        ag.compile_agent(says("a"), interrupt_after=["a"]),
        "its graph is compiled with interrupt_after=['a']",
    ),
]


@pytest.mark.parametrize(("graph", "fault"), STOPS)
def test_a_graph_that_is_compiled_to_stop_is_refused_nested_and_flat(graph: Any, fault: str) -> None:
    for flat in (False, True):
        with pytest.raises(ag.InvalidAgentError) as caught:
            ag.compile_agent(ag.parallel("p", [ag.graph_agent("job", graph, flat=flat)]))
        assert f"p/job: {fault}{INSTEAD}" in caught.value.faults


def hidden(kind: str) -> ag.Agent:
    """Return an agent that calls a graph with a breakpoint, which nobody sees beforehand."""
    graph = two_steps(interrupt_before=["n1"])

    def last(given: Any) -> str:
        return str(graph.invoke({"messages": []})["messages"][-1].text)

    async def alast(given: Any) -> str:
        return str((await graph.ainvoke({"messages": []}))["messages"][-1].text)

    def look() -> str:
        """Look."""
        return last(None)

    match kind:
        case "function":
            return ag.function_agent("job", last)
        case "coroutine":
            return ag.function_agent("job", alast)
        case "node":
            return ag.graph_agent("job", foreign(last))
        case "flat node":
            return ag.graph_agent("job", foreign(last), flat=True)
        case _:
            return ag.chat_agent("job", scripted(calls(call("look")), "two"), tools=[look])


KINDS = ["function", "coroutine", "node", "flat node", "tool"]


@pytest.mark.parametrize("where", ["alone", "branch"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_stop_that_is_met_fails_its_agent_and_nothing_is_left_out(
    drive: Drive, kind: str, where: str
) -> None:
    agents = [hidden(kind), says("last")]
    tree = ag.sequential("s", agents) if where == "alone" else ag.parallel("p", agents)
    runner = ag.Runner(tree)
    before, error = failing(drive.run(runner, "Go.", thread_id="t"), ag.InvalidOutputError)
    assert "a LangGraph graph in the agent 'job' stopped before or after a node without a" in str(error)
    assert runner.thread("t").status == "failed"
    after = lines([*before, *drive.resume(runner, "t")])
    assert any(line.endswith(": two") for line in after)
    assert sum("last: last" in line for line in after) == 1
