"""Trees that change while a thread waits: what is added behind its place does not matter."""

from collections.abc import Iterator
from typing import Any

import pytest
from helpers import Disk, says, scripted
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag
from agentgraph.testing import transcript
from agentgraph.tree.changes import inside, parsed
from agentgraph.tree.validation import validate


def asks(name: str = "boss") -> ag.Agent:
    return ag.human(name, "Well?")


def seq(name: str, *agents: ag.Agent) -> ag.Agent:
    return ag.sequential(name, list(agents))


def told(events: Any) -> list[tuple[str, str, str]]:
    return [(event.address, str(event.run_path), event.id) for event in events]


class TestWhatIsAddedBehind:
    def test_a_question_that_waits_runs_too(self, disk: Disk) -> None:
        disk.run(seq("s", says("a"), asks()))
        longer = seq("s", says("a"), asks(), says("c"), ag.parallel("p", [says("d"), says("e")]))
        assert told(disk.events(longer)) == told(disk.told)
        told_now = transcript(disk.resume(longer, "Yes."))
        assert told_now[:2] == ["s/a/boss: Yes.", "s/a/boss/c: c"]
        assert sorted(told_now[2:]) == ["s/a/boss/c/p/d: d", "s/a/boss/c/p/e: e"]
        assert told(disk.events(longer))[:4] == told(disk.told)[:4]

    def test_a_failure_runs_too(self, disk: Disk) -> None:
        left = [1]

        def fails(ctx: ag.Context) -> str:
            if left:
                raise ValueError(left.pop())
            return "ok"

        step = ag.function_agent("b", fails)
        disk.fail(seq("s", says("a"), step, says("c")), "run", ValueError)
        assert transcript(disk.resume(seq("s", says("a"), step, says("d"), says("e")))) == [
            *["s/a/b: ok", "s/a/b/d: d", "s/a/b/d/e: e"]
        ]

    def test_may_be_removed_or_replaced_while_nobody_was_there(self, disk: Disk) -> None:
        disk.run(seq("s", says("a"), seq("t", asks(), says("x")), says("c"), says("d")))
        other = seq("s", says("a"), seq("t", asks(), says("y")))
        assert transcript(disk.resume(other, "Yes.")) == ["s/a/t/boss: Yes.", "s/a/t/boss/y: y"]

    def test_may_only_be_added_to_where_an_earlier_turn_was(self, disk: Disk) -> None:
        tree = seq("s", asks(), says("c"))
        disk.run(tree)
        disk.resume(tree, "One.")
        disk.run(tree, "Again.")
        for other in (
            seq("s", asks()),
            seq("s", asks(), says("d")),
            seq("s", asks(), says("d"), says("c")),
        ):
            with pytest.raises(ag.TreeChangedError):
                disk.resume(other, "Two.")
        longer = seq("s", asks(), says("c"), says("d"))
        assert told(disk.events(longer)) == told(disk.told)
        assert transcript(disk.resume(longer, "Two.")) == [
            *["s/boss: Two.", "s/boss/c: c", "s/boss/c/d: d"]
        ]

    def test_a_branch_a_loop_or_a_tool_may_be_longer_at_its_end(self, disk: Disk) -> None:
        def tree(*more: str) -> ag.Agent:
            extra = [says(f"{name}_m") for name in more]
            branch = seq("x", asks(), *extra[:1])
            turn = ag.loop("l", [seq("y", says("y1"), *extra[1:2])], max_iterations=2)
            return seq("s", ag.parallel("p", [branch, says("b")]), turn)

        disk.run(tree())
        assert transcript(disk.resume(tree("one", "two"), "Yes.")) == [
            *["s/p/x/boss: Yes.", "s/p/x/boss/one_m: one_m"],
            *["s/p/l/y/y1: y1", "s/p/l/y/y1/two_m: two_m"],
            *["s/p/l/y/y/y1: y1", "s/p/l/y/y/y1/two_m: two_m"],
        ]

    def test_serves_pending_and_watch(self) -> None:
        runner = ag.Runner(seq("s", asks()))
        list(runner.run("Go.", thread_id="t"))
        longer = ag.Runner(seq("s", asks(), says("c")), checkpointer=runner.saver)
        assert longer.pending("t") == runner.pending("t")
        assert ag.watch(longer, thread_id="t", answers="Yes.").text == "c"


def chat(*tools: ag.Agent, **options: Any) -> ag.Agent:
    return ag.chat_agent("chat", scripted("Hi."), tools=[ag.agent_tool(t) for t in tools], **options)


HERE, A = asks(), says("a")
REFUSED = {
    "before": (seq("s", says("a"), HERE), seq("s", says("x"), says("a"), HERE)),
    "removed before": (seq("s", says("a"), HERE), seq("s", HERE)),
    "renamed before": (seq("s", says("a"), HERE), seq("s", says("x"), HERE)),
    "another place": (seq("s", says("a"), HERE), seq("s", says("a"), says("x"), HERE)),
    "another root": (seq("s", HERE), seq("t", HERE)),
    "another kind": (seq("s", HERE), ag.loop("s", [HERE], max_iterations=1)),
    "a leaf": (HERE, seq("boss", says("x"))),
    "gone": (seq("s", HERE), seq("s", says("a"))),
    "into a loop": (
        ag.loop("l", [HERE], max_iterations=2),
        ag.loop("l", [HERE, says("x")], max_iterations=2),
    ),
    "behind in a loop": (
        ag.loop("l", [seq("s", HERE, says("a"))], max_iterations=2),
        ag.loop("l", [seq("s", HERE, says("x"))], max_iterations=2),
    ),
    "into a parallel": (
        ag.parallel("p", [HERE, says("a")]),
        ag.parallel("p", [HERE, says("a"), says("x")]),
    ),
    "into a workflow": (
        ag.workflow("w", [ag.step(HERE)]),
        ag.workflow("w", [ag.step(HERE), ag.step(says("x"))]),
    ),
    "a tool": (seq("s", chat(says("a")), HERE), seq("s", chat(says("a"), says("x")), HERE)),
    "the first tool": (seq("s", chat(), HERE), seq("s", chat(says("x")), HERE)),
    "a sub-agent": (seq("s", chat(), HERE), seq("s", chat(sub_agents=[says("x")]), HERE)),
    "a second of its name": (
        seq("s", A, HERE),
        seq("s", A, HERE, A),
    ),
    "a second of the name of its place": (
        seq("s", HERE),
        seq("s", HERE, ag.loop("l", [HERE], max_iterations=1)),
    ),
}


@pytest.mark.parametrize(("was", "now"), REFUSED.values(), ids=REFUSED.keys())
def test_any_other_change_is_refused_with_the_difference(was: ag.Agent, now: ag.Agent) -> None:
    runner = ag.Runner(was)
    list(runner.run("Go.", thread_id="t"))
    changed = ag.Runner(now, checkpointer=runner.saver)
    for call in (changed.pending, changed.events, changed.resume):
        with pytest.raises(ag.TreeChangedError) as caught:
            call("t")
        assert caught.value.difference.startswith("--- the tree that ran\n+++ this tree")


def test_a_tree_that_changed_twice_in_a_turn_is_refused() -> None:
    """The outline that the thread keeps is that of the first tree."""
    saver = InMemorySaver()
    first, second = seq("s", asks("a"), asks("b")), seq("s", asks("a"), asks("b"), asks("c"))
    list(ag.Runner(first, checkpointer=saver).run("Go.", thread_id="t"))
    list(ag.Runner(second, checkpointer=saver).resume("t", "One."))
    third = seq("s", asks("a"), asks("b"), says("d"))
    with pytest.raises(ag.TreeChangedError):
        ag.Runner(third, checkpointer=saver).pending("t")
    assert len(ag.Runner(second, checkpointer=saver).pending("t")) == 1


# random trees


@st.composite
def trees(draw: st.DrawFn, depth: int = 3) -> Any:
    """Return a tree as nested data: a name, or a kind and what is inside."""
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        return draw(st.sampled_from(["says", "asks"]))
    kind = draw(st.sampled_from(["seq", "seq", "loop", "parallel"]))
    return (kind, draw(st.lists(trees(depth=depth - 1), min_size=1, max_size=3)))


class Built:
    """Builds trees from data, with names that do not depend on what is added."""

    def __init__(self, data: Any, added: int | None = None, place: str = "") -> None:
        self.left, self.place, self.places = added, place, [""]
        self.agent = self.build(("seq", [data]), "r")

    def build(self, data: Any, name: str) -> ag.Agent:
        if data == "says":
            return says(name)
        if data == "asks":
            return asks(name)
        kind, parts = data
        inner = [self.build(part, f"{name}{i}") for i, part in enumerate(parts)]
        if kind == "seq":
            self.places.append(name)
        if name == self.place:
            inner.append(says("added"))
        if kind == "seq":
            return seq(name, *inner)
        if kind == "loop":
            return ag.loop(name, inner, max_iterations=2)
        return ag.parallel(name, inner)


def finished(runner: ag.Runner) -> Iterator[ag.AgentEvent]:
    while questions := runner.pending("t"):
        yield from runner.resume("t", {question.id: "yes" for question in questions})


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trees(), st.data())
def test_what_is_added_at_the_end_of_a_sequence_lets_a_thread_go_on(tree: Any, data: Any) -> None:
    was = Built(tree)
    place = data.draw(st.sampled_from(was.places[1:]))
    now = Built(tree, place=place).agent
    saver, plain = InMemorySaver(), InMemorySaver()
    before, same = ag.Runner(was.agent, checkpointer=saver), ag.Runner(was.agent, checkpointer=plain)
    first = list(before.run("Go.", thread_id="t"))
    again = sorted(told(before.events("t")))
    after = ag.Runner(now, checkpointer=saver)
    assert sorted(told(after.events("t"))) == again == sorted(told(first))
    rest = [event for event in finished(after) if event.agent_name != "added"]
    assert {e.id for e in after.events("t")} >= {e.id for e in (*first, *rest)}
    list(same.run("Go.", thread_id="t"))
    reference = [event.address for event in finished(same)]
    assert sorted(event.address for event in rest) == sorted(reference)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trees(), trees())
def test_a_tree_of_another_shape_is_refused(tree: Any, other: Any) -> None:
    was, now = Built(("loop", [tree])), Built(("loop", [other]))
    runner = ag.Runner(was.agent)
    list(runner.run("Go.", thread_id="t"))
    changed = ag.Runner(now.agent, checkpointer=runner.saver)
    if _extends(tree, other):
        changed.pending("t")
    else:
        with pytest.raises(ag.TreeChangedError):
            changed.pending("t")


def _extends(old: Any, new: Any) -> bool:
    """Tell whether one tree is the other with more at the end of sequences."""
    if isinstance(old, str) or isinstance(new, str):
        return bool(old == new)
    (kind, parts), (other, more) = old, new
    fits = kind == other and (len(parts) == len(more) or (kind == "seq" and len(parts) < len(more)))
    return fits and all(_extends(*pair) for pair in zip(parts, more, strict=False))


B, C = says("b"), says("c")
DO = seq("do", A, A, B)
AGENTS = [
    seq(
        "s", A, A, seq("t", A, ag.loop("call", [B, says("t-call")], max_iterations=1)), B, says("root")
    ),
    seq("s", chat(A, seq("y", A, B)), C, ag.loop("l", [C], max_iterations=2)),
    ag.parallel("p", [chat(B, sub_agents=[A, C]), seq("q", B, asks()), seq("r", B, asks("tools"))]),
    ag.plan_execute("pe", planner=C, executor=DO, replanner=says("re"), parallel=True),
    ag.supervisor("S", scripted("x"), [A, seq("v", A)]),
    ag.supervisor("S", scripted("x"), [B, seq("v", A, B)], mode="handoff"),
    ag.validated(seq("s", A, A, B), lambda ctx: None),
    A,
]


@pytest.mark.parametrize("agent", AGENTS)
def test_an_outline_tells_the_names_of_the_nodes(agent: ag.Agent) -> None:
    tree = validate(agent)
    assert [place.node for place in inside(parsed(tree.outline))] == [p.node for p in tree.places]
