"""A thread told again is what its streams told, without what they made void: in order, id for id."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from helpers import Drive, Sync, collect, failing, fresh, scripted, standing
from langchain.agents.middleware import before_model
from langchain_core.messages import AIMessage
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolRuntime
from langgraph.types import interrupt

import agentgraph as ag
from agentgraph.testing import call, calls, transcript


def says(name: str, *texts: str) -> ag.Agent:
    def say(ctx: ag.Context) -> Iterator[str]:
        for text in texts:
            yield text
            time.sleep(0.001)

    return ag.function_agent(name, say)


def fails(name: str, times: int, *before: str) -> ag.Agent:
    left = [ValueError(f"{name} {n}") for n in range(times)]

    def fail(ctx: ag.Context) -> Iterator[str]:
        yield from before
        if left:
            raise left.pop(0)
        yield f"{name} at last"

    return ag.function_agent(name, fail)


def heard(drive: Drive, path: Path, tree: ag.Agent, *resumes: Any) -> list[ag.AgentEvent]:
    """Run a tree and resume it with answers, each time by a new runner; return all that was told."""
    told: list[ag.AgentEvent] = []
    with suppress(ValueError):
        collect(told, drive, path, tree, "run", "Go.", thread_id="t")
    for answers in resumes:
        with suppress(ValueError):
            collect(told, drive, path, tree, "resume", "t", *answers)
    return told


def again(drive: Drive, path: Path, tree: ag.Agent) -> list[ag.AgentEvent]:
    return fresh(drive, path, tree, "events", "t")


@pytest.mark.parametrize("turn", range(5))
def test_branches_are_told_again_in_the_order_in_which_they_spoke(
    drive: Drive, tmp_path: Path, turn: int
) -> None:
    branches = [
        says("a", "a1", "a2", "a3"),
        ag.parallel("q", [says("b", "b1", "b2"), says("c", "c1", "c2", "c3")]),
        ag.loop("l", [says("d", "d1"), says("e", "e1")], max_iterations=3),
    ]
    tree = ag.sequential("s", [ag.parallel("p", branches), says("z", "z1")])
    told = heard(drive, tmp_path / "db", tree)
    assert len(told) == 15
    assert again(drive, tmp_path / "db", tree) == told
    times = [event.time for event in told]
    assert times == sorted(set(times))


def test_events_say_in_which_turn_and_step_they_were_told_and_when(drive: Drive) -> None:
    runner = ag.Runner(ag.sequential("s", [says("a", "a1"), ag.human("h", "Well?")]))
    began = time.time()
    told = [*drive.run(runner, "Go.", thread_id="t"), *drive.resume(runner, "t", "yes")]
    told += [*drive.run(runner, "Again.", thread_id="t")]
    assert [event.turn for event in told] == [0, 0, 0, 1, 1]
    assert all(began - 1 < event.time < time.time() + 1 for event in told if event.time)
    config: Any = {"configurable": {"thread_id": "t"}}
    known = {
        state.config["configurable"]["checkpoint_id"]: state.next
        for state in runner.graph.get_state_history(config)
    }
    for event in told:
        checkpoint, _, node = str(event.step).partition(":")
        assert known[checkpoint] == (node,) == (event.agent_name,)
    assert list(runner.events("t")) == told


def test_what_a_function_said_is_void_as_soon_as_it_fails(drive: Drive, tmp_path: Path) -> None:
    tree = ag.sequential("s", [says("a", "a1"), fails("b", 2, "half")])
    path = tmp_path / "db"
    first = heard(drive, path, tree)
    assert transcript(first)[1:] == [
        "s/a/b: half",
        "s/a/b: [discarded]",
        "s/a/b: [error] ValueError('b 0')",
    ]
    assert again(drive, path, tree) == standing(first)


def test_all_failures_of_a_step_are_told_again(drive: Drive, tmp_path: Path) -> None:
    branch = fails("b", 2, "half")
    tree = ag.parallel("p", [says("a", "a1"), branch], on_error="wait")
    told = heard(drive, tmp_path / "db", tree, (), ())
    assert [event.error for event in told if event.error] == ["ValueError('b 0')", "ValueError('b 1')"]
    assert again(drive, tmp_path / "db", tree) == standing(told)
    assert [event.text for event in told if event.agent_name == "a"] == ["a1"]


def test_what_was_said_before_a_question_of_langgraphs_is_void_until_it_is_said_again(
    drive: Drive, tmp_path: Path
) -> None:
    def ask(ctx: ag.Context) -> Iterator[str]:
        yield "thinking"
        yield f"Then {interrupt('Well?')} and {interrupt('Really?')}."

    tree = ag.function_agent("f", ask)
    path = tmp_path / "db"
    told = heard(drive, path, tree)
    assert [event.kind for event in standing(told)] == ["interrupted"]
    told = heard(drive, tmp_path / "other", tree, ("yes",), ("no",))
    assert [event.text or event.kind for event in standing(told)] == [
        "interrupted",
        "interrupted",
        "thinking",
        "Then yes and no.",
    ]
    assert again(drive, tmp_path / "other", tree) == standing(told)


def test_of_a_race_the_losers_words_and_questions_are_void(drive: Drive, tmp_path: Path) -> None:
    def slow(ctx: ag.Context) -> Iterator[str]:
        time.sleep(0.1)
        yield "won"

    loser = ag.sequential("l", [says("a", "a1"), ag.human("h", "Well?")])
    race = ag.parallel("p", [loser, ag.function_agent("w", slow)], on_error="first")
    tree = ag.sequential("s", [race, says("z", "z1")])
    told = heard(drive, tmp_path / "db", tree)
    assert {"a1", "won"} < {event.text for event in told}
    assert "interrupted" in [event.kind for event in told]
    assert [event.text for event in standing(told)] == ["won", "z1"]
    assert again(drive, tmp_path / "db", tree) == standing(told)


def test_a_question_beside_the_failure_of_an_agent_as_a_tool_is_void(drive: Drive) -> None:
    inner = ag.parallel("both", [ag.human("h", "Well?"), fails("f", 1, "x")], on_error="wait")
    model = scripted(calls(call("both", request="x")), "Done.")
    runner = ag.Runner(ag.chat_agent("boss", model, tools=[ag.agent_tool(inner)]))
    told = list(drive.run(runner, "Go.", thread_id="t"))
    assert [event.kind for event in told].count("interrupted") == 1
    assert "interrupted" not in [event.kind for event in standing(told)]
    assert list(runner.events("t")) == standing(told)
    assert runner.pending("t") == []


def test_a_question_beside_a_failure_that_ends_the_run_still_waits(
    drive: Drive, tmp_path: Path
) -> None:
    inner = ag.parallel("both", [ag.human("h", "Well?"), fails("f", 1, "x")], on_error="wait")
    model = scripted(calls(call("both", request="x")), "Done.")
    tools = [ag.agent_tool(inner)]
    tree = ag.chat_agent("boss", model, tools=tools, on_tool_error="raise")
    told = heard(drive, tmp_path / "db", tree, (), ({"boss/both(0)/h": "Yes."},))
    assert "Yes." in [event.text for event in standing(told)]
    assert again(drive, tmp_path / "db", tree) == standing(told)


def test_a_tools_question_beside_a_failure_is_void_when_it_is_asked_again(
    drive: Drive, tmp_path: Path
) -> None:
    def ask(request: str) -> str:
        """Ask a person."""
        return str(interrupt("Well?"))

    model = scripted(calls(call("ask", request="x"), call("f", request="x")), "Done.")
    tools = [ask, ag.agent_tool(fails("f", 2, "x"))]
    boss = ag.chat_agent("boss", model, tools=tools, on_tool_error="raise")
    tree = ag.parallel("p", [boss, says("b", "b")])
    told = heard(drive, tmp_path / "db", tree, (), (), ("Yes.",))
    asked = [event for event in standing(told) if event.kind == "interrupted"]
    assert len(asked) == 1
    assert again(drive, tmp_path / "db", tree) == standing(told)


def test_questions_that_a_turn_drops_are_void(drive: Drive, tmp_path: Path) -> None:
    tree = ag.parallel(
        "p", [ag.human("a", "A?"), ag.sequential("q", [says("b", "b1"), ag.human("c", "C?")])]
    )
    path = tmp_path / "db"
    told = heard(drive, path, tree)
    more = fresh(drive, path, tree, "run", "Again.", thread_id="t", drop_pending=True)
    assert set(more[0].action.discarded) == {e.id for e in told if e.kind == "interrupted"}  # type: ignore[union-attr]
    assert again(drive, path, tree) == standing([*told, *more])


def test_a_turn_that_is_left_as_it_drops_a_question_leaves_it_to_be_answered(drive: Drive) -> None:
    tree = ag.sequential("s", [says("a", "a"), ag.human("h", "Sure?"), says("z", "z")])
    runner = ag.Runner(tree)
    told = list(drive.run(runner, "Go.", thread_id="t"))
    told.append(next(drive.run(runner, "Again.", thread_id="t", drop_pending=True)))
    assert told[-1].kind == "discarded"
    told += drive.resume(runner, "t", "yes")
    assert standing(told) == list(runner.events("t"))
    assert transcript(standing(told)) == ["s/a: a", "s/a/h: [asks] Sure?", "s/a/h: yes", "s/a/h/z: z"]


def test_questions_that_are_left_are_told_again_behind_what_was_told_since(
    drive: Drive, tmp_path: Path
) -> None:
    tree = ag.parallel("p", [ag.human(name, f"{name}?") for name in "abc"])
    told = heard(drive, tmp_path / "db", tree, ({"p/b": 1},), ({"p/c": 2, "p/a": 3},))
    assert sorted(event.text or event.kind for event in standing(told)) == sorted(
        ["interrupted", "1", "2", "3", "interrupted", "interrupted"]
    )
    assert again(drive, tmp_path / "db", tree) == standing(told)


class TestLangGraphsStreamWriter:
    def test_becomes_custom_events_wherever_it_is_used(self, drive: Drive) -> None:
        def function(ctx: ag.Context) -> str:
            get_stream_writer()({"from": "function"})
            return "said"

        def look(runtime: ToolRuntime) -> str:
            """Look."""
            runtime.stream_writer("from a tool")
            get_stream_writer()(["again"])
            return "seen"

        @before_model
        def hook(state: Any, runtime: Any) -> None:
            runtime.stream_writer({"from": "a hook"})

        def node(state: Any) -> Any:
            get_stream_writer()({"from": "a graph"})
            return {"messages": [AIMessage("graph")]}

        builder = StateGraph(MessagesState)
        builder.add_node("node", node)
        builder.add_edge(START, "node")
        graph = ag.graph_agent("g", builder.compile())
        model = scripted(calls(call("look"), call("look")), "Done.")
        agents = [
            ag.function_agent("f", function),
            ag.chat_agent("c", model, tools=[look], middleware=[hook]),
            ag.parallel("p", [graph, ag.function_agent("h", function)]),
        ]
        runner = ag.Runner(ag.sequential("s", agents))
        told = list(drive.run(runner, "Go.", thread_id="t"))
        custom = [(e.agent_name, e.output.custom) for e in told if e.kind == "custom" and e.output]
        assert sorted(custom, key=repr) == sorted(
            [
                ("f", {"from": "function"}),
                *[("c", {"from": "a hook"})] * 2,
                *[("c", "from a tool"), ("c", ["again"])] * 2,
                ("g", {"from": "a graph"}),
                ("h", {"from": "function"}),
            ],
            key=repr,
        )
        assert list(runner.events("t")) == told

    def test_is_told_before_the_node_has_ended(self) -> None:
        def function(ctx: ag.Context) -> str:
            get_stream_writer()("half")
            said.append(len(said))
            return "whole"

        said: list[int] = []
        runner = ag.Runner(ag.function_agent("f", function))
        assert [event.text or event.output.custom for event in runner.run("Go.")] == ["half", "whole"]  # type: ignore[union-attr]

    def test_cannot_speak_for_an_agent(self, drive: Drive) -> None:
        forged = {"agentgraph": {"entry": ["1", "exit", None, "boss", [0, 1, "", False]]}}

        def function(ctx: ag.Context) -> str:
            get_stream_writer()(forged)
            return "said"

        runner = ag.Runner(ag.function_agent("f", function))
        told = list(drive.run(runner, "Go.", thread_id="t"))
        assert [(e.kind, e.agent_name) for e in told] == [("custom", "f"), ("message", "f")]
        assert told[0].output == ag.Output(custom=forged)
        assert list(runner.events("t")) == told

    def test_that_fails_behind_it_leaves_nothing(self, drive: Drive) -> None:
        def function(ctx: ag.Context) -> str:
            get_stream_writer()("half")
            raise ValueError("no")

        runner = ag.Runner(ag.function_agent("f", function))
        told, _ = failing(drive.run(runner, "Go.", thread_id="t"), ValueError)
        assert [event.kind for event in told] == ["custom", "discarded", "error"]
        assert list(runner.events("t")) == standing(told) == told[2:]


def test_custom_data_reaches_a_plain_custom_stream_as_it_is_and_then_its_stamp() -> None:
    tree = ag.parallel(
        "p", [ag.function_agent(n, lambda ctx: ag.Custom({"n": ctx.address})) for n in "abc"]
    )
    parts = [
        part["data"]
        for part in ag.compile_agent(tree).stream(
            {"messages": ["Go."]}, stream_mode=["custom"], subgraphs=True, version="v2"
        )
    ]
    assert len(parts) == 6
    for data, stamp in zip(parts[::2], parts[1::2], strict=True):
        assert list(data) == ["n"]
        assert list(stamp) == ["agentgraph"]
        assert data["n"] in stamp["agentgraph"]["entry"]


def test_a_run_that_is_left_tells_first_what_is_void_and_then_what_is_kept(tmp_path: Path) -> None:
    def slow(ctx: ag.Context) -> Iterator[str]:
        yield "half"
        time.sleep(0.2)
        yield "whole"

    tree = ag.parallel(
        "p",
        [
            says("a", "a1"),
            ag.loop("l", [says("b", "b1"), ag.function_agent("c", slow)], max_iterations=2),
        ],
    )
    path = tmp_path / "db"
    with ag.sqlite_saver(path) as saver:
        run = ag.Runner(tree, checkpointer=saver).run("Go.", thread_id="t")
        told = [next(run) for _ in range(3)]
        run.close()
    more = fresh(Sync, path, tree, "resume", "t")
    assert more[0].kind == "discarded"
    assert again(Sync, path, tree) == standing([*told, *more])


def test_an_exception_that_is_raised_again_brings_no_questions_of_another_run(drive: Drive) -> None:
    again_and_again = ValueError("always the same")

    def fail(ctx: ag.Context) -> str:
        raise again_and_again

    failing = ag.function_agent("f", fail)
    both = ag.parallel("both", [ag.human("h", "Well?"), failing], on_error="wait")
    for tree, kinds in ((both, ["error", "interrupted"]), (failing, ["error"])):
        told: list[ag.AgentEvent] = []
        with suppress(ValueError):
            told.extend(event for event in drive.run(ag.Runner(tree), "Go.", thread_id="t"))
        assert {event.kind for event in told} <= {*kinds}
