"""Threads that are forked by time travel: they tell, ask and keep what leads to their head."""

from pathlib import Path
from typing import Any

import pytest
from forked import CONFIG, FORKS, Counted, Thread
from helpers import Drive, scripted
from langgraph.types import interrupt

import agentgraph as ag
from agentgraph.testing import call, calls


@pytest.fixture(params=["memory", "SQLite"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "threads.db" if request.param == "SQLite" else None


@pytest.fixture(params=FORKS)
def how(request: pytest.FixtureRequest) -> str:
    way: str = request.param
    return way


def three() -> ag.Agent:
    return ag.sequential("s", [*map(Counted(), "abc")])


def asking(name: str) -> ag.Agent:
    return ag.human(name, f"{name}?")


class TestASequence:
    def test_only_the_line_to_the_head_is_told(self, drive: Drive, path: Path | None, how: str) -> None:
        thread = Thread(drive, three(), path)
        assert thread.run() == ["a0", "b1", "c2"]
        assert thread.fork(how, thread.before("b")) == ["b3", "c4"]
        assert thread.lines() == ["a0", "b3", "c4"]

    def test_a_fork_that_has_not_run_yet_tells_what_was_before_it(
        self, drive: Drive, path: Path | None
    ) -> None:
        thread = Thread(drive, three(), path)
        thread.run()
        thread.edit(thread.before("c"))
        assert thread.lines() == ["a0", "b1"]
        assert thread.last_turn() == ["a0", "b1"]

    def test_two_forks_of_one_checkpoint_are_two_lines(
        self, drive: Drive, path: Path | None, how: str
    ) -> None:
        thread = Thread(drive, three(), path)
        thread.run()
        thread.fork(how, thread.before("b"))
        thread.fork(how, thread.before("b"))
        assert thread.lines() == ["a0", "b5", "c6"]

    def test_a_fork_of_a_fork_is_told_with_what_both_were_made_of(
        self, drive: Drive, path: Path | None, how: str
    ) -> None:
        thread = Thread(drive, three(), path)
        thread.run()
        thread.fork(how, thread.before("b"))
        thread.fork(how, thread.before("c", -1))
        assert thread.lines() == ["a0", "b3", "c5"]
        thread.fork(how, thread.before("c", 0))
        assert thread.lines() == ["a0", "b1", "c6"]

    def test_an_edit_that_is_forked_again_is_left_with_what_ran_behind_it(
        self, drive: Drive, path: Path | None
    ) -> None:
        thread = Thread(drive, three(), path)
        thread.run()
        edited = thread.edit(thread.before("b"))
        thread.resume()
        thread.replay(edited)
        assert thread.lines() == ["a0", "b5", "c6"]

    def test_a_copy_tells_the_step_that_the_original_ended(
        self, drive: Drive, path: Path | None
    ) -> None:
        thread = Thread(drive, three(), path)
        thread.run()
        thread.edit(thread.before("c"), as_node="__copy__")
        assert thread.lines() == ["a0", "b1"]
        assert thread.resume() == ["c3"]
        assert thread.lines() == ["a0", "b1", "c3"]

    def test_the_next_turn_is_told_behind_the_fork(
        self, drive: Drive, path: Path | None, how: str
    ) -> None:
        thread = Thread(drive, three(), path)
        thread.run()
        thread.fork(how, thread.before("b"))
        thread.run("And again.")
        assert thread.lines() == ["a0", "b3", "c4", "a5", "b6", "c7"]
        assert thread.last_turn() == ["a5", "b6", "c7"]

    def test_a_fork_may_go_back_into_another_turn(
        self, drive: Drive, path: Path | None, how: str
    ) -> None:
        thread = Thread(drive, three(), path)
        thread.run()
        thread.run("And again.")
        thread.fork(how, thread.before("c"))
        assert thread.lines() == ["a0", "b1", "c6"]
        assert thread.last_turn() == ["a0", "b1", "c6"]
        thread.fork(how, thread.before("b", 1))
        assert thread.lines() == ["a0", "b1", "c2", "a3", "b7", "c8"]
        assert thread.last_turn() == ["a3", "b7", "c8"]

    def test_a_turn_that_begins_at_an_older_checkpoint_follows_that(
        self, drive: Drive, path: Path | None
    ) -> None:
        thread = Thread(drive, three(), path)
        thread.run()
        end = thread.state().config
        thread.run("And again.")
        thread.edit(end)
        thread.run("Once more.")
        assert thread.lines() == ["a0", "b1", "c2", "a6", "b7", "c8"]


class TestALoop:
    def test_the_iterations_before_the_fork_are_kept(
        self, drive: Drive, path: Path | None, how: str
    ) -> None:
        loop = ag.loop("l", [*map(Counted(), "ab")], max_iterations=3)
        thread = Thread(drive, loop, path)
        assert thread.run() == ["a0", "b1", "a2", "b3", "a4", "b5"]
        assert thread.fork(how, thread.before("b", 1)) == ["b6", "a7", "b8"]
        assert thread.lines() == ["a0", "b1", "a2", "b6", "a7", "b8"]


class TestBranches:
    def tree(self) -> ag.Agent:
        says = Counted()
        lane = ag.sequential("lane", [says("x"), asking("ask"), says("y")])
        return ag.sequential("s", [says("a"), ag.parallel("p", [lane, asking("boss")]), says("z")])

    def done(self, drive: Drive, path: Path | None) -> Thread:
        thread = Thread(drive, self.tree(), path)
        thread.run()
        thread.resume({"s/p/lane/ask": "one"})
        thread.resume("two")
        assert thread.lines()[-1] == "z3"
        return thread

    def test_a_fork_before_them_runs_them_again(
        self, drive: Drive, path: Path | None, how: str
    ) -> None:
        thread = self.done(drive, path)
        thread.fork(how, thread.before("a"))
        assert sorted(thread.lines()) == ["a4", "ask?", "boss?", "x5"]
        thread.check_pending("s/p/lane/ask", "s/p/boss")
        thread.resume({"s/p/boss": "yes"})
        thread.check_pending("s/p/lane/ask")
        thread.resume("no")
        expected = ["a4", "ask?", "boss?", "no", "x5", "y6", "yes", "z7"]
        assert sorted(thread.lines()) == expected
        assert sorted(thread.last_turn()) == expected

    def test_a_fork_of_their_step_leaves_what_they_came_to(
        self, drive: Drive, path: Path | None, how: str
    ) -> None:
        thread = self.done(drive, path)
        thread.fork(how, thread.before("p"))
        assert sorted(thread.lines()) == ["a0", "ask?", "boss?", "x4"]
        thread.check_pending("s/p/lane/ask", "s/p/boss")
        thread.resume({"s/p/lane/ask": "yes", "s/p/boss": "no"})
        expected = ["a0", "ask?", "boss?", "no", "x4", "y5", "yes", "z6"]
        assert sorted(thread.lines()) == expected
        assert sorted(thread.last_turn()) == expected

    def test_a_fork_behind_them_keeps_what_they_came_to(
        self, drive: Drive, path: Path | None, how: str
    ) -> None:
        thread = self.done(drive, path)
        before = thread.lines()
        thread.fork(how, thread.before("z"))
        assert thread.lines() == [*before[:-1], "z4"]

    def test_an_edit_while_they_wait_begins_their_step_anew(
        self, drive: Drive, path: Path | None
    ) -> None:
        """What the run before it told was told, and never came to another end."""
        thread = Thread(drive, self.tree(), path)
        first = thread.run()
        thread.resume({"s/p/boss": "never"})
        thread.edit(CONFIG)
        assert [question.value for question in thread.pending()] == ["ask?"]
        second = thread.resume()
        assert sorted(second) == ["ask?", "boss?", "x2"]
        thread.check_pending("s/p/lane/ask", "s/p/boss")
        assert sorted(thread.lines()) == sorted([*first, "never", *second])

    def test_a_fork_of_a_step_that_waits_asks_again(self, drive: Drive, path: Path | None) -> None:
        thread = Thread(drive, self.tree(), path)
        first = thread.run()
        second = thread.replay(thread.before("p"))
        thread.check_pending("s/p/lane/ask", "s/p/boss")
        assert sorted(thread.lines()) == sorted([*first, *second])

    def test_a_lane_inside_a_lane_is_of_the_line_of_both(
        self, drive: Drive, path: Path | None, how: str
    ) -> None:
        says = Counted()
        inner = ag.sequential("in", [says("x"), ag.parallel("q", [says("y")])])
        tree = ag.sequential("s", [says("a"), ag.parallel("p", [inner]), says("z")])
        thread = Thread(drive, tree, path)
        assert thread.run() == ["a0", "x1", "y2", "z3"]
        thread.fork(how, thread.before("p"))
        assert thread.lines() == ["a0", "x4", "y5", "z6"]


class TestQuestions:
    def tree(self) -> ag.Agent:
        says = Counted()
        return ag.sequential("s", [says("a"), asking("h"), says("z")])

    def test_one_that_was_answered_in_the_other_line_is_asked_again(
        self, drive: Drive, path: Path | None, how: str
    ) -> None:
        thread = Thread(drive, self.tree(), path)
        thread.run()
        thread.resume("one")
        thread.fork(how, thread.before("h"))
        assert thread.lines() == ["a0", "h?"]
        thread.check_pending("s/h")
        thread.resume("two")
        assert thread.lines() == ["a0", "h?", "two", "z2"]
        assert thread.last_turn() == ["a0", "h?", "two", "z2"]

    def test_one_that_waits_in_the_other_line_does_not_wait(
        self, drive: Drive, path: Path | None
    ) -> None:
        thread = Thread(drive, self.tree(), path)
        thread.run()
        thread.edit(thread.before("a"))
        thread.check_pending()
        assert thread.lines() == []
        thread.resume()
        assert thread.lines() == ["a1", "h?"]
        thread.check_pending("s/h")

    def test_an_edit_of_what_the_other_line_answered_waits_for_nothing_yet(
        self, drive: Drive, path: Path | None
    ) -> None:
        thread = Thread(drive, self.tree(), path)
        thread.run()
        thread.resume("one")
        thread.edit(thread.before("h"))
        thread.check_pending()
        assert thread.lines() == ["a0"]

    def test_a_head_that_was_edited_tells_what_it_had_asked(
        self, drive: Drive, path: Path | None
    ) -> None:
        thread = Thread(drive, self.tree(), path)
        thread.run()
        thread.edit(CONFIG)
        assert [question.value for question in thread.pending()] == ["h?"]
        assert thread.lines() == ["a0", "h?"]
        thread.resume("yes")
        assert thread.lines() == ["a0", "h?", "yes", "z1"]

    @pytest.mark.parametrize("waits", ["alone", "beside"])
    def test_an_edit_before_the_input_is_read_asks_once_what_is_next(
        self, drive: Drive, path: Path | None, waits: str
    ) -> None:
        """LangGraph takes the edit to come from what ran last, and goes on behind that."""
        pair = ag.parallel("p", [asking("q"), Counted()("d")])
        first = asking("h") if waits == "alone" else ag.parallel("w", [asking("h"), Counted()("v")])
        thread = Thread(drive, ag.sequential("s", [Counted()("a"), first, pair]), path)
        thread.run()
        thread.run("And again.", drop_pending=True)
        thread.edit(thread.before("__start__", -1))
        assert sorted(thread.resume()) == ["d0", "q?"]
        (question,) = thread.pending()
        thread.resume({question.id: "yes"})
        assert thread.pending() == []


class TestAChatAgent:
    def tree(self, *said: Any) -> ag.Agent:
        says = Counted()

        def ask(what: str) -> str:
            """Ask a person."""
            return str(interrupt(what))

        helper = ag.agent_tool(ag.sequential("helper", [says("x"), asking("h")], description="Helps."))
        model = scripted(*said)
        boss = ag.chat_agent("boss", model, tools=[ask, helper])
        return ag.sequential("s", [boss, says("z")])

    def calls(self) -> Any:
        return calls(call("helper", "1", request="Help."), call("ask", "2", what="Sure?"))

    def done(self, drive: Drive, path: Path | None) -> Thread:
        thread = Thread(drive, self.tree(self.calls(), "Done.", "Done again."), path)
        thread.run()
        asked = {question.address: question.id for question in thread.pending()}
        assert len(asked) == 2
        thread.resume(dict(zip(asked.values(), ["one", "two"], strict=True)))
        assert thread.lines()[-2:] == ["Done.", "z1"]
        return thread

    def test_a_fork_of_the_step_of_its_tools_runs_them_again(
        self, drive: Drive, path: Path | None, how: str
    ) -> None:
        thread = self.done(drive, path)
        before = thread.events()
        thread.fork(how, thread.before("boss.tools"))
        assert thread.events()[0] == before[0]
        assert sorted(thread.lines()[1:]) == ["boss?", "h?", "x2"]
        assert len(thread.pending()) == 2
        thread.check_pending(*(question.address for question in thread.pending()))
        new = {event.id for event in thread.events()} & {event.id for event in before}
        assert new == {before[0].id}

    def test_a_fork_behind_its_tools_keeps_their_results(
        self, drive: Drive, path: Path | None, how: str
    ) -> None:
        thread = self.done(drive, path)
        before = thread.events()
        assert thread.fork(how, thread.before("boss", 1)) == ["Done again.", "z2"]
        assert thread.events()[:-2] == before[:-2]
        assert thread.lines()[-2:] == ["Done again.", "z2"]


class TestATurnThatIsGivenUp:
    """What was done in the other line is nothing that this turn did."""

    def test_results_of_the_other_line_are_not_kept(self, drive: Drive, path: Path | None) -> None:
        chat = TestAChatAgent()
        thread = chat.done(drive, path)
        thread.edit(thread.before("boss.tools"))
        thread.run("Leave it.", drop_pending=True)
        results = [m.text for m in thread.state().values["messages"] if m.type == "tool"]
        assert results == ["The call was not finished."] * 2

    def test_words_of_branches_of_the_other_line_are_not_kept(
        self, drive: Drive, path: Path | None
    ) -> None:
        says = Counted()
        tree = ag.sequential("s", [says("a"), ag.parallel("p", [says("x"), says("y")])])
        thread = Thread(drive, tree, path)
        thread.run()
        thread.edit(thread.before("p"))
        thread.run("Leave it.", drop_pending=True)
        said = [message.text for message in thread.state().values["messages"]]
        assert said[:4] == ["Go.", "a0", "Leave it.", "a3"]
        assert len(said) == len(thread.lines()) + 2

    def test_the_state_that_was_edited_tells_which_calls_are_open(
        self, drive: Drive, path: Path | None
    ) -> None:
        thread = Thread(drive, TestAChatAgent().tree(TestAChatAgent().calls(), "Done."), path)
        thread.run()
        said = thread.state().values["messages"][-1]
        fewer = said.model_copy(update={"tool_calls": said.tool_calls[:1]})
        thread.edit(CONFIG, {"messages": [fewer]})
        thread.run("Leave it.", drop_pending=True)
        results = [m.tool_call_id for m in thread.state().values["messages"] if m.type == "tool"]
        assert results == ["1"]
