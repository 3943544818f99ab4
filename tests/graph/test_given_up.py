"""Turns that are given up: what had finished is kept, and only what was under way is not finished."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from helpers import Drive, Sync, collect, gives, says, scripted, standing
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

import agentgraph as ag
from agentgraph.testing import call, calls, transcript

NOT_FINISHED = "The call was not finished."


class Thread:
    """One thread, in memory or in a file: what was told, and what is kept."""

    def __init__(self, drive: Drive, path: Path | None) -> None:
        self.drive, self.path, self.saver = drive, path, InMemorySaver()
        self.told: list[ag.AgentEvent] = []

    def run(self, tree: ag.Agent, text: str = "Go.", **options: Any) -> list[str]:
        return self._call(tree, "run", text, thread_id="t", **options)

    def resume(self, tree: ag.Agent, *answers: Any) -> list[str]:
        return self._call(tree, "resume", "t", *answers)

    def fail(self, tree: ag.Agent, text: str = "Go.", **options: Any) -> list[str]:
        with pytest.raises((ValueError, ag.StepFailedError)):
            self.run(tree, text, **options)
        return transcript(self.told)

    def give_up(self, tree: ag.Agent, text: str = "Leave it.") -> list[str]:
        return self.run(tree, text, drop_pending=True)

    def history(self) -> list[str]:
        """Return the messages of the thread, each with who said it where."""
        return [_line(message) for message in self.state()["messages"]]

    def values(self) -> Any:
        return self.state().get("values", {})

    def state(self) -> Any:
        config: Any = {"configurable": {"thread_id": "t"}}
        if self.path is None:
            return ag.compile_agent(says("any"), checkpointer=self.saver).get_state(config).values
        with ag.sqlite_saver(self.path) as saver:
            return ag.compile_agent(says("any"), checkpointer=saver).get_state(config).values

    def events(self, tree: ag.Agent) -> list[ag.AgentEvent]:
        told: list[ag.AgentEvent] = []
        self._collect(told, tree, "events", "t")
        return told

    def check_events(self, tree: ag.Agent, turns: int) -> None:
        """Check that the thread tells what its readers heard and was not void later, turn by turn."""
        again = self.events(tree)
        assert again == standing(event for event in self.told if not event.partial)
        assert [*dict.fromkeys(event.turn for event in again)] == [*range(turns)]

    def _call(self, tree: ag.Agent, method: str, *args: Any, **options: Any) -> list[str]:
        before = len(self.told)
        self._collect(self.told, tree, method, *args, **options)
        return transcript(self.told[before:])

    def _collect(
        self, told: list[Any], tree: ag.Agent, method: str, *args: Any, **options: Any
    ) -> None:
        if self.path is not None:
            collect(told, self.drive, self.path, tree, method, *args, **options)
        elif self.drive is Sync:
            runner = ag.Runner(tree, checkpointer=self.saver)
            told.extend(getattr(runner, method)(*args, **options))
        else:
            asyncio.run(self._acollect(told, tree, method, *args, **options))

    async def _acollect(
        self, told: list[Any], tree: ag.Agent, method: str, *args: Any, **options: Any
    ) -> None:
        runner = ag.Runner(tree, checkpointer=self.saver)
        async for event in getattr(runner, f"a{method}")(*args, **options):
            told.append(event)


def _line(message: BaseMessage) -> str:
    at = message.response_metadata.get("agentgraph", "user")
    made = getattr(message, "tool_calls", ())
    return f"{at}: {message.text or ', '.join(each['name'] for each in made)}"


@pytest.fixture(params=["memory", "SQLite"])
def thread(request: pytest.FixtureRequest, drive: Drive, tmp_path: Path) -> Thread:
    return Thread(drive, tmp_path / "threads.db" if request.param == "SQLite" else None)


def echo(text: str) -> str:
    """Say it again."""
    return text


def ask(what: str) -> str:
    """Ask a person."""
    return str(interrupt(what))


def fail(text: str) -> str:
    """Fail."""
    raise ValueError(text)


def store(name: str) -> list[Any]:
    """Store a value."""
    return [ag.SetValues(stored=name), f"stored {name}"]


def failing(name: str, error: str = "no") -> ag.Agent:
    def fn(ctx: ag.Context) -> str:
        raise ValueError(error)

    return ag.function_agent(name, fn)


def started(*agents: ag.Agent) -> ag.Agent:
    """Return a sequence whose first agent marks each turn."""
    return ag.sequential("s", [says("first"), *agents])


def asks(name: str = "boss") -> ag.Agent:
    return ag.human(name, "Well?")


class TestToolCalls:
    def test_that_finished_keep_their_results_and_values(self, thread: Thread) -> None:
        made = [
            call("ask", "1", what="Sure?"),
            call("store", "2", name="a"),
            call("echo", "3", text="b"),
        ]
        model = scripted(calls(*made), "Fine.")
        tree = started(ag.chat_agent("writer", model, tools=[ask, echo, store]))
        thread.run(tree)
        told = ["s: [discarded]", "s/first: first", "s/first/writer: Fine."]
        assert thread.give_up(tree) == told
        assert thread.history() == [
            "user: Go.",
            "s/first: first",
            "s/writer: ask, store, echo",
            f"s/writer: {NOT_FINISHED}",
            "s/writer: stored a",
            "s/writer: b",
            "user: Leave it.",
            "s/first: first",
            "s/writer: Fine.",
        ]
        assert thread.values() == {"stored": "a"}
        assert [m.text for m in model.inputs[1]][3:6] == [NOT_FINISHED, "stored a", "b"]
        thread.check_events(tree, turns=2)

    def test_beside_one_that_failed_are_kept_in_a_new_turn(self, thread: Thread) -> None:
        made = [call("echo", "1", text="b"), call("fail", "2", text="no")]
        model = scripted(calls(*made), "Fine.")
        options: Any = {"tools": [echo, fail], "on_tool_error": "raise", "parallel_tools": False}
        tree = started(ag.chat_agent("writer", model, **options))
        thread.fail(tree)
        thread.run(tree, "Leave it.")
        assert thread.history()[2:5] == [
            "s/writer: echo, fail",
            "s/writer: b",
            f"s/writer: {NOT_FINISHED}",
        ]
        thread.check_events(tree, turns=2)

    def test_that_nobody_agreed_to_are_not_finished(self, thread: Thread) -> None:
        made = [call("echo", "1", text="a"), call("store", "2", name="b")]
        tree = started(
            ag.chat_agent(
                "writer", scripted(calls(*made), "Fine."), tools=[echo, store], approve=["echo"]
            )
        )
        thread.run(tree)
        thread.give_up(tree)
        assert thread.history()[3:5] == [f"s/writer: {NOT_FINISHED}"] * 2
        thread.check_events(tree, turns=2)

    def test_that_a_person_refused_keep_the_refusal(self, thread: Thread) -> None:
        made = [call("echo", "1", text="a"), call("ask", "2", what="Sure?")]
        model = scripted(calls(*made), "Fine.")
        tree = started(ag.chat_agent("writer", model, tools=[echo, ask], approve=["echo"]))
        thread.run(tree)
        thread.resume(tree, {"s/writer": {"decisions": [{"type": "reject", "message": "Never."}]}})
        thread.give_up(tree)
        assert thread.history()[3:5] == [
            "s/writer: User rejected the tool call for `echo` with reason: Never.",
            f"s/writer: {NOT_FINISHED}",
        ]
        thread.check_events(tree, turns=2)

    def test_of_a_second_round_follow_those_of_the_first(self, thread: Thread) -> None:
        second = [call("ask", "2", what="Sure?"), call("echo", "3", text="b")]
        model = scripted(calls(call("echo", "1", text="a")), calls(*second), "Fine.")
        tree = started(ag.chat_agent("writer", model, tools=[echo, ask]))
        thread.run(tree)
        thread.give_up(tree)
        assert thread.history()[2:7] == [
            "s/writer: echo",
            "s/writer: a",
            "s/writer: ask, echo",
            f"s/writer: {NOT_FINISHED}",
            "s/writer: b",
        ]

    def test_in_a_branch_are_kept_with_it(self, thread: Thread) -> None:
        made = [
            call("echo", "1", text="a"),
            call("ask", "2", what="Sure?"),
            call("ask", "3", what="Why?"),
        ]
        writer = ag.chat_agent("writer", scripted(calls(*made), "Fine."), tools=[echo, ask])
        tree = started(ag.parallel("p", [writer, says("other")]))
        thread.run(tree)
        asked = {event.action.interrupted.value: event.id for event in thread.told if event.action}  # type: ignore[union-attr]
        thread.resume(tree, {asked["Why?"]: "Because."})
        thread.give_up(tree)
        assert thread.history()[2:7] == [
            "s/p/writer: echo, ask, ask",
            "s/p/writer: a",
            f"s/p/writer: {NOT_FINISHED}",
            "s/p/writer: Because.",
            "s/p/other: other",
        ]
        thread.check_events(tree, turns=2)

    def test_of_agents_keep_the_result_but_not_the_inner_words(self, thread: Thread) -> None:
        done = ag.sequential("done", [says("d1"), gives("d2", ag.SetValues(k=1)), says("d3")])
        open_ = ag.sequential("open", [says("o1"), gives("o2", ag.SetValues(j=1)), asks()])
        made = [call("open", "1", request="x"), call("done", "2", request="y")]
        tree = started(
            ag.chat_agent(
                "writer",
                scripted(calls(*made), "Fine."),
                tools=[ag.agent_tool(done), ag.agent_tool(open_)],
            )
        )
        thread.run(tree)
        thread.give_up(tree)
        assert thread.history()[2:5] == [
            "s/writer: open, done",
            f"s/writer: {NOT_FINISHED}",
            "s/writer: d3",
        ]
        assert thread.values() == {"k": 1}
        thread.check_events(tree, turns=2)


class TestBranches:
    def test_that_ended_are_kept_and_of_the_others_what_their_agents_finished(
        self, thread: Thread
    ) -> None:
        open_ = ag.sequential("open", [says("o1"), gives("o2", ag.SetValues(k=1)), asks(), says("o3")])
        seen: list[tuple[list[str], dict[str, Any]]] = []

        def first(ctx: ag.Context) -> str:
            seen.append(([message.text for message in ctx.messages], dict(ctx.values)))
            return "first"

        tree = ag.sequential(
            "s", [ag.function_agent("first", first), ag.parallel("p", [open_, says("done")])]
        )
        thread.run(tree)
        thread.give_up(tree)
        texts = ["Go.", "first", "[o1] said: o1", "[done] said: done", "Leave it."]
        assert seen == [(["Go."], {}), (texts, {"k": 1})]
        thread.check_events(tree, turns=2)

    def test_are_kept_in_declared_order_whoever_asked_or_failed(self, thread: Thread) -> None:
        branches = [
            ag.sequential("a", [says("a1"), failing("a2")]),
            says("b"),
            ag.sequential("c", [says("c1"), asks("c2")]),
            ag.sequential("d", [says("d1"), failing("d2")]),
        ]
        tree = started(ag.parallel("p", branches, on_error="wait"))
        thread.fail(tree)
        thread.fail(tree, drop_pending=True)
        assert thread.history()[2:6] == ["s/p/a/a1: a1", "s/p/b: b", "s/p/c/c1: c1", "s/p/d/d1: d1"]
        thread.check_events(tree, turns=2)

    def test_whose_failure_is_kept_keep_it(self, thread: Thread) -> None:
        broken = ag.sequential("broken", [says("b1"), failing("b2")])
        tree = started(ag.parallel("p", [broken, asks()], on_error="collect"))
        thread.run(tree)
        thread.give_up(tree)
        assert thread.history()[2:4] == ["s/p/broken/b1: b1", "s/p/broken/b2: Failed: ValueError('no')"]
        thread.check_events(tree, turns=2)

    def test_that_race_have_no_loser_until_one_has_won(self, thread: Thread) -> None:
        branches = [ag.sequential(x, [says(f"{x}1"), asks(f"{x}2")]) for x in "ab"]
        tree = started(ag.parallel("p", branches, on_error="first"))
        thread.run(tree)
        thread.give_up(tree)
        assert thread.history()[2:5] == ["s/p/a/a1: a1", "s/p/b/b1: b1", "user: Leave it."]
        thread.check_events(tree, turns=2)

    def test_inside_branches_are_kept_in_their_places(self, thread: Thread) -> None:
        inner = ag.parallel("q", [says("q1"), ag.sequential("q2", [says("q3"), asks()])])
        tree = started(ag.parallel("p", [ag.sequential("x", [says("x1"), inner]), says("y")]))
        thread.run(tree)
        thread.give_up(tree)
        assert thread.history()[2:6] == [
            "s/p/x/x1: x1",
            "s/p/x/q/q1: q1",
            "s/p/x/q/q2/q3: q3",
            "s/p/y: y",
        ]
        thread.check_events(tree, turns=2)

    def test_of_a_loop_are_those_of_its_last_iteration(self, thread: Thread) -> None:
        fork = ag.parallel("p", [ag.sequential("x", [says("x1"), asks()]), says("y")])
        tree = started(ag.loop("l", [fork], max_iterations=3))
        thread.run(tree)
        thread.resume(tree, "One.")
        thread.give_up(tree)
        assert thread.history()[2:8] == [
            "s/l[0]/p/x/x1: x1",
            "s/l[0]/p/x/boss: One.",
            "s/l[0]/p/y: y",
            "s/l[1]/p/x/x1: x1",
            "s/l[1]/p/y: y",
            "user: Leave it.",
        ]
        thread.check_events(tree, turns=2)

    def test_given_up_twice_in_a_row_are_kept_once_each(self, thread: Thread) -> None:
        tree = started(ag.parallel("p", [says("a"), asks()]))
        thread.run(tree)
        thread.give_up(tree, "Again.")
        thread.give_up(tree, "And again.")
        assert thread.history() == [
            *["user: Go.", "s/first: first", "s/p/a: a"],
            *["user: Again.", "s/first: first", "s/p/a: a"],
            *["user: And again.", "s/first: first"],
        ]
        thread.resume(tree, "Yes.")
        assert thread.history()[-2:] == ["s/p/a: a", "s/p/boss: Yes."]
        thread.check_events(tree, turns=3)


class TestSteps:
    def test_are_kept_each_behind_those_it_depends_on(self, thread: Thread) -> None:
        steps = [
            ag.step(says("late"), depends_on=["early"]),
            ag.step(ag.sequential("open", [says("o1"), asks()]), depends_on=["early"]),
            ag.step(says("early")),
            ag.step(says("never"), depends_on=["open"]),
        ]
        tree = started(ag.workflow("w", steps))
        thread.run(tree)
        thread.give_up(tree)
        assert thread.history()[2:6] == [
            "s/w/early: early",
            "s/w/late: late",
            "s/w/open/o1: o1",
            "user: Leave it.",
        ]
        thread.check_events(tree, turns=2)

    def test_that_were_undone_are_kept_with_what_undid_them(self, thread: Thread) -> None:
        steps = [
            ag.step(says("book"), compensate=says("cancel")),
            ag.step(failing("pay"), depends_on=["book"]),
        ]
        tree = started(ag.workflow("w", steps))
        thread.fail(tree)
        thread.fail(tree, "Leave it.")
        assert thread.history()[2:5] == ["s/w/book: book", "s/w/cancel: cancel", "user: Leave it."]
        thread.check_events(tree, turns=2)

    def test_of_a_plan_are_kept_in_the_order_of_its_items(self, thread: Thread) -> None:
        plan = '[{"name": "a", "task": "x"}, {"name": "b", "task": "y"}, {"name": "c", "task": "z"}]'

        def work(ctx: ag.Context) -> Any:
            text = ctx.messages[0].text
            return ag.Ask("Well?") if "y" in text and not ctx.answered else "done"

        tree = ag.plan_execute(
            "pe",
            planner=says("first", plan),
            executor=ag.sequential("do", [says("hm"), ag.function_agent("work", work)]),
            replanner=says("replanner", '{"answer": "All."}'),
            parallel=True,
        )
        thread.run(tree)
        thread.give_up(tree)
        at = "pe/execute[0]/pe_steps/do"
        assert thread.history()[2:8] == [
            *[f"{at}(0)/hm: hm", f"{at}(0)/work: done", f"{at}(1)/hm: hm", f"{at}(2)/hm: hm"],
            *[f"{at}(2)/work: done", "user: Leave it."],
        ]
        thread.check_events(tree, turns=2)


class TestGraphs:
    def test_keep_what_they_said_with_calls_that_have_no_result(self, thread: Thread) -> None:
        builder = StateGraph(MessagesState)
        made = AIMessage("", tool_calls=[{"name": "find", "args": {}, "id": "1"}])
        builder.add_node("one", lambda state: {"messages": [AIMessage("One.")]})
        builder.add_node("two", lambda state: {"messages": [made]})
        builder.add_node("three", lambda state: {"messages": [AIMessage(interrupt("Well?"))]})
        builder.add_edge(START, "one")
        builder.add_edge("one", "two")
        builder.add_edge("two", "three")
        tree = started(ag.graph_agent("graph", builder.compile()))
        thread.run(tree)
        thread.give_up(tree)
        assert thread.history()[2:6] == [
            *["s/graph: One.", "s/graph: find", f"s/graph: {NOT_FINISHED}", "user: Leave it."]
        ]
        thread.check_events(tree, turns=2)


class TestATreeThatChanged:
    @pytest.mark.parametrize(
        "other",
        [
            ag.sequential("s", [says("first"), ag.parallel("q", [says("done"), says("new")])]),
            ag.sequential(
                "s",
                [
                    says("first"),
                    ag.loop("l", [ag.parallel("p", [says("a"), says("b")])], max_iterations=2),
                ],
            ),
            ag.sequential("s", [says("first"), says("p")]),
            says("first"),
        ],
    )
    def test_keeps_what_can_be_found(self, thread: Thread, other: ag.Agent) -> None:
        open_ = ag.sequential("open", [says("o1"), asks()])
        tree = started(ag.parallel("p", [open_, says("done")]))
        thread.run(tree)
        thread.give_up(other)
        assert thread.history()[:4] == [
            "user: Go.",
            "s/first: first",
            "s/p/done: done",
            "user: Leave it.",
        ]

    def test_keeps_the_branches_that_it_still_has(self, thread: Thread) -> None:
        open_ = ag.sequential("open", [says("o1"), asks()])
        thread.run(started(ag.parallel("p", [open_, says("done")])))
        thread.give_up(started(ag.parallel("p", [says("new"), open_, says("done")])))
        assert thread.history()[2:4] == ["s/p/open/o1: o1", "s/p/done: done"]


class FullDisk(InMemorySaver):
    """A saver that takes what nodes write, and then no checkpoint any more."""

    is_full = False

    def put(self, *args: Any) -> Any:
        if self.is_full:
            raise OSError("no space left on device")
        return super().put(*args)


def test_a_node_that_ended_but_was_not_committed_is_kept() -> None:
    saver = FullDisk()

    def last(ctx: ag.Context) -> list[Any] | Any:
        saver.is_full = True
        yield "a"
        yield ag.SetValues(k=1)

    runner = ag.Runner(started(ag.function_agent("a", last), asks()), checkpointer=saver)
    with pytest.raises(OSError, match="no space"):
        list(runner.run("Go.", thread_id="t"))
    saver.is_full = False
    with pytest.raises(OSError, match="no space"):
        list(runner.run("Again.", thread_id="t"))
    state = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values
    assert [_line(message) for message in state["messages"]] == [
        *["user: Go.", "s/first: first", "s/a: a", "user: Again.", "s/first: first", "s/a: a"]
    ]
    assert state["values"] == {"k": 1}


@pytest.mark.parametrize("is_async", [False, True])
def test_a_bare_graph_says_that_no_result_was_kept(is_async: bool) -> None:
    made = [call("ask", "1", what="Sure?"), call("echo", "2", text="b")]
    model = scripted(calls(*made), "Fine.")
    agent = ag.chat_agent("writer", model, tools=[ask, echo])
    graph = ag.compile_agent(agent, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    for text in ("Go.", "Leave it."):
        given = {"messages": [text]}
        asyncio.run(graph.ainvoke(given, config)) if is_async else graph.invoke(given, config)
    assert [m.text for m in model.inputs[1][2:4]] == ["No result of this call was kept."] * 2


def test_values_of_the_new_turn_are_written_over_those_that_are_kept(thread: Thread) -> None:
    wrote = ag.sequential("x", [gives("x1", ag.SetValues(a=1, b=1)), asks()])
    tree = started(ag.parallel("p", [wrote, gives("y", ag.SetValues(b=2, c=2))]))
    thread.run(tree, values={"d": 0})
    thread.run(tree, "Again.", values={"c": 3}, drop_pending=True)
    assert thread.values() == {"a": 1, "b": 2, "c": 3, "d": 0}
