"""Rewinds of random trees: what is left of the thread is what the reference does without them.

All that scripts give is decided by the address and by what is seen there. So a thread that goes back to
a visit, and runs to its end again, must have the events, the messages and the values of one that never
did; and what came before the visit, or beside it, must not have run again.
"""

import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

import specs
from comparison import check_events, expected_events, name_at
from conversations import Case, Thread, hold, settling
from helpers import Async, Drive, Sync, unvoided
from hypothesis import event, given
from hypothesis import strategies as st
from lanes import Lane
from record import rendered
from test_spine import TEXTS, cases, file, share

import agentgraph as ag

__all__ = ["file"]
MOST_RESUMES = 500
NUMBERS = st.lists(st.integers(0, 2**16), min_size=1, max_size=3)
SIBLINGS = st.sampled_from(("keep", "keep", "keep", "rerun"))


class GoingBack:
    """A thread that has ended, and goes back."""

    def __init__(self, thread: Thread) -> None:
        self.thread, self.turns = thread, len(thread.turns)

    def go(self, number: int, siblings: str, *, by_step: bool) -> ag.Visit:
        """Go back to one of the visits, and run to the end of its turn.

        Scripts count their calls, so no activation is entered in its middle.
        """
        thread = self.thread
        visits = list({(each.turn, each.address): each for each in thread.visits()[::-1]}.values())
        to = visits[number % len(visits)]
        thread.record_anew()
        if by_step:
            thread.call("rewind", thread.id, to.step, siblings=siblings)
        else:
            thread.call("rewind", thread.id, to.address, turn=to.turn, siblings=siblings)
        for _ in range(MOST_RESUMES):
            questions = thread.pending()
            if not questions and thread.error is None:
                break
            thread.resume(*thread.some_answers(questions), **settling(thread.error))
        self.turns = to.turn + 1
        return to

    def check(self) -> Lane:
        """Compare what was heard, what is replayed, and what is left with the reference."""
        thread, case, lane = self.thread, self.thread.case, Lane()
        heard = [each for each in thread.heard if not each.partial]
        assert unvoided(heard) == thread.events()
        for number in range(self.turns):
            lane.write(case.values)
            expected = expected_events(case.tree, lane, case.texts[number])
            check_events([each for each in heard if each.turn == number], expected)
        state = thread.state()
        assert rendered(state["messages"]) == [said.message for said in lane.history]
        assert state["values"] == lane.values
        return lane

    def check_kept(self, to: ag.Visit, lane: Lane) -> None:
        """Check that nothing before a visit has run again, and nothing in branches beside it."""
        kinds = {spec.name: spec for spec in specs.walk(self.thread.case.tree)}
        order = list(lane.saw)
        first = next((i for i, at in enumerate(order) if is_inside(at, to.address)), None)
        for at in self.thread.record.saw:
            if not (is_inside(at, to.address) or is_inside(to.address, at)):
                around = kinds.get(name_at(common(at, to.address)))
                beside = isinstance(around, specs.Parallel | specs.Each) and around.on_error != "first"
                assert not beside, (at, to)
                assert first is None or order.index(at) > first, (at, to)


def is_inside(at: str, outer: str) -> bool:
    """Return whether an address is another one, or inside it."""
    return at == outer or (at.startswith(outer) and at[len(outer)] in "/[({#")


def common(one: str, other: str) -> str:
    """Return the address around two others that are not inside each other, nor attempts of one."""
    pairs = list(zip(one.split("/"), other.split("/"), strict=False))
    same = list(takewhile(lambda pair: pair[0] == pair[1], pairs))
    branches = {re.split(r"[{[]", part)[0] for part in pairs[len(same)]}
    return "" if len(branches) == 1 else "/".join(part for part, _ in same)


@share(0.3)
@given(
    case=cases(texts=TEXTS),
    drive=st.sampled_from((Sync, Async)),
    place=st.sampled_from(("memory", "memory", "memory", "file", "file", "database")),
    numbers=NUMBERS,
    siblings=SIBLINGS,
    by_step=st.sampled_from((False, False, True)),
)
def test_a_thread_that_goes_back_does_what_the_reference_does(
    file: Path,
    database: str,
    case: Case,
    drive: Drive,
    place: str,
    numbers: Sequence[int],
    siblings: str,
    by_step: bool,
) -> None:
    places = {"memory": None, "file": file, "database": database}
    thread = Thread(case, drive, places[place])
    hold(thread)
    back = GoingBack(thread)
    for number in numbers:
        to = back.go(number, siblings, by_step=by_step)
        lane = back.check()
        if siblings == "keep" and len(case.texts) == 1 and not by_step:
            back.check_kept(to, lane)
        event(f"depth {to.address.count('/')}")
