"""Agents that have been renamed since a thread ran: it goes on, under the names that it knows."""

import asyncio
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from helpers import asks, chat, lines, says, sees
from helpers.walking import par, rounds, seq
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag
from agentgraph.testing import call as called
from agentgraph.testing import calls

Name = Callable[[str], str]


def goes(name: str, target: str) -> ag.Agent:
    return ag.function_agent(name, lambda ctx: ag.TransferTo(target))


def broken(name: str) -> ag.Agent:
    def fn(ctx: ag.Context) -> str:
        if not ctx.values.get("mended"):
            raise ValueError("It is broken.")
        return "c"

    return ag.function_agent(name, fn)


def asks_and_goes(name: str, target: str) -> ag.Agent:
    def fn(ctx: ag.Context) -> Any:
        return ag.TransferTo(target) if ctx.answered else ag.Ask("Well?")

    return ag.function_agent(name, fn)


def runs(name: str, *agents: ag.Agent) -> ag.Agent:
    names = [each.name for each in agents]

    def fn(ctx: ag.Context) -> str:
        return " ".join(str(ctx.run(each, "x")) for each in names)

    return ag.function_agent(name, fn, agents=agents)


TREES: dict[str, Callable[[Name], ag.Agent]] = {
    "sequential": lambda n: seq(n("s"), says(n("a"), "a"), asks(n("b")), sees(n("c"))),
    "loop": lambda n: seq("r", rounds(2, n("s"), says(n("a"), "a"), asks(n("b")), sees(n("c")))),
    "parallel": lambda n: par(
        "p", seq(n("s"), says(n("a"), "a"), asks(n("b"))), seq(n("c"), says("d")), max_concurrency=1
    ),
    "workflow": lambda n: ag.workflow(
        n("s"),
        [
            ag.step(says(n("a"), "a")),
            ag.step(asks(n("b")), depends_on=[n("a")]),
            ag.step(sees(n("c")), depends_on=[n("b")], input=f"Of ${{results.{n('a')}}}"),
        ],
    ),
    "switch": lambda n: ag.switch(
        n("s"), lambda ctx: "one", {"one": seq(n("a"), asks(n("b")), sees(n("c")))}
    ),
    "swarm": lambda n: ag.swarm(
        n("s"), [goes(n("a"), n("b")), asks_and_goes(n("b"), n("c")), says(n("c"), "c")]
    ),
    "function": lambda n: runs(n("s"), says(n("a"), "a"), asks(n("b")), says(n("c"), "c")),
    "tool": lambda n: chat(
        n("s"),
        calls(called(n("a"), request="x"), called(n("c"), request="y")),
        "Done.",
        parallel_tools=False,
        tools=[ag.agent_tool(seq(n("a"), asks(n("b")))), ag.agent_tool(says(n("c"), "c"))],
    ),
    "each": lambda n: ag.each(
        n("s"), seq(n("a"), asks(n("b")), sees(n("c"))), lambda ctx: ["x", "y"], max_concurrency=1
    ),
    "failure": lambda n: seq(n("s"), says(n("a"), "a"), seq(n("b"), broken(n("c"))), sees("d")),
}


NEW = {"s": "sam", "a": "ann", "b": "bob", "c": "carl"}


def old(name: str) -> str:
    return name


def new(name: str) -> str:
    return NEW[name]


def finished(runner: ag.Runner, thread: str) -> list[str]:
    """Return the lines of the rest of a thread, whose questions are answered one by one."""
    found: list[str] = []
    while True:
        asked = runner.pending(thread)
        answers = {asked[0].address: "Yes."} if asked else {}
        mended: Any = {} if asked else {"values": {"mended": True}}
        found += lines(runner.resume(thread, **({"answers": answers} if asked else mended)))
        if not runner.pending(thread):
            return found


def as_called_before(found: list[str]) -> list[str]:
    """Return lines in which the calls that a model makes anew have the old names of their tools."""
    return [re.sub(r"ann(?=\()", "a", re.sub(r"carl(?=\()", "c", line)) for line in found]


def left(runner: ag.Runner, thread: str) -> None:
    try:
        runner.invoke("Go.", thread_id=thread)
    except ValueError:
        assert runner.thread(thread).status == "failed"


@pytest.mark.parametrize("name", TREES)
def test_a_thread_goes_on_as_under_the_old_names(name: str, tmp_path: Path) -> None:
    tree = TREES[name]
    for thread in ("t", "reference"):
        with ag.Runner(tree(old), checkpointer=tmp_path / "t.db") as before:
            left(before, thread)
    with ag.Runner(tree(old), checkpointer=tmp_path / "t.db") as before:
        waiting = [each.address for each in before.pending("reference")]
        rest, events = finished(before, "reference"), lines(before.events("reference"))
        visits = [each.address for each in before.visits("reference")]
    with ag.Runner(tree(new), checkpointer=tmp_path / "t.db", renames=NEW) as runner:
        assert [each.address for each in runner.pending("t")] == waiting
        assert as_called_before(finished(runner, "t")) == rest
        assert as_called_before(lines(runner.events("t"))) == events
        assert [each.address for each in runner.visits("t")] == visits
        assert runner.thread("t").status == "done"
        assert {each.status for each in runner.threads()} == {"done"}
    with ag.Runner(tree(new), checkpointer=tmp_path / "t.db", renames=NEW) as runner:
        again = as_called_before(lines(runner.run("Again.", thread_id="t")))
    with ag.Runner(tree(old), checkpointer=tmp_path / "t.db") as before:
        assert again == lines(before.run("Again.", thread_id="reference"))


@pytest.mark.parametrize("name", TREES)
def test_a_thread_is_refused_without_the_renames(name: str, tmp_path: Path) -> None:
    with ag.Runner(TREES[name](old), checkpointer=tmp_path / "t.db") as before:
        left(before, "t")
    words = pytest.raises(ag.TreeChangedError, match=r" is gone from |the root was ")
    with ag.Runner(TREES[name](new), checkpointer=tmp_path / "t.db") as runner, words:
        runner.resume("t")


@pytest.mark.parametrize(("name", "named"), [("a", "ann"), ("s", "sam"), ("b", "bob")])
def test_the_error_names_the_only_agent_that_may_have_a_new_name(
    name: str, named: str, tmp_path: Path
) -> None:
    def tree(**names: str) -> ag.Agent:
        leaves = [says(names.get("a", "a")), asks(names.get("b", "b"))]
        return ag.sequential(names.get("s", "s"), leaves)

    with ag.Runner(tree(), checkpointer=tmp_path / "t.db") as before:
        before.invoke("Go.", thread_id="t")
    words = re.escape(f"use the tree that ran, pass renames={{{name!r}: {named!r}}} if that is")
    with (
        ag.Runner(tree(**{name: named}), checkpointer=tmp_path / "t.db") as runner,
        pytest.raises(ag.TreeChangedError, match=words),
    ):
        runner.invoke(thread_id="t", answers="yes")
    renames = {name: named}
    with ag.Runner(tree(**renames), checkpointer=tmp_path / "t.db", renames=renames) as runner:
        assert runner.invoke(thread_id="t", answers="yes").status == "done"


@pytest.mark.parametrize("leaves", [["x", "y"], ["x", "b", "y"], ["b"]])
def test_the_error_names_no_new_name_where_several_may_be_meant(leaves: list[str]) -> None:
    saver = InMemorySaver()
    tree = ag.sequential("s", [says("a"), says("b"), asks("c")])
    ag.Runner(tree, checkpointer=saver).invoke("Go.", thread_id="t")
    other = ag.sequential("s", [*map(says, leaves), asks("c")])
    with pytest.raises(ag.TreeChangedError, match="use the tree that ran, go back"):
        ag.Runner(other, checkpointer=saver).invoke(thread_id="t", answers="yes")


@pytest.mark.parametrize(("at", "answer"), [*product(["s/b", "sam/bob"], repeat=2)])
def test_addresses_may_have_either_name(at: str, answer: str) -> None:
    before = ag.Runner(TREES["sequential"](old))
    left(before, "t")
    runner = ag.Runner(TREES["sequential"](new), checkpointer=before.saver, renames=NEW)
    assert lines(runner.resume("t", {answer: "Yes."}))[0] == "s/b: Yes."
    again = runner.rewind("t", at, answers={answer: "No."})
    assert lines(again)[-1] == "s/c: saw Go. | [a] said: a | [b] said: No."
    with pytest.raises(ag.UnknownInterruptError):
        runner.resume("t", {"sam/carl": "No."})


def test_new_threads_have_the_new_names() -> None:
    runner = ag.Runner(TREES["sequential"](new), renames=NEW)
    left(runner, "t")
    assert [each.address for each in runner.pending("t")] == ["sam/bob"]
    assert lines(runner.resume("t", {"sam/bob": "Yes."}))[0] == "sam/bob: Yes."


def test_an_async_run_goes_on_too() -> None:
    before = ag.Runner(TREES["swarm"](old))
    left(before, "t")
    runner = ag.Runner(TREES["swarm"](new), checkpointer=before.saver, renames=NEW)

    async def rest() -> list[ag.AgentEvent]:
        assert [each.address for each in await runner.apending("t")] == ["s[1]/b"]
        return [event async for event in runner.aresume("t", "Yes.")]

    assert lines(asyncio.run(rest())) == ["s[1]/b: [transfer_to] c", "s[2]/c: c"]


def test_a_tree_may_change_too_and_some_names_may_be_new_already() -> None:
    before = ag.Runner(seq("s", says("ann"), asks("b")))
    left(before, "t")
    tree = seq("sam", says("ann"), asks("bob"), says("more"))
    runner = ag.Runner(tree, checkpointer=before.saver, renames={"s": "sam", "b": "bob"})
    assert lines(runner.resume("t", "Yes.")) == ["s/b: Yes.", "s/more: more"]


REFUSED: dict[str, tuple[Any, str]] = {
    "no mapping": (["a"], "does not map old names of agents to new ones"),
    "no names": ({"a": 1}, "does not map old names of agents to new ones"),
    "an unknown name": (
        {"x": "annn"},
        "has the new name 'annn'; did you mean 'ann'?",
    ),
    "a name that is there": ({"bob": "ann"}, "an agent of the tree still has the old name 'bob'"),
}


@pytest.mark.parametrize(("renames", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_meant_is_refused(renames: Any, words: str) -> None:
    with pytest.raises(ag.AgentGraphError) as refused:
        ag.Runner(TREES["sequential"](new), renames=renames)
    assert words in str(refused.value)
