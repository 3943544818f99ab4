"""Functions asked where an agent has ended: one that fails, or asks, undoes nothing."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import Disk, Drive, failing, gives, says, scripted, standing
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import RetryPolicy, interrupt

import agentgraph as ag
from agentgraph.testing import call, calls, transcript


class Failing:
    """Gives one item after the other, and raises those that are exceptions; counts how often."""

    def __init__(self, *items: Any) -> None:
        self.items = list(items)
        self.seen: list[Any] = []

    def __call__(self, *given: Any) -> Any:
        self.seen.append(given[-1])
        item = self.items.pop(0) if len(self.items) > 1 else self.items[0]
        if isinstance(item, BaseException):
            raise item
        return item


def bug() -> KeyError:
    return KeyError("nokey")


def looped(body: Any, until: Any, name: str = "l") -> Any:
    return ag.loop(name, [body], max_iterations=3, until=until)


def checked(agent: Any, check: Any, **options: Any) -> Any:
    return ag.validated(agent, check, **options)


def foreign(*texts: str) -> Any:
    """Return a LangGraph graph that says one text after the other."""
    left = list(texts)

    def node(state: Any) -> Any:
        return {"messages": [("ai", left.pop(0))]}

    return StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile()


LEAVES: dict[str, Callable[[], Any]] = {
    "function": lambda: says("w", "one", "two"),
    "chat": lambda: ag.chat_agent("w", scripted("one", "two")),
    "graph": lambda: ag.graph_agent("w", foreign("one", "two")),
    "parallel": lambda: ag.parallel("w", [says("a", "one", "two")]),
    "workflow": lambda: ag.workflow("w", [ag.step(says("a", "one", "two"))]),
    "returning tool": lambda: ag.chat_agent(
        "w",
        scripted(calls(call("look")), calls(call("look"))),
        tools=[look(["one", "two"])],
        return_directly=["look"],
    ),
}


def look(texts: list[str]) -> Any:
    def look() -> str:
        """Look."""
        return texts.pop(0)

    return look


@pytest.mark.parametrize("kind", LEAVES)
class TestAfterAnyAgent:
    def test_until_that_fails_is_asked_alone(self, disk: Disk, kind: str) -> None:
        until = Failing(bug(), False, True)
        tree = ag.sequential("s", [looped(LEAVES[kind](), until), says("z")])
        told = disk.fail(tree, "run", KeyError)
        assert [event.text for event in told if event.text][-1:] == ["one"]
        assert told[-1].error == "KeyError('nokey')"
        assert told[-1].address == "s/l[0]/w"
        rest = disk.resume(tree)
        assert [event.text for event in rest if event.text] == ["two", "z"]
        assert len(until.seen) == 3
        assert disk.events(tree) == [*told, *rest]

    def test_a_check_that_fails_is_asked_alone(self, disk: Disk, kind: str) -> None:
        check = Failing(bug(), "too short", None)
        tree = ag.sequential("s", [checked(LEAVES[kind](), check), says("z")])
        told = disk.fail(tree, "run", KeyError)
        assert told[-1].error == "KeyError('nokey')"
        assert told[-1].address == "s/w"
        rest = disk.resume(tree)
        assert [event.text for event in rest if event.text][1:] == ["two", "z"]
        assert check.seen == ["one", "one", "two"]
        assert disk.events(tree) == [*told, *rest]

    def test_one_that_asks_a_person_is_answered(self, disk: Disk, kind: str) -> None:
        tree = looped(LEAVES[kind](), lambda ctx: interrupt("Enough?") == "yes")
        told = disk.run(tree)
        assert [event.text for event in told if event.text][-1:] == ["one"]
        (asked,) = [event for event in told if event.kind == "interrupted"]
        assert (asked.address, asked.action.interrupted.value) == ("l[0]/w", "Enough?")
        rest = disk.resume(tree, {asked.address: "no"})
        assert [event.text for event in rest if event.text][-1:] == ["two"]
        assert disk.resume(tree, "yes") == []
        assert disk.events(tree) == disk.told


class TestTheFailure:
    def test_says_which_function_failed_and_where(self, drive: Drive) -> None:
        tree = ag.sequential("s", [checked(says("w"), Failing(bug()))])
        told, raised = failing(drive.run(ag.Runner(tree), "Go."), KeyError)
        assert transcript(told) == ["s/w: w", "s/w: [error] KeyError('nokey')"]
        assert raised.__notes__[:2] == [
            "It was a check of the agent 'w' that failed.",
            "This happened in the agent 'w', at s/w.",
        ]

    def test_keeps_its_traceback(self, drive: Drive) -> None:
        def until(ctx: ag.Context) -> bool:
            return bool(ctx.values["nokey"])

        _, raised = failing(drive.run(ag.Runner(looped(says("w"), until)), "Go."), KeyError)
        names = []
        trace = raised.__traceback__
        while trace is not None:
            names.append(trace.tb_frame.f_code.co_name)
            trace = trace.tb_next
        assert names[-1] == "until"

    @pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
    def test_may_be_any(self, tmp_path: Path, error: BaseException) -> None:
        model = scripted("one")
        tree = looped(ag.chat_agent("w", model), Failing(error, True))
        told: list[ag.AgentEvent] = []
        with ag.sqlite_saver(tmp_path / "t.db") as saver:
            runner = ag.Runner(tree, checkpointer=saver)
            with pytest.raises(type(error)):
                told.extend(runner.run("Go.", thread_id="t"))
            rest = list(runner.resume("t"))
            assert standing(rest) == []
            assert list(runner.events("t")) == standing([*told, *rest])
        assert len(model.inputs) == 1

    def test_is_not_retried_and_nor_is_the_agent(self, drive: Drive) -> None:
        tries: list[str] = []

        def say(ctx: ag.Context) -> str:
            tries.append("say")
            if len(tries) == 1:
                raise ConnectionError("try again")
            return "said"

        retry = RetryPolicy(initial_interval=0.001, max_attempts=3, retry_on=Exception)
        until = Failing(ConnectionError("down"), ConnectionError("down"), True)
        runner = ag.Runner(looped(ag.function_agent("w", say, retry=retry), until))
        failing(drive.run(runner, "Go.", thread_id="t"), ConnectionError)
        failing(drive.resume(runner, "t"), ConnectionError)
        assert list(drive.resume(runner, "t")) == []
        assert (len(tries), len(until.seen)) == (2, 3)

    def test_is_one_more_failure_of_the_function_when_it_fails_again(self, disk: Disk) -> None:
        tree = looped(says("w"), Failing(bug(), ValueError("still"), True))
        told = disk.fail(tree, "run", KeyError)
        again = disk.fail(tree, "resume", ValueError)
        assert transcript(again) == ["l/w: [error] ValueError('still')"]
        assert disk.resume(tree) == []
        assert disk.events(tree) == [*told, *again]

    def test_leaves_the_words_to_a_new_turn(self, disk: Disk) -> None:
        model = scripted("one", "two")
        tree = looped(ag.chat_agent("w", model), Failing(bug(), True))
        disk.fail(tree, "run", KeyError)
        assert [event.text for event in disk.run(tree, "More.")] == ["two"]
        assert [message.text for message in model.inputs[1]] == ["Go.", "one", "More."]


class TestFunctionsBeforeIt:
    def test_are_asked_once(self, disk: Disk) -> None:
        inner, outer = Failing(True), Failing(bug(), bug(), True)
        tree = looped(looped(says("w"), inner, "i"), outer, "o")
        disk.fail(tree, "run", KeyError)
        disk.fail(tree, "resume", KeyError)
        assert disk.resume(tree) == []
        assert (len(inner.seen), len(outer.seen)) == (1, 3)

    def test_keep_what_they_said_told_and_wrote(self, disk: Disk) -> None:
        until = Failing(bug(), True)
        planner, executor = scripted('["a"]'), scripted("done")
        pe = ag.plan_execute("pe", planner=planner, executor=executor, replanner=says("r", "It is."))
        finish = Failing(bug(), True)
        tree = ag.sequential("s", [looped(checked(pe, finish), until), says("z")])
        disk.fail(tree, "run", KeyError)
        disk.fail(tree, "resume", KeyError)
        rest = disk.resume(tree)
        assert [event.text for event in rest] == ["z"]
        assert finish.seen == ["It is.", "It is."]
        assert (len(planner.inputs), len(executor.inputs), len(until.seen)) == (1, 1, 2)

    def test_that_spoke_are_heard_by_those_that_follow(self, disk: Disk) -> None:
        pe = ag.plan_execute(
            "pe", planner=says("p", '["a"]'), executor=says("e", "done"), replanner=says("r", "[]")
        )
        check = Failing(bug(), None)
        told = disk.fail(checked(pe, check), "run", KeyError)
        assert [event.text for event in told if event.text][-1:] == ["done"]
        assert told[-2].address == "pe"
        rest = disk.resume(checked(pe, check))
        assert (rest, check.seen) == ([], ["done", "done"])
        assert disk.events(checked(pe, check)) == told

    def test_that_asked_a_person_are_asked_once(self, disk: Disk) -> None:
        asked: list[str] = []

        def inner(ctx: ag.Context) -> bool:
            asked.append(interrupt("Enough?"))
            return True

        outer = Failing(bug(), True)
        tree = looped(looped(says("w"), inner, "i"), outer, "o")
        disk.run(tree)
        with pytest.raises(KeyError):
            disk.resume(tree, "yes")
        assert disk.resume(tree) == []
        assert (asked, len(outer.seen)) == (["yes"], 2)

    def test_may_ask_a_person_one_after_the_other(self, disk: Disk) -> None:
        inner: Any = lambda ctx: interrupt("In?") == "yes"  # noqa: E731
        outer: Any = lambda ctx: interrupt("Out?") == "yes"  # noqa: E731
        tree = looped(looped(says("w", "one", "two"), inner, "i"), outer, "o")
        assert transcript(disk.run(tree)) == ["o/i/w: one", "o/i/w: [asks] In?"]
        assert transcript(disk.resume(tree, "yes")) == ["o/i/w: [asks] Out?"]
        assert transcript(disk.resume(tree, "no")) == ["o/i/i/w: two", "o/i/i/w: [asks] In?"]
        assert disk.events(tree) == disk.told


class TestInALane:
    def test_of_a_branch_only_the_function_is_asked_again(self, disk: Disk) -> None:
        model, until = scripted("one"), Failing(bug(), True)
        branch = looped(ag.chat_agent("w", model), until)
        tree = ag.sequential("s", [ag.parallel("p", [branch, says("b")], on_error="wait"), says("z")])
        told = disk.fail(tree, "run", KeyError)
        assert told[-1].address == "s/p/l[0]/w"
        rest = disk.resume(tree)
        assert transcript(rest) == ["s/p/z: z"]
        assert (len(model.inputs), len(until.seen)) == (1, 2)
        assert sorted(map(str, disk.events(tree))) == sorted(map(str, [*told, *rest]))

    def test_of_a_branch_beside_one_that_failed_first_both_are_told(self, disk: Disk) -> None:
        begun = threading.Event()

        def slow(ctx: ag.Context) -> str:
            begun.set()
            time.sleep(0.05)  # the sibling fails meanwhile
            return "slow"

        def other(ctx: ag.Context) -> Any:
            begun.wait(10)
            raise KeyError("other")

        until = Failing(KeyError("until"), True)
        branches = [ag.function_agent("other", other), looped(ag.function_agent("w", slow), until)]
        events = disk.fail(ag.parallel("p", branches), "run", KeyError)
        told = [(event.address, event.error) for event in events if event.kind == "error"]
        assert sorted(told) == [("p/l[0]/w", "KeyError('until')"), ("p/other", "KeyError('other')")]

    def test_of_a_branch_that_collects_the_words_are_kept(self, drive: Drive) -> None:
        branch = looped(says("w", "one"), Failing(bug()))
        tree = ag.sequential("s", [ag.parallel("p", [branch], on_error="collect"), says("z")])
        runner = ag.Runner(tree)
        told = list(drive.run(runner, "Go.", thread_id="t"))
        assert [event.text for event in told if event.text] == [
            "one",
            "Failed: KeyError('nokey')",
            "z",
        ]
        assert list(runner.events("t")) == told

    def test_of_a_branch_a_person_is_asked(self, disk: Disk) -> None:
        branch = looped(says("w", "one", "two"), lambda ctx: interrupt("Enough?") == "yes")
        tree = ag.parallel("p", [branch, ag.human("h", "Well?")])
        asked = [e.action.interrupted for e in disk.run(tree) if e.kind == "interrupted"]
        assert {each.address: each.value for each in asked} == {"p/l[0]/w": "Enough?", "p/h": "Well?"}
        assert "p/l/w: two" not in transcript(disk.resume(tree, {"p/h": "Well."}))
        disk.resume(tree, {"p/l[0]/w": "yes"})
        assert [event.text for event in disk.told if event.kind == "message"] == ["one", "Well."]

    def test_of_a_tool_only_the_function_is_asked_again(self, disk: Disk) -> None:
        model, until = scripted("one"), Failing(bug(), True)
        inner = looped(ag.chat_agent("w", model), until)
        caller = scripted(calls(call("l", request="Do.")), "Done.")
        tree = ag.chat_agent("c", caller, tools=[ag.agent_tool(inner)], on_tool_error="raise")
        told = disk.fail(tree, "run", KeyError)
        assert told[-1].address == "c/l(0)[0]/w"
        rest = disk.resume(tree)
        assert [event.text for event in rest] == ["one", "Done."]
        assert (len(model.inputs), len(until.seen)) == (1, 2)

    def test_of_a_step_the_workflow_names_it(self, disk: Disk) -> None:
        until = Failing(bug(), True)
        tree = ag.workflow("f", [ag.step(looped(says("w"), until))])
        told = disk.fail(tree, "run", ag.StepFailedError)
        assert [event.address for event in told] == ["f/l[0]/w", "f/l[0]/w"]
        assert disk.resume(tree) == []


def test_until_after_a_workflow_is_no_failure_of_a_step(drive: Drive) -> None:
    tree = looped(ag.workflow("f", [ag.step(says("w"))]), Failing(bug()))
    _, raised = failing(drive.run(ag.Runner(tree), "Go."), KeyError)
    assert raised.__notes__[1] == "This happened in the agent 'f', at l[0]/f."


def test_a_signal_is_kept_with_the_position(disk: Disk) -> None:
    outer = Failing(bug(), True)
    tree = ag.sequential("s", [looped(looped(gives("w", ag.BreakLoop()), None, "i"), outer, "o")])
    told = disk.fail(tree, "run", KeyError)
    assert transcript(told) == ["s/o/i/w: [break_loop]", "s/o/i/w: [error] KeyError('nokey')"]
    assert disk.resume(tree) == []
    assert disk.events(tree) == told


def test_an_agent_whose_tool_breaks_a_loop_goes_on_from_there(disk: Disk) -> None:
    def stop() -> ag.BreakLoop:
        """Stop."""
        return ag.BreakLoop()

    model = scripted(calls(call("stop")))
    inner = ag.loop("i", [ag.chat_agent("w", model, tools=[stop]), says("b")], max_iterations=3)
    tree = ag.sequential("s", [looped(inner, Failing(bug(), True), "o"), says("z")])
    disk.fail(tree, "run", KeyError)
    assert transcript(disk.resume(tree)) == ["s/o/z: z"]
    assert len(model.inputs) == 1


def test_the_state_says_where_a_thread_stands(drive: Drive) -> None:
    runner = ag.Runner(looped(looped(says("w"), Failing(True), "i"), Failing(bug()), "o"))
    failing(drive.run(runner, "Go.", thread_id="t"), KeyError)
    state = runner.graph.get_state({"configurable": {"thread_id": "t"}})
    assert state.values["position"]["border"] == {"given": [True]}
    assert (state.next, "failure" in state.values) == (("w",), False)


def test_no_stream_of_langgraph_shows_the_failure() -> None:
    graph = ag.compile_agent(looped(says("w"), Failing(bug())))
    parts: list[Any] = []
    with pytest.raises(KeyError):
        parts.extend(graph.stream({"messages": ["Go."]}, stream_mode=["updates", "values"]))
    assert [update["w"].keys() for kind, update in parts if kind == "updates" and "w" in update] == [
        {"messages", "position"}
    ]
    assert not any("failure" in state for kind, state in parts if kind == "values")


def test_a_function_that_says_all_is_well_costs_no_step() -> None:
    tree = ag.loop("l", [says("a"), says("b")], max_iterations=3, until=lambda ctx: False)
    graph = ag.compile_agent(tree)
    parts = list(graph.stream({"messages": ["Go."]}, stream_mode="updates"))
    assert [name for part in parts for name in part] == ["a", "b"] * 3


def test_a_way_that_only_a_failure_takes_is_not_drawn() -> None:
    tree = ag.sequential("s", [checked(says("a"), Failing(True)), looped(says("b"), Failing(True))])
    drawn = {
        (edge.source, edge.target, edge.conditional)
        for edge in ag.compile_agent(tree).get_graph().edges
    }
    assert {("b", "b", True), ("b", "__end__", True), ("a", "a", True), ("a", "b", True)} <= drawn
    finished = ag.plan_execute("pe", planner=says("p"), executor=says("e"), replanner=says("r"))
    edges = {
        (edge.source, edge.target): edge.conditional
        for edge in ag.compile_agent(finished).get_graph().edges
    }
    assert (("e", "e") in edges, edges["e", "r"]) == (False, False)
