"""A tracer sees a tree as it is: one span for each activation and each composite, inside each other."""

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from textwrap import dedent
from typing import Any
from uuid import UUID

import pytest
from helpers import Drive, asks, chat, echo, fails, foreign, middleware, retrying, says, scripted
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run
from langgraph.graph import MessagesState, StateGraph

import agentgraph as ag
from agentgraph.testing import call, calls


class Traced(BaseTracer):
    """Keeps the runs that it is told of."""

    run_inline = True

    def __init__(self) -> None:
        super().__init__()
        self.runs: dict[UUID, Run] = {}

    def _persist_run(self, run: Run) -> None:
        """Do nothing: it is kept from its start."""

    def _start_trace(self, run: Run) -> None:
        super()._start_trace(run)
        self.runs[run.id] = run

    def lines(self) -> str:
        """Return what it was told: spans by their addresses, other runs by their names, inside others.

        All have ended, and each has the metadata of the agent that it is part of.
        """
        assert [run.name for run in self.runs.values() if run.end_time is None] == []
        assert self.run_map == {}
        (root,) = [run for run in self.runs.values() if run.parent_run_id is None]
        return "\n".join(self._tree(root, ""))

    def _tree(self, run: Run, indent: str) -> Iterator[str]:
        at = run.metadata["agent_address"]
        is_span = run.run_type == "chain" and re.split(r"\W", at.rpartition("/")[2])[0] == run.name
        waits = "__interrupt__" in (run.outputs or {})
        yield indent + (at if is_span else run.name) + (" fails" * bool(run.error) or " asks" * waits)
        assert not is_span or run.metadata["agent_name"] == run.metadata["lc_agent_name"] == run.name
        inside = [each for each in self.runs.values() if each.parent_run_id == run.id]
        for each in sorted(inside, key=lambda each: str(each.metadata["agent_address"])):
            assert is_span or each.metadata["agent_address"] == at
            yield from self._tree(each, f"{indent}  ")


def lines_of(tree: ag.Agent, drive: Drive, *answers: Any, **options: Any) -> list[str]:
    """Return what a tracer sees of a run, and of each resume with an answer, also if one fails."""
    seen, runner = [], ag.Runner(tree, **options)
    for answer in (None, *answers):
        traced = Traced()
        config: Any = {"callbacks": [traced]}
        run = (
            drive.run(runner, "Go.", thread_id="t", config=config)
            if answer is None
            else drive.resume(runner, "t", answer, config=config)
        )
        with suppress(ValueError, ag.AgentGraphError):
            list(run)
        seen.append(traced.lines())
    return seen


def job(agent: ag.Agent) -> ag.Agent:
    return ag.sequential("job", [agent])


def two() -> ag.Agent:
    return ag.sequential("two", [says("one"), says("more")])


def asked(ctx: ag.Context) -> Any:
    return f"{ctx.answer}" if ctx.answered else ["Hm.", ag.Ask("Well?")]


def calls_agents(ctx: ag.Context) -> Iterator[str]:
    for name in ("left", "two"):
        yield ctx.run(name, "Go.")


def team(mode: Any) -> ag.Agent:
    asks_worker = call("worker", request="x") if mode == "tools" else call("transfer_to_worker")
    worker = chat("worker", "Sorted.", description="Sorts.")
    return ag.supervisor("boss", scripted(calls(asks_worker), "Done."), [worker], mode=mode)


def boss(*asked: Any, **options: Any) -> ag.Agent:
    return chat("boss", calls(*asked), "Done.", **options)


ECHOES = call("echo", "1", text="a"), call("echo", "2", text="b")
TREES: dict[str, tuple[Callable[[], ag.Agent], str]] = {
    "a leaf": (lambda: says("leaf"), "leaf"),
    "loops": (
        lambda: ag.loop(
            "outer",
            [job(says("one")), ag.loop("inner", [says("x")], max_iterations=2)],
            max_iterations=2,
        ),
        """
        outer
          outer[0]/inner
            outer[0]/inner[0]/x
            outer[0]/inner[1]/x
          outer[0]/job
            outer[0]/job/one
          outer[1]/inner
            outer[1]/inner[0]/x
            outer[1]/inner[1]/x
          outer[1]/job
            outer[1]/job/one
        """,
    ),
    "branches": (
        lambda: job(
            ag.parallel(
                "both", [says("left"), ag.sequential("two", [says("one"), chat("poet", "Bees.")])]
            )
        ),
        """
        job
          job/both
            job/both/left
            job/both/two
              job/both/two/one
              job/both/two/poet
                ScriptedChatModel
        """,
    ),
    "the first": (
        lambda: ag.parallel("both", [says("left"), ag.loop("l", [says("x")], max_iterations=1)]),
        "both\n  both/l\n    both/l[0]/x\n  both/left",
    ),
    "items": (
        lambda: ag.each("files", two(), over=lambda ctx: ["a", "b"], key=lambda item: item),
        """
        files
          files/two(0:a)
            files/two(0:a)/more
            files/two(0:a)/one
          files/two(1:b)
            files/two(1:b)/more
            files/two(1:b)/one
        """,
    ),
    "items that are leaves": (
        lambda: ag.each("files", says("read"), over=lambda ctx: ["a", "b"]),
        "files\n  files/read(0)\n  files/read(1)",
    ),
    "steps": (
        lambda: ag.workflow("flow", [ag.step(says("left")), ag.step(two(), depends_on=["left"])]),
        "flow\n  flow/left\n  flow/two\n    flow/two/more\n    flow/two/one",
    ),
    "a choice": (
        lambda: ag.switch("way", lambda ctx: "a", {"a": two(), "b": says("b")}),
        "way\n  way/two\n    way/two/more\n    way/two/one",
    ),
    "tools, a hook and an agent as a tool": (
        lambda: job(
            boss(
                *ECHOES,
                call("two", "3", request="x"),
                tools=[echo, ag.agent_tool(two())],
                middleware=[middleware("Hook", before_model=lambda *_: None)],
            )
        ),
        """
        job
          job/boss
            boss.Hook.before_model
            ScriptedChatModel
            echo
            echo
            boss.Hook.before_model
            ScriptedChatModel
            job/boss/two(2)
              job/boss/two(2)/more
              job/boss/two(2)/one
        """,
    ),
    "a supervisor": (
        lambda: team("tools"),
        """
        boss
          ScriptedChatModel
          ScriptedChatModel
          boss/worker(0)
            ScriptedChatModel
        """,
    ),
    "handoffs": (
        lambda: job(team("handoff")),
        """
        job
          job/boss
            ScriptedChatModel
            transfer_to_worker
            job/boss[1]/worker
              ScriptedChatModel
            job/boss[2]
              ScriptedChatModel
        """,
    ),
    "a swarm": (
        lambda: ag.swarm(
            "desk", [chat("ann", calls(call("transfer_to_bob"))), chat("bob", "Hi.")], start="ann"
        ),
        """
        desk
          desk[0]/ann
            ScriptedChatModel
            transfer_to_bob
          desk[1]/bob
            ScriptedChatModel
        """,
    ),
    "a function with agents": (
        lambda: ag.function_agent("caller", calls_agents, agents=[says("left"), two()]),
        """
        caller
          caller/left(0)
          caller/two(1)
            caller/two(1)/more
            caller/two(1)/one
        """,
    ),
    "a second attempt": (
        lambda: job(
            ag.validated(says("w", "bad", "good"), lambda text: text if text == "bad" else None)
        ),
        "job\n  job/w\n  job/w{1}",
    ),
    "a retry": (lambda: job(fails("f", retry=retrying())), "job\n  job/f"),
    "a failure": (
        lambda: job(
            ag.parallel("both", [says("left"), ag.sequential("two", [fails("f")])], on_error="wait")
        ),
        """
        job fails
          job/both fails
            job/both/left
            job/both/two fails
              job/both/two/f fails
        """,
    ),
    "a graph": (
        lambda: job(ag.graph_agent("graph", foreign(lambda state: {"messages": ["Hi."]}))),
        "job\n  job/graph\n    LangGraph\n      n0",
    ),
    "a flattened graph": (
        lambda: job(ag.graph_agent("graph", foreign(lambda state: {"messages": ["Hi."]}), flat=True)),
        "job\n  job/graph\n    job/graph/n0",
    ),
}


@pytest.mark.parametrize("kind", TREES)
def test_a_tracer_sees_each_activation_once_inside_the_agent_around_it(kind: str, drive: Drive) -> None:
    tree, expected = TREES[kind]
    assert lines_of(tree(), drive) == [dedent(expected).strip()]


def test_a_question_ends_the_spans_around_it_and_its_answer_begins_others(drive: Drive) -> None:
    branches = [
        says("left"),
        ag.function_agent("asking", asked),
        ag.sequential("two", [says("one"), asks("person")]),
        boss(ECHOES[0], tools=[echo], approve=["echo"]),
    ]
    tree = job(ag.parallel("both", branches))
    answers = {"job/both/asking": "a", "job/both/two/person": "b", "job/both/boss": "approve"}
    first, second = lines_of(tree, drive, answers)
    assert (
        first
        == dedent("""
        job
          job/both asks
            job/both/asking asks
            job/both/boss asks
              ScriptedChatModel
            job/both/left
            job/both/two asks
              job/both/two/one
              job/both/two/person asks
    """).strip()
    )
    assert (
        second
        == dedent("""
        job
          job/both
            job/both/asking
            job/both/boss
              echo
              ScriptedChatModel
            job/both/two
              job/both/two/person
    """).strip()
    )


def test_spans_end_where_the_caller_leaves_a_run(drive: Drive) -> None:
    traced, tree = Traced(), ag.loop("outer", [says("left"), two()], max_iterations=3)
    with closing(drive.run(ag.Runner(tree), "Go.", config={"callbacks": [traced]})) as events:
        next(iter(events))
    assert traced.lines().splitlines()[:2] == ["outer fails", "  outer[0]/left"]


def nested() -> Any:
    """Return a graph with a tree as a node, and one that a node invokes."""
    inner = ag.compile_agent(two())

    async def invokes(state: Any) -> Any:
        return await inner.ainvoke({"messages": state["messages"]})

    graph = StateGraph(MessagesState).add_node("node", inner).add_node("invokes", invokes)
    return graph.set_entry_point("node").add_edge("node", "invokes").compile(name="graph")


def test_a_tree_inside_a_graph_is_traced_as_a_tree() -> None:
    traced = Traced()
    tree = job(ag.graph_agent("outer", nested()))
    asyncio.run(ag.Runner(tree).ainvoke("Go.", config={"callbacks": [traced]}))
    spans = [run for run in traced.runs.values() if run.metadata["agent_name"] in ("one", "more")]
    parents = [traced.runs[run.parent_run_id] for run in spans if run.parent_run_id]
    assert [run.metadata["agent_address"] for run in spans] == ["two/one", "two/more"] * 2
    assert [(run.name, run.metadata["agent_address"]) for run in parents] == [("two", "two")] * 4
    above = [traced.runs[run.parent_run_id].name for run in parents[::2] if run.parent_run_id]
    assert above == ["node", "invokes"]
    assert {run.name for run in traced.runs.values() if run.end_time is None} == set()
