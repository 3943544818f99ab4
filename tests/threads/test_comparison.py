"""Lines and threads compared, activation by activation."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import asks, gives, says
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel


def call(name: str, id: str, **args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": id, "type": "tool_call"}])


def search(q: str) -> str:
    """Search."""
    return f"hits for {q}"


def by_mood(ctx: ag.Context) -> Any:
    mood = ctx.values.get("mood", "-")
    yield ag.SetValues(mark=mood, same=1)
    yield f"I am {mood}"
    if mood == "bad":
        raise ValueError("bad")
    if mood == "done":
        yield ag.Exit()


def tree() -> ag.Agent:
    branches = [says("b"), ag.function_agent("m", by_mood)]
    return ag.sequential("s", [says("a"), ag.parallel("p", branches), says("z")])


@pytest.fixture(params=["memory", "file"])
def runner(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ag.Runner]:
    path = tmp_path / "t.db" if request.param == "file" else None
    with ag.Runner(tree(), checkpointer=path) as made:
        made.invoke("Go.", thread_id="t", values={"mood": "glad"})
        yield made


def compared(runner: ag.Runner, mode: str, *args: Any, **options: Any) -> list[ag.Difference]:
    if mode == "async":
        return asyncio.run(runner.acompare(*args, **options))
    return runner.compare(*args, **options)


def rows(differences: list[ag.Difference]) -> dict[str, Any]:
    return {each.address: each.differs if each.where == "both" else each.where for each in differences}


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_two_lines_of_a_thread(runner: ag.Runner, mode: str) -> None:
    list(runner.rewind("t", "s/p/m", values={"mood": "sad"}))
    _, older = runner.thread("t").lines
    found = compared(runner, mode, "t", line=older.head)
    assert rows(found) == {
        "s/a": (),
        "s/p": (),
        "s/p/b": (),
        "s/p/m": ("said", "values"),
        "s/z": (),
    }
    [differs] = [each for each in found if not each.same]
    assert differs.left is not None
    assert differs.right is not None
    assert (differs.left.text, differs.right.text) == ("I am glad", "I am sad")
    assert (differs.left.values, differs.right.values) == ({"mark": "glad"}, {"mark": "sad"})
    assert differs.left.step != differs.right.step
    assert runner.activation("t", differs.left.step).said[0].text == "I am glad"
    assert runner.activation("t", differs.right.step).said[0].text == "I am sad"
    assert [each.same for each in compared(runner, mode, "t", other_line=older.head)] == [
        each.same for each in found
    ]


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_variants_of_a_thread(runner: ag.Runner, mode: str) -> None:
    moods = {mood: {"values": {"mood": mood}} for mood in ("glad", "bad", "done")}
    runner.fork_many("t", "s/p/m", moods)
    assert rows(compared(runner, mode, "t", "t-glad"))["s/p/m"] == ()
    assert all(each.same for each in compared(runner, mode, "t", "t-glad"))
    failed = compared(runner, mode, "t", "t-bad")
    assert rows(failed)["s/p/m"] == ("said", "values", "error")
    assert rows(failed)["s/z"] == "left"
    [right] = [each.right for each in failed if each.address == "s/p/m"]
    assert right is not None
    assert right.error == "ValueError('bad')"
    assert right.seconds is None
    ended = compared(runner, mode, "t", "t-done")
    assert rows(ended)["s/p/m"] == ("said", "values", "signal")
    assert rows(ended)["s/z"] == "left"
    turned = compared(runner, mode, "t-done", "t")
    assert rows(turned)["s/z"] == "right"
    assert [each.address for each in turned][-1] == "s/z"
    assert turned[-1].left is None


def test_tools_are_compared_without_the_ids_of_calls() -> None:
    script = [
        *(call("search", "1", q="bees"), "Found"),
        *(call("search", "2", q="bees"), "Found"),
        *(call("search", "3", q="ants"), "Found"),
        "Found",
    ]
    model = ScriptedChatModel(responses=script, counts_tokens=True)
    runner = ag.Runner(ag.chat_agent("w", model, tools=[search]))
    for thread in ("a", "b", "c", "d"):
        runner.invoke("Go.", thread_id=thread)
    [same] = runner.compare("a", "b")
    assert (same.same, same.differs) == (True, ())
    [asked] = runner.compare("a", "c")
    assert asked.differs == ("called",)
    [less] = runner.compare("a", "d")
    assert less.differs == ("called",)
    assert less.left is not None
    assert less.right is not None
    assert less.left.tokens > less.right.tokens > 0


def test_questions_turns_and_rounds_are_compared() -> None:
    loop = ag.loop("l", [gives("n", "1", "2", ag.BreakLoop(), "1", ag.BreakLoop())], max_iterations=4)
    runner = ag.Runner(ag.sequential("s", [loop, asks("boss", "Ok, {who}?")]))
    for thread, who in (("a", "Ann"), ("b", "Bob")):
        runner.invoke("Go.", thread_id=thread, values={"who": who})
        runner.invoke(thread_id=thread, answers="yes")
    found = runner.compare("a", "b")
    assert rows(found) == {
        "s/l[0]/n": (),
        "s/l[1]/n": ("said", "signal"),
        "s/l[2]/n": "left",
        "s/boss": ("asked",),
    }
    assert found[-1].left is not None
    assert found[-1].left.answers == ["yes"]
    runner.invoke("Go.", thread_id="c", values={"who": "Ann"})
    runner.invoke(thread_id="c", answers="no")
    assert rows(runner.compare("a", "c"))["s/boss"] == ("said", "answered")
    runner.invoke("Again.", thread_id="b", values={"who": "Eve"})
    more = runner.compare("a", "b")
    assert {(each.turn, each.where) for each in more} == {(0, "both"), (0, "left"), (1, "right")}


class Counting(InMemorySaver):
    """Counts how often checkpoints are listed."""

    lists = 0

    def list(self, *args: Any, **options: Any) -> Iterator[Any]:
        self.lists += 1
        return super().list(*args, **options)


def test_each_side_is_read_once() -> None:
    saver = Counting()
    runner = ag.Runner(tree(), checkpointer=saver)
    runner.invoke("Go.", thread_id="t")
    list(runner.rewind("t", "s/p/m", values={"mood": "sad"}))
    runner.copy("t", "u")
    _, older = runner.thread("t").lines
    saver.lists = 0
    runner.compare("t", line=older.head)
    assert saver.lists == 1
    runner.compare("t", "u")
    assert saver.lists == 3


def test_what_cannot_be_compared_is_refused(runner: ag.Runner) -> None:
    with pytest.raises(ag.AgentGraphError, match="compares a line with itself"):
        runner.compare("t")
    with pytest.raises(ag.AgentGraphError, match="compares a line with itself"):
        runner.compare("t", "t")
    with pytest.raises(ag.UnknownThreadError, match="'other'"):
        runner.compare("t", "other")
    with pytest.raises(ag.ThreadError, match="no line with the head 'nope'"):
        runner.compare("t", line="nope")
