"""Trees that change while a thread waits: it continues, or an error shows the difference.

The behaviour of a thread in a changed tree is in `tests/transcripts/tree_changes.txt`.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from helpers import asks, lines, says, scripted, visits
from helpers.sampling import examples
from helpers.walking import group, par, rounds, seq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag

HERE, A, B, C, X = asks("boss"), says("a"), says("b"), says("c"), says("x")
TOOLS = group("tools")


def chat(*tools: ag.Agent, **options: Any) -> ag.Agent:
    return ag.chat_agent("chat", scripted("Hi."), tools=[ag.agent_tool(t) for t in tools], **options)


def steps(*agents: ag.Agent) -> ag.Agent:
    return ag.workflow("w", [ag.step(each) for each in agents])


REFUSED = {
    "more before": (seq("s", A, HERE), seq("s", X, A, HERE)),
    "less before": (seq("s", A, HERE), seq("s", HERE)),
    "another before": (seq("s", A, HERE), seq("s", X, HERE)),
    "more between": (seq("s", A, HERE), seq("s", A, X, HERE)),
    "another root": (seq("s", HERE), seq("t", HERE)),
    "another kind": (seq("s", HERE), rounds(1, "s", HERE)),
    "not a leaf any more": (HERE, seq("boss", X)),
    "gone": (seq("s", HERE), seq("s", A)),
    "more in a loop": (rounds(2, "l", HERE), rounds(2, "l", HERE, X)),
    "more in a parallel": (par("p", HERE, A), par("p", HERE, A, X)),
    "more in a workflow": (steps(HERE), steps(HERE, X)),
    "the first sub-agent": (seq("s", chat(), HERE), seq("s", chat(sub_agents=[X]), HERE)),
    "a second of a name": (seq("s", A, HERE), seq("s", A, HERE, A)),
    "a second of the name of its place": (seq("s", HERE), seq("s", HERE, rounds(1, "l", HERE))),
}


ACCEPTED = {
    "another after it in a loop": (
        rounds(2, "l", seq("s", HERE, A)),
        rounds(2, "l", seq("s", HERE, X)),
    ),
    "one more tool": (seq("s", chat(A), HERE), seq("s", chat(X, A), HERE)),
    "one tool less": (seq("s", chat(A, X), HERE), seq("s", chat(X), HERE)),
    "the first tool": (seq("s", chat(), HERE), seq("s", chat(X), HERE)),
    "other cases": (
        seq("s", HERE, ag.switch("w", lambda ctx: "a", {"a": A})),
        seq("s", HERE, ag.switch("w", lambda ctx: "x", {"x": X})),
    ),
    "another kind": (seq("s", HERE, C), seq("s", HERE, par("c", A))),
}


@pytest.mark.parametrize(("was", "now"), ACCEPTED.values(), ids=ACCEPTED.keys())
def test_what_the_thread_has_not_come_to_may_change(was: ag.Agent, now: ag.Agent) -> None:
    runner = ag.Runner(was)
    list(runner.run("Go.", thread_id="t"))
    changed = ag.Runner(now, checkpointer=runner.saver)
    rest = list(changed.resume("t", "Yes."))
    fresh = ag.Runner(now)
    list(fresh.run("Go.", thread_id="t"))
    assert lines(rest) == lines(fresh.resume("t", "Yes."))


@pytest.mark.parametrize(("was", "now"), REFUSED.values(), ids=REFUSED.keys())
def test_any_other_change_is_refused_with_the_difference(was: ag.Agent, now: ag.Agent) -> None:
    runner = ag.Runner(was)
    list(runner.run("Go.", thread_id="t"))
    changed = ag.Runner(now, checkpointer=runner.saver)
    for method in (changed.pending, changed.events, changed.resume):
        with pytest.raises(ag.TreeChangedError) as caught:
            method("t")
        assert caught.value.difference.startswith("--- the tree that ran\n+++ this tree")


def test_a_longer_tree_is_watched() -> None:
    runner = ag.Runner(seq("s", HERE))
    list(runner.run("Go.", thread_id="t"))
    longer = ag.Runner(seq("s", HERE, C), checkpointer=runner.saver)
    assert ag.watch(longer, thread_id="t", answers="Yes.").text == "c"


# random trees


@st.composite
def trees(draw: st.DrawFn, depth: int = 2) -> Any:
    """Return a tree as nested data: a name, or a kind and what is inside."""
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        return draw(st.sampled_from(["says", "asks"]))
    kind = draw(st.sampled_from(["seq", "seq", "loop", "parallel"]))
    return (kind, draw(st.lists(trees(depth=depth - 1), min_size=1, max_size=3)))


class Built:
    """Builds trees from data, with names that do not depend on what is added."""

    def __init__(self, data: Any, place: str = "") -> None:
        self.place, self.places = place, [""]
        self.agent = self.build(("seq", [data]), "r")

    def build(self, data: Any, name: str) -> ag.Agent:
        if isinstance(data, str):
            return says(name) if data == "says" else asks(name)
        kind, parts = data
        inner = [self.build(part, f"{name}{i}") for i, part in enumerate(parts)]
        if kind == "seq":
            self.places.append(name)
        if name == self.place:
            inner.append(says("added"))
        match kind:
            case "seq":
                return seq(name, *inner)
            case "loop":
                return rounds(2, name, *inner)
        return par(name, *inner)


def finished(runner: ag.Runner) -> Iterator[ag.AgentEvent]:
    while questions := runner.pending("t"):
        yield from runner.resume("t", {question.id: "yes" for question in questions})


@pytest.mark.by_turns  # so that `make properties` tries more
@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trees(), st.data())
def test_what_is_added_at_the_end_of_a_sequence_lets_a_thread_go_on(tree: Any, data: Any) -> None:
    was = Built(tree)
    now = Built(tree, place=data.draw(st.sampled_from(was.places[1:]))).agent
    saver = InMemorySaver()
    before, after = (ag.Runner(each, checkpointer=saver) for each in (was.agent, now))
    first = list(before.run("Go.", thread_id="t"))
    assert sorted(visits(after.events("t"))) == sorted(visits(first))
    rest = [event for event in finished(after) if event.agent_name != "added"]
    assert {e.id for e in after.events("t")} >= {e.id for e in (*first, *rest)}
    unchanged = ag.Runner(was.agent)
    list(unchanged.run("Go.", thread_id="t"))
    reference = [event.address for event in finished(unchanged)]
    assert sorted(event.address for event in rest) == sorted(reference)


@pytest.mark.by_turns  # so that `make properties` tries more
@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trees(depth=3), st.integers(0, 2), st.data())
def test_a_thread_goes_on_as_if_the_new_tree_had_run_it_from_the_start(
    tree: Any, answered: int, data: Any
) -> None:
    saver = InMemorySaver()
    before = ag.Runner(Built(tree).agent, checkpointer=saver)
    list(before.run("Go.", thread_id="t"))
    for _ in range(answered):
        list(before.resume("t", {each.id: "yes" for each in before.pending("t")}))
    been = {event.address for event in before.events("t")}
    asked = {each.address for each in before.pending("t")}
    if not asked:
        return
    now = Built(changed(tree, "r/r0", been, asked, data.draw)).agent
    after, fresh = ag.Runner(now, checkpointer=saver), ag.Runner(now)
    list(fresh.run("Go.", thread_id="t"))
    for _ in range(answered):
        list(fresh.resume("t", {each.id: "yes" for each in fresh.pending("t")}))
    rest, reference = list(finished(after)), list(finished(fresh))
    assert sorted(visits(rest)) == sorted(visits(reference))
    assert sorted(visits(after.events("t"))) == sorted(visits(fresh.events("t")))


def changed(tree: Any, at: str, been: set[str], asked: set[str], draw: Any) -> Any:
    """Return a tree with others in the place of what the addresses where a thread has been do not have.

    Only at the end of sequences and loops that the questions are in, in their first round: what is
    added to others is left out by the thread.
    """
    if isinstance(tree, str) or not any(is_in(each, at) for each in asked):
        return tree
    kind, parts = tree
    if any(is_in(each, f"{at}[1]") for each in been):
        return tree
    inside = [f"{at}{'[0]' * (kind == 'loop')}/{at.rpartition('/')[2]}{i}" for i, _ in enumerate(parts)]
    parts = [changed(*each, been, asked, draw) for each in zip(parts, inside, strict=True)]
    came = [n for n, to in enumerate(inside, 1) if any(is_in(each, to) for each in been)]
    if kind == "parallel" or (kind == "loop" and came[-1] == len(parts)):
        return kind, parts
    return kind, [*parts[: came[-1]], *draw(st.lists(trees(depth=1), max_size=2))]


def is_in(address: str, outer: str) -> bool:
    """Return whether an address is another one, or is inside it."""
    return address == outer or (address.startswith(outer) and address[len(outer)] in "/[")


@st.composite
def variations(draw: Any, tree: Any) -> Any:
    """Draw a tree with other parts than one, or more, or less, or of another kind."""
    if draw(st.integers(0, 3)) == 0:
        return draw(trees(depth=1))
    if isinstance(tree, str):
        return tree
    kind, parts = tree
    parts = [draw(variations(each)) for each in parts] + draw(st.lists(trees(depth=1), max_size=1))
    kind = draw(st.sampled_from([kind, kind, "seq", "loop", "parallel"]))
    return kind, parts[: draw(st.integers(1, len(parts)))]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trees(), st.data())
def test_a_tree_of_another_shape_where_a_thread_has_been_is_refused(tree: Any, data: Any) -> None:
    other = data.draw(variations(tree))
    was, now = Built(("loop", [tree])), Built(("loop", [other]))
    runner = ag.Runner(was.agent)
    been = {re.sub(r"\[\d+\]", "", each.address) for each in runner.run("Go.", thread_id="t")}
    changed = ag.Runner(now.agent, checkpointer=runner.saver)
    if fits(("loop", [tree]), ("loop", [other]), "r/r0", been):
        changed.pending("t")
    else:
        with pytest.raises(ag.TreeChangedError):
            changed.pending("t")


def fits(old: Any, new: Any, at: str, been: set[str]) -> bool:
    """Return whether a place of one tree may be that of the other, given where a thread has been."""
    if not any(is_in(each, at) for each in been):
        return True
    if isinstance(old, str) or isinstance(new, str):
        return bool(old == new)
    (kind, parts), (other, more) = old, new
    inside = [f"{at}/{at.rpartition('/')[2]}{i}" for i, _ in enumerate(parts)]
    came = [n for n, to in enumerate(inside, 1) if any(is_in(each, to) for each in been)]
    if kind != other or len(more) < came[-1]:
        return False
    if kind == "parallel" and len(more) != len(parts):
        return False
    if kind == "loop" and came[-1] == len(parts) < len(more):
        return False
    return all(fits(*each, been) for each in zip(parts, more[: came[-1]], inside, strict=False))
