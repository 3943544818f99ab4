"""Turns whose run died after any of its saves, that of the input included: nothing is lost."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Annotated, Any

import pytest
from helpers import Drive, Session, asks, says, texts, unvoided
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from typing_extensions import TypedDict

import agentgraph as ag


class DiedError(BaseException):
    """The process of a saver has died: it saves nothing more."""


class Deaths:
    """Has savers die after so many saves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: int | None = None
        for kind, prefix in ((InMemorySaver, ""), (SqliteSaver, ""), (AsyncSqliteSaver, "a")):
            for name in (f"{prefix}put", f"{prefix}put_writes"):
                monkeypatch.setattr(kind, name, self._dying(getattr(kind, name)))

    @contextmanager
    def after(self, saves: int) -> Iterator[None]:
        """Die after so many saves; does nothing if there are fewer."""
        self.left = saves
        try:
            yield
        except DiedError:
            pass
        finally:
            self.left = None

    def _count(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise DiedError

    def _dying(self, save: Any) -> Any:
        def saved(*args: Any, **options: Any) -> Any:
            self._count()
            return save(*args, **options)

        async def asaved(*args: Any, **options: Any) -> Any:
            self._count()
            return await save(*args, **options)

        return asaved if iscoroutinefunction(save) else saved


@pytest.fixture
def deaths(monkeypatch: pytest.MonkeyPatch) -> Deaths:
    return Deaths(monkeypatch)


def joined(old: str, new: str) -> str:
    return old + new


class Values(TypedDict, total=False):
    topic: Annotated[str, joined]


class Thread(Session):
    """A thread with a declared value; its events are heard."""

    def __init__(self, tree: ag.Agent, drive: Drive, path: Path | None) -> None:
        super().__init__(tree, drive, path)
        self.heard: list[ag.AgentEvent] = []

    def runner(self, saver: Any) -> ag.Runner:
        return ag.Runner(self.tree, checkpointer=saver, values=Values)

    def run(self, text: str, topic: str, **options: Any) -> None:
        given = {"thread_id": "t", "values": {"topic": topic}, **options}
        self.follow("run", text, hear=self.heard.append, **given)

    def resume(self, *args: Any, **options: Any) -> None:
        self.follow("resume", "t", *args, hear=self.heard.append, **options)

    def listed(self, status: Any) -> list[str]:
        found = self.use(lambda r: r.threads(status), lambda r: r.athreads(status))
        return [each.thread_id for each in found]


@pytest.fixture(params=["memory", "file"])
def started(
    request: pytest.FixtureRequest, drive: Drive, tmp_path: Path
) -> Callable[[ag.Agent], Thread]:
    paths = (tmp_path / f"{number}.db" for number in range(100))
    return lambda tree: Thread(tree, drive, next(paths) if request.param == "file" else None)


def tree() -> ag.Agent:
    return ag.sequential("s", [says("a"), ag.parallel("p", [says("b")])])


@pytest.mark.parametrize(
    ("before", "then"),
    [(0, "run"), (1, "resume")],
    ids=["the first turn, then a run", "the second turn, then a resume"],
)
@pytest.mark.by_turns("drive", "started")
def test_a_turn_whose_run_died_after_any_save_is_stopped_and_goes_on(
    started: Callable[[ag.Agent], Thread], deaths: Deaths, before: int, then: str
) -> None:
    for saves in range(1, 50):
        thread = started(tree())
        for _ in range(before):
            thread.run("Go.", "x")
        with deaths.after(saves):
            thread.run("Hello.", "y")
        left = thread.thread()
        if left.status == "done":
            assert texts(left.messages)[-1] == "ai: b"
            return
        assert (left.status, thread.listed("stopped")) == ("stopped", ["t"])
        assert texts(left.messages)[3 * before] == "human: Hello."
        assert left.values == {"topic": "x" * before + "y"}
        assert [texts(each.messages) for each in left.turns][before:] == [["human: Hello."]]
        assert [each.text for each in thread.events()][: 2 * before] == ["a", "b"] * before
        if then == "resume":
            thread.resume()
            check(thread, [*["Go. a b"] * before, "Hello. a b"], "x" * before + "y")
        else:
            thread.run("More.", "z")
            said = " ".join(e.text for e in left.turns[-1].events)
            check(
                thread,
                [*["Go. a b"] * before, f"Hello. {said}".strip(), "More. a b"],
                "x" * before + "yz",
            )
    raise AssertionError("there is no end to the saves")


def check(thread: Thread, turns: list[str], topic: str) -> None:
    """Check what is on a thread that is done; each turn as what was said in it, in order."""
    now = thread.thread()
    assert (now.status, thread.listed("done")) == ("done", ["t"])
    assert " ".join(each.text for each in now.messages) == " ".join(turns)
    told = [[*each.messages, *each.events] for each in now.turns]
    assert " ".join(each.text for turn in told for each in turn if each.text) == " ".join(turns)
    assert now.values == {"topic": topic}
    assert [each.number for each in now.turns] == [*range(len(now.turns))]
    assert unvoided(thread.heard) == thread.events()


def begin(thread: Thread, deaths: Deaths, text: str, topic: str, **options: Any) -> None:
    """Run a turn that dies when only its input is saved."""
    for saves in range(1, 10):
        with deaths.after(saves):
            thread.run(text, topic, **options)
        if text in [each.text for each in thread.thread().messages]:
            return
    raise AssertionError("the input was never saved")


def test_input_that_no_node_had_read_is_part_of_the_next_turn(
    started: Callable[[ag.Agent], Thread], deaths: Deaths
) -> None:
    thread = started(tree())
    begin(thread, deaths, "One.", "x")
    begin(thread, deaths, "Two.", "y")
    thread.run("Three.", "z")
    check(thread, ["One. Two. Three. a b"], "xyz")
    (turn,) = thread.thread().turns
    assert texts(turn.messages) == ["human: One.", "human: Two.", "human: Three."]


def test_values_of_a_resume_count_after_those_of_the_input_it_begins_with(
    started: Callable[[ag.Agent], Thread], deaths: Deaths
) -> None:
    thread = started(tree())
    begin(thread, deaths, "Go.", "x")
    thread.resume(values={"topic": "y"})
    check(thread, ["Go. a b"], "xy")


def test_a_turn_that_died_with_its_input_after_dropping_a_question_asks_no_more(
    started: Callable[[ag.Agent], Thread], deaths: Deaths
) -> None:
    thread = started(ag.sequential("s", [says("a"), asks("boss")]))
    thread.run("Go.", "x")
    begin(thread, deaths, "Stop.", "y", drop_pending=True)
    left = thread.thread()
    assert (left.status, thread.pending()) == ("stopped", [])
    thread.resume()
    thread.resume("Yes.")
    check(thread, ["Go. a", "Stop. a Yes."], "xy")


def test_a_thread_of_another_tree_is_refused_where_only_its_input_is_saved(
    started: Callable[[ag.Agent], Thread], deaths: Deaths
) -> None:
    thread = started(tree())
    begin(thread, deaths, "Go.", "x")
    thread.tree = ag.sequential("t", [says("c")])
    assert thread.listed("stopped") == ["t"]
    with pytest.raises(ag.TreeChangedError) as refused:
        thread.resume()
    assert "-sequential s" in str(refused.value.difference)
    thread.tree = ag.sequential("s", [*tree().sub_agents, says("c")])
    thread.resume()
    check(thread, ["Go. a b c"], "x")


def test_a_thread_of_a_foreign_graph_is_not_listed_where_only_its_input_is_saved(
    started: Callable[[ag.Agent], Thread], deaths: Deaths
) -> None:
    thread = started(tree())
    thread.run("Go.", "x")
    builder = StateGraph(MessagesState)
    builder.add_node("one", lambda state: None)
    builder.add_edge(START, "one")
    config: Any = {"configurable": {"thread_id": "foreign"}}

    async def ainvoke(runner: ag.Runner) -> None:
        await builder.compile(runner.saver).ainvoke({"messages": []}, config)

    with deaths.after(1):
        thread.use(lambda r: builder.compile(r.saver).invoke({"messages": []}, config), ainvoke)
    assert thread.listed(None) == ["t"]


def test_threads_are_listed_with_the_newest_first(
    started: Callable[[ag.Agent], Thread],
) -> None:
    thread = started(tree())
    for name in ("one", "two", "three", "one"):
        thread.run("Go.", "x", thread_id=name)
    assert thread.listed(None) == ["three", "two", "one"]


def test_a_thread_that_begins_with_an_edit_of_its_state_is_listed(
    started: Callable[[ag.Agent], Thread],
) -> None:
    thread = started(tree())
    config: Any = {"configurable": {"thread_id": "t"}}
    given = {"messages": [("user", "Hello.")]}
    thread.use(
        lambda r: r.graph.update_state(config, given), lambda r: r.graph.aupdate_state(config, given)
    )
    assert thread.listed("stopped") == ["t"]
    thread.run("Go.", "x")
    assert thread.listed("done") == ["t"]
