"""Answers: what is a bare one, and what becomes of questions when the state is edited."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from helpers import Drive, Sync, fresh, says, scripted
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

import agentgraph as ag
from agentgraph.cli.answers import AnswerError, given_answers
from agentgraph.errors import UnknownInterruptError
from agentgraph.testing import call, calls, transcript

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class Thread:
    """A thread in a file or in memory, each time with a new runner."""

    def __init__(self, drive: Drive, path: Path | None) -> None:
        self.drive, self.path, self.saver = drive, path, InMemorySaver()

    def call(self, tree: ag.Agent, method: str, *args: Any, **options: Any) -> list[Any]:
        if self.path is not None:
            return list(fresh(self.drive, self.path, tree, method, *args, **options))
        runner = ag.Runner(tree, checkpointer=self.saver)
        if self.drive is Sync:
            return list(getattr(runner, method)(*args, **options))

        async def collect() -> list[Any]:
            return [event async for event in getattr(runner, f"a{method}")(*args, **options)]

        return asyncio.run(collect())

    def run(self, tree: ag.Agent) -> list[str]:
        return transcript(self.call(tree, "run", "Go.", thread_id="t"))

    def resume(self, tree: ag.Agent, *answers: Any) -> list[str]:
        return transcript(self.call(tree, "resume", "t", *answers))

    def pending(self, tree: ag.Agent) -> list[ag.Interrupt]:
        if self.drive is Sync:
            return self.call(tree, "pending", "t")
        if self.path is None:
            runner = ag.Runner(tree, checkpointer=self.saver)
            return asyncio.run(runner.apending("t"))

        async def read(path: Path) -> list[ag.Interrupt]:
            async with ag.async_sqlite_saver(path) as saver:
                return await ag.Runner(tree, checkpointer=saver).apending("t")

        return asyncio.run(read(self.path))

    def edit(self, tree: ag.Agent, update: Any, **options: Any) -> None:
        """Edit the state, as an operator does, or Studio."""
        if self.path is None:
            ag.compile_agent(tree, checkpointer=self.saver).update_state(CONFIG, update, **options)
            return
        with ag.sqlite_saver(self.path) as saver:
            ag.compile_agent(tree, checkpointer=saver).update_state(CONFIG, update, **options)


@pytest.fixture(params=["memory", "SQLite"])
def thread(request: pytest.FixtureRequest, drive: Drive, tmp_path: Path) -> Thread:
    return Thread(drive, tmp_path / "threads.db" if request.param == "SQLite" else None)


def form(**options: Any) -> ag.Agent:
    return ag.sequential(
        "s", [ag.human("form", "Fill in.", output_key="got", **options), echo_values()]
    )


def echo_values() -> ag.Agent:
    return ag.function_agent("echo", lambda ctx: repr(ctx.values.get("got")))


def two() -> ag.Agent:
    branches = [ag.human("a", "A?", output_key="a"), ag.human("b", "B?", output_key="b")]
    return ag.sequential("s", [ag.parallel("p", branches), says("z")])


class TestADict:
    @pytest.mark.parametrize(
        "answer",
        [{"decisions": [{"type": "approve"}]}, {"size": 3}, {"s/nobody": "x"}, {"form": 1}, {}, {1: 2}],
    )
    def test_is_a_bare_answer_where_no_key_could_name_a_question(
        self, thread: Thread, answer: Any
    ) -> None:
        thread.run(form())
        plain = {str(key): value for key, value in answer.items()}
        assert thread.resume(form(), answer)[-1] == f"s/form/echo: {plain}"

    @pytest.mark.parametrize("key", ["0" * 32, "s/echo", "s"])
    def test_is_a_map_where_a_key_is_an_id_or_an_address(self, thread: Thread, key: str) -> None:
        thread.run(form())
        with pytest.raises(UnknownInterruptError, match=f"the question '{key}' is not pending"):
            thread.resume(form(), {key: "x", "size": 3})
        assert thread.resume(form(), {"s/form": {"size": 3}})[-1] == "s/form/echo: {'size': 3}"

    def test_that_does_not_fit_keeps_the_question(self, thread: Thread) -> None:
        tree = form(response_schema={"type": "object", "required": ["size"]})
        thread.run(tree)
        with pytest.raises(ag.InvalidAnswerError, match="does not fit: size: Field required"):
            thread.resume(tree, {"weight": 3})
        assert thread.resume(tree, {"size": 3})[-1] == "s/form/echo: {'size': 3}"

    def test_names_nothing_where_none_or_several_are_pending(self, thread: Thread) -> None:
        thread.run(two())
        with pytest.raises(UnknownInterruptError, match="the question 'size' is not pending"):
            thread.resume(two(), {"size": 3})
        asked = [line for line in thread.resume(two(), {}) if not line.endswith("[discarded]")]
        assert sorted(asked) == ["s/p/a: [asks] A?", "s/p/b: [asks] B?"]
        thread.resume(two(), {"s/p/a": 1, "s/p/b": 2})
        assert thread.resume(two(), {}) == []
        with pytest.raises(UnknownInterruptError, match="the question 'size' is not pending"):
            thread.resume(two(), {"size": 3})

    def test_serves_a_watched_thread_too(self) -> None:
        runner = ag.Runner(form())
        list(runner.run("Go.", thread_id="t"))
        assert ag.watch(runner, thread_id="t", answers={"size": 3}).text == "{'size': 3}"


def test_a_typed_name_of_no_question_is_no_answer_to_the_only_one() -> None:
    asked = ag.Interrupt(id="1" * 32, address="s/form", agent_name="form", value="Fill in.")
    with pytest.raises(AnswerError) as caught:
        given_answers(["s/from=3"], [asked])
    assert str(caught.value) == "the question 's/from' is not pending; pending are:\n  s/form"


@pytest.mark.parametrize("answer", [None, "", 0, False, [], {}])
def test_a_falsy_answer_is_an_answer(thread: Thread, answer: Any) -> None:
    thread.run(form())
    assert thread.resume(form(), answer)[-1] == f"s/form/echo: {answer!r}"
    assert thread.pending(form()) == []


def approved(ctx: ag.Context) -> Any:
    if not ctx.answered:
        return ag.Ask("Sure?", response_schema={"enum": ["yes", "no"]})
    return f"{ctx.answer} {ctx.values.get('k')}"


def asks_inside(what: str) -> str:
    """Ask a person."""
    return str(interrupt(what))


def writer(*made: Any) -> ag.Agent:
    return ag.chat_agent("boss", scripted(calls(*made), "Done."), tools=[asks_inside])


def graph() -> ag.Agent:
    builder = StateGraph(MessagesState)
    builder.add_node("one", lambda state: {"messages": [("ai", interrupt("Well?"))]})
    builder.add_edge(START, "one")
    return ag.graph_agent("boss", builder.compile())


ASKERS: dict[str, Any] = {
    "human": lambda: ag.human("boss", "Well?", response_schema={"enum": ["yes", "no"]}),
    "ask": lambda: ag.function_agent("boss", approved),
    "interrupt": lambda: ag.function_agent("boss", lambda ctx: str(interrupt("Well?"))),
    "tool": lambda: writer(call("asks_inside", "1", what="Sure?")),
}
INSIDE: dict[str, Any] = {
    "graph": graph,
    "branch": lambda: ag.parallel("boss", [ag.human("h", "Well?"), says("other")]),
    "agent tool": lambda: ag.chat_agent(
        "boss",
        scripted(calls(call("h", "1", request="x")), "Done."),
        tools=[ag.agent_tool(ag.human("h", "Well?"))],
    ),
}
UPDATES = [{"values": {"k": 1}}, {"messages": [("user", "By the way.")]}]


@pytest.mark.parametrize("update", UPDATES, ids=["values", "messages"])
class TestAfterAnEdit:
    @pytest.mark.parametrize("by", ["bare", "id", "address"])
    @pytest.mark.parametrize("asker", ASKERS.values(), ids=ASKERS.keys())
    def test_a_question_of_the_root_is_pending_under_its_new_id(
        self, thread: Thread, asker: Any, update: Any, by: str
    ) -> None:
        agent = asker()
        tree = ag.sequential("s", [says("a"), agent, says("z")])
        thread.run(tree)
        (before,) = thread.pending(tree)
        thread.edit(tree, update)
        (after,) = thread.pending(tree)
        assert (after.address, after.value, after.response_schema) == (
            *(before.address, before.value, before.response_schema),
        )
        assert after.id != before.id
        answer: Any = {"bare": "yes", "id": {after.id: "yes"}, "address": {"s/boss": "yes"}}[by]
        if before.response_schema:
            with pytest.raises(ag.InvalidAnswerError):
                thread.resume(tree, "perhaps")
        with pytest.raises(UnknownInterruptError, match="is not pending"):
            thread.resume(tree, {before.id: "yes"})
        told = thread.resume(tree, answer)
        assert told[-1] == "s/a/boss/z: z"
        assert any("yes" in line for line in told)
        assert not any("[asks]" in line for line in told)
        assert thread.pending(tree) == []

    @pytest.mark.parametrize("asker", ASKERS.values(), ids=ASKERS.keys())
    def test_it_may_be_asked_anew_and_that_is_its_id(
        self, thread: Thread, asker: Any, update: Any
    ) -> None:
        tree = ag.sequential("s", [says("a"), asker(), says("z")])
        thread.run(tree)
        thread.edit(tree, {"values": {"j": 1}})
        thread.edit(tree, update)
        (expected,) = thread.pending(tree)
        thread.resume(tree)
        assert thread.pending(tree) == [expected]
        assert thread.resume(tree, "yes")[-1] == "s/a/boss/z: z"

    @pytest.mark.parametrize("asker", INSIDE.values(), ids=INSIDE.keys())
    def test_the_only_one_inside_takes_a_bare_answer(
        self, thread: Thread, asker: Any, update: Any
    ) -> None:
        tree = ag.sequential("s", [says("a"), asker(), says("z")])
        thread.run(tree)
        (asked,) = thread.pending(tree)
        thread.edit(tree, update)
        assert [question.address for question in thread.pending(tree)] == [asked.address]
        told = thread.resume(tree, "yes")
        assert told[-1].endswith("/z: z")
        assert not any("[asks]" in line for line in told)

    @pytest.mark.parametrize("answer", [None, {}, {"0" * 32: 1}])
    @pytest.mark.parametrize("asker", INSIDE.values(), ids=INSIDE.keys())
    def test_an_answer_that_langgraph_would_misread_is_refused(
        self, thread: Thread, asker: Any, update: Any, answer: Any
    ) -> None:
        tree = ag.sequential("s", [says("a"), asker(), says("z")])
        thread.run(tree)
        (asked,) = thread.pending(tree)
        thread.edit(tree, update)
        with pytest.raises(UnknownInterruptError, match="the state was edited"):
            thread.resume(tree, {asked.address: answer})

    def test_several_are_asked_anew(self, thread: Thread, update: Any) -> None:
        thread.run(two())
        thread.edit(two(), update)
        before = {question.id for question in thread.pending(two())}
        for answers in ("yes", {"s/p/a": 1}, {next(iter(before)): 1}):
            with pytest.raises(UnknownInterruptError):
                thread.resume(two(), answers)
        with pytest.raises(UnknownInterruptError) as caught:
            thread.resume(two(), {"s/p/a": 1, "s/p/b": 2})
        assert str(caught.value) == (
            "thread 't': the state was edited (update_state) while s/p/a, s/p/b waited, so that the "
            "step begins anew; resume(thread_id) asks again, under new ids"
        )
        assert len(thread.resume(two())) == 2
        assert {question.id for question in thread.pending(two())}.isdisjoint(before)
        assert thread.resume(two(), {"s/p/a": 1, "s/p/b": 2})[-1] == "s/p/z: z"

    def test_an_answer_is_never_given_to_another_question(self, thread: Thread, update: Any) -> None:
        """What was answered before the edit would be asked first."""
        lane = ag.sequential("x", [ag.human("h1", "One?"), ag.human("h2", "Two?")])
        tree = ag.parallel("p", [lane, says("y")])
        thread.run(tree)
        thread.resume(tree, "first")
        thread.edit(tree, update)
        assert [question.value for question in thread.pending(tree)] == ["Two?"]
        with pytest.raises(UnknownInterruptError, match="the state was edited"):
            thread.resume(tree, "second")
        assert "p/x/h1: [asks] One?" in thread.resume(tree)

    def test_no_question_waits_where_the_edit_moved_the_thread(
        self, thread: Thread, update: Any
    ) -> None:
        tree = ag.sequential("s", [says("a"), ag.human("boss", "Well?"), says("z")])
        thread.run(tree)
        thread.edit(tree, update, as_node="boss")
        assert thread.pending(tree) == []
        with pytest.raises(UnknownInterruptError, match="no question is pending"):
            thread.resume(tree, "yes")

    def test_new_input_is_refused_and_may_drop_it(self, thread: Thread, update: Any) -> None:
        tree = ag.sequential("s", [ag.parallel("p", [says("a"), ag.human("boss", "Well?")]), says("z")])
        thread.run(tree)
        thread.edit(tree, update)
        with pytest.raises(ag.PendingInterruptError, match="s/p/boss"):
            thread.run(tree)
        thread.call(tree, "run", "Again.", thread_id="t", drop_pending=True)
        said = [event.text for event in thread.call(tree, "events", "t") if event.text]
        assert said == ["a", "a"]
