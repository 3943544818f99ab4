"""Threads that are forked by time travel: `events` has what leads to the head of the thread.

Agents say their name and how many were asked before them, so that each text is said once.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from helpers import ask_person, chat
from helpers.forked import CONFIG, FORKS, Counted, Thread

import agentgraph as ag
from agentgraph.testing import call, calls

ThreadOf = Callable[[ag.Agent], Thread]


@pytest.fixture(params=FORKS)
def how(request: pytest.FixtureRequest) -> str:
    way: str = request.param
    return way


def asking(name: str) -> ag.Agent:
    return ag.human(name, f"{name}?")


def sequence() -> ag.Agent:
    return ag.sequential("s", [*map(Counted(), "abc")])


def question() -> ag.Agent:
    says = Counted()
    return ag.sequential("s", [says("a"), asking("h"), says("z")])


def branches() -> ag.Agent:
    says = Counted()
    lane = ag.sequential("lane", [says("x"), asking("ask"), says("y")])
    return ag.sequential("s", [says("a"), ag.parallel("p", [lane, asking("boss")]), says("z")])


def act(thread: Thread, acts: str, how: str = "") -> None:
    """Run a thread, and do more: `run, fork b 1, edit b, copy b, resume, answer s/h=yes`.

    The number is that of the checkpoint, among those at which the node is next.
    """
    thread.run()
    for each in acts.split(", "):
        match each.split():
            case ["run"]:
                thread.run("And again.")
            case ["resume"]:
                thread.resume()
            case ["answer", *answers]:
                thread.resume(dict(answer.split("=") for answer in answers))
            case ["edit", "head"]:
                thread.edit(CONFIG)
            case [("fork" | "edit" | "copy") as what, node, *nth]:
                at = thread.before(node, *map(int, nth))
                if what == "fork":
                    thread.fork(how, at)
                else:
                    thread.edit(at, **({"as_node": "__copy__"} if what == "copy" else {}))


def check(thread: Thread, expected: str, turn: str = "") -> None:
    """Check the texts of a thread, and of its last turn; those of branches are in any order."""
    order: Any = sorted if "boss?" in expected else list
    assert order(thread.lines()) == order(expected.split())
    assert order(thread.last_turn()) == order((turn or expected).split())


DONE = "answer s/p/lane/ask=one, answer s/p/boss=two, "
BOTH = ("s/p/lane/ask", "s/p/boss")


FORKED: dict[str, tuple[Any, str, str, str, Sequence[str]]] = {
    "of a fork, and back": (sequence, "fork b, fork c -1, fork c 0", "a0 b1 c6", "", ()),
    "and a turn after it": (sequence, "fork b, run", "a0 b3 c4 a5 b6 c7", "a5 b6 c7", ()),
    "of the turn before, and of that fork": (
        *(sequence, "run, fork c, fork b 1", "a0 b1 c2 a3 b7 c8", "a3 b7 c8", ()),
    ),
    "before a question": (
        *(question, "answer s/h=one, fork h, answer s/h=two", "a0 h? two z2", "", ()),
    ),
    "before branches": (
        *(branches, f"{DONE}fork a, answer s/p/boss=yes", "a4 x5 ask? boss? yes", "", BOTH[:1]),
    ),
    "after branches, whose results stay": (
        *(branches, f"{DONE}fork z", "a0 x1 ask? boss? one y2 two z4", "", ()),
    ),
}
"""What is done to a tree, what its thread and the last turn have then, and who asks. Forks of any tree
are in `tests/properties/test_forked_lines.py`."""


@pytest.mark.parametrize(("tree", "acts", "expected", "turn", "pending"), FORKED.values(), ids=FORKED)
def test_a_fork_replaces_what_ran_after_its_checkpoint(
    thread_of: ThreadOf, how: str, tree: Any, acts: str, expected: str, turn: str, pending: Any
) -> None:
    thread = thread_of(tree())
    act(thread, acts, how)
    check(thread, expected, turn)
    thread.check_pending(*pending)


@pytest.mark.parametrize(
    ("tree", "acts", "expected", "pending"),
    [
        (sequence, "edit c", "a0 b1", ()),
        (sequence, "copy c", "a0 b1", ()),
        (sequence, "copy c, resume", "a0 b1 c3", ()),
        (question, "edit a", "", ()),
        (question, "edit a, resume", "a1 h?", ["s/h"]),
        (question, "answer s/h=one, edit h", "a0", ()),
        (question, "edit head, answer s/h=yes", "a0 h? yes z1", ()),
    ],
    ids=[
        "an edit that nothing follows",
        "a copy has the step that ended in the original",
        "a copy is resumed",
        "a question of the other line is not pending",
        "a question of the other line is asked again",
        "an edit before a question that was answered has no question yet",
        "an edit of the head keeps its question",
    ],
)
def test_an_edit_has_what_leads_to_its_checkpoint(
    thread_of: ThreadOf, tree: Any, acts: str, expected: str, pending: Any
) -> None:
    thread = thread_of(tree())
    act(thread, acts)
    check(thread, expected)
    thread.check_pending(*pending)


def test_an_edit_that_is_forked_again_is_left_with_what_ran_after_it(thread_of: ThreadOf) -> None:
    thread = thread_of(sequence())
    thread.run()
    edited = thread.edit(thread.before("b"))
    thread.resume()
    thread.replay(edited)
    assert thread.lines() == ["a0", "b5", "c6"]


def test_a_turn_may_begin_at_the_end_of_an_older_one(thread_of: ThreadOf) -> None:
    thread = thread_of(sequence())
    thread.run()
    end = thread.state().config
    thread.run("And again.")
    thread.edit(end)
    thread.run("Once more.")
    assert thread.lines() == ["a0", "b1", "c2", "a6", "b7", "c8"]


def test_an_edit_while_branches_wait_begins_their_step_anew_and_voids_nothing(
    thread_of: ThreadOf,
) -> None:
    thread = thread_of(branches())
    first = thread.run()
    thread.resume({"s/p/boss": "never"})
    thread.edit(CONFIG)
    assert [question.value for question in thread.pending()] == ["ask?"]
    second = thread.resume()
    assert sorted(second) == ["ask?", "boss?", "x2"]
    thread.check_pending("s/p/lane/ask", "s/p/boss")
    assert sorted(thread.lines()) == sorted([*first, "never", *second])


@pytest.mark.parametrize("branched", [False, True], ids=["alone", "in a branch"])
def test_an_edit_before_the_input_is_read_goes_on_after_what_ran_last(
    thread_of: ThreadOf, branched: bool
) -> None:
    """LangGraph takes the edit to come from the node that ran last, here the one that asked."""
    says = Counted()
    first = ag.parallel("w", [asking("h"), says("v")]) if branched else asking("h")
    thread = thread_of(
        ag.sequential("s", [says("a"), first, ag.parallel("p", [asking("q"), Counted()("d")])])
    )
    thread.run()
    thread.run("And again.", drop_pending=True)
    thread.edit(thread.before("__start__", -1))
    assert sorted(thread.resume()) == ["d0", "q?"]
    (asked,) = thread.pending()
    thread.resume({asked.id: "yes"})
    assert thread.pending() == []


# Tools of chat agents.


def caller() -> ag.Agent:
    says = Counted()
    helper = ag.agent_tool(ag.sequential("helper", [says("x"), asking("h")], description="Helps."))
    made = calls(call("helper", "1", request="Help."), call("ask_person", "2", what="Sure?"))
    boss = chat("boss", made, "Done.", "Done again.", tools=[ask_person, helper])
    return ag.sequential("s", [boss, says("z")])


def called(thread_of: ThreadOf) -> Thread:
    """Return a thread whose two calls are done."""
    thread = thread_of(caller())
    thread.run()
    one, two = thread.pending()
    thread.resume({one.id: "one", two.id: "two"})
    assert thread.lines()[-2:] == ["Done.", "z1"]
    return thread


def test_a_fork_at_the_step_of_tools_runs_them_again(thread_of: ThreadOf, how: str) -> None:
    thread = called(thread_of)
    first, *others = thread.events()
    thread.fork(how, thread.before("boss.tools"))
    again, *new = thread.events()
    assert again == first
    assert sorted(thread.lines()[1:]) == ["boss?", "h?", "x2"]
    thread.check_pending(*(question.address for question in thread.pending()))
    assert len(thread.pending()) == 2
    assert {event.id for event in new}.isdisjoint(event.id for event in others)


# A turn that is given up has only what was done in its own line.


def results(thread: Thread) -> list[Any]:
    return [each for each in thread.state().values["messages"] if each.type == "tool"]


def test_a_turn_that_is_given_up_has_no_results_of_the_other_line(thread_of: ThreadOf) -> None:
    thread = called(thread_of)
    thread.edit(thread.before("boss.tools"))
    thread.run("Leave it.", drop_pending=True)
    assert [each.text for each in results(thread)] == ["The call was not finished."] * 2


def test_a_turn_that_is_given_up_has_no_messages_of_branches_of_the_other_line(
    thread_of: ThreadOf,
) -> None:
    says = Counted()
    tree = ag.sequential("s", [says("a"), ag.parallel("p", [says("x"), says("y")])])
    thread = thread_of(tree)
    thread.run()
    thread.edit(thread.before("p"))
    thread.run("Leave it.", drop_pending=True)
    texts = [message.text for message in thread.state().values["messages"]]
    assert texts[:4] == ["Go.", "a0", "Leave it.", "a3"]
    assert len(texts) == len(thread.lines()) + 2


def test_the_state_that_was_edited_says_which_calls_are_open(thread_of: ThreadOf) -> None:
    thread = thread_of(caller())
    thread.run()
    said = thread.state().values["messages"][-1]
    fewer = said.model_copy(update={"tool_calls": said.tool_calls[:1]})
    thread.edit(CONFIG, {"messages": [fewer]})
    thread.run("Leave it.", drop_pending=True)
    assert [each.tool_call_id for each in results(thread)] == ["1"]
