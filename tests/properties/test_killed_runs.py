"""Random trees whose processes are killed at random: readers and the thread agree in the end."""

import json
import pickle
import random
from collections import defaultdict
from contextlib import suppress
from itertools import chain, repeat
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import specs
from conversations import MOST_RESUMES, Case, Thread, as_argument, some_of
from helpers import Sync, check_heard, read
from helpers.forking import Forker
from hypothesis import event, given
from hypothesis import strategies as st
from test_spine import EXAMPLES, cases, share

import agentgraph as ag

ALL = 1000
"""From so many examples on each save is tried, and the thread goes on to its end."""
FEW = {"alone": 5, "beside": 11, "items": 17, "calls": 17}
STEPS = FEW if EXAMPLES < ALL else defaultdict(lambda: 1)
"""Each how-manyth save is tried: from another one on in each case."""
MOST_KILLS = 8

Death = tuple[str, int]
"""Whether a process dies after saves or after events, and after how many; 0 for none."""
UNHARMED: Death = ("saved", 0)


class Killed(Thread):
    """A thread with two turns, each request to which is made by a process of its own.

    It is kept in a file of a folder, or in a database.

    Attributes:
        kills: How many of the processes died.
        ended: How the last process ended, if it was not killed.
    """

    def __init__(self, case: Case, folder: Path, forker: Forker, mode: str, url: str = "") -> None:
        super().__init__(case, Sync, url or folder / "threads.db")
        self.url = url
        self.id, self.folder, self._forker, self._mode, self._number = "t", folder, forker, mode, 0
        self.turns_begun = self.kills = 0
        self.ended: dict[str, Any] | None = {"failed": False, "conflicts": []}

    def copied(self, folder: Path) -> "Killed":
        """Return the same thread in another folder."""
        copytree(self.folder, folder)
        made = Killed(self.case, folder, self._forker, self._mode)
        made.heard, made._number, made.ended = [*self.heard], self._number, self.ended
        made.turns_begun = self.turns_begun
        made.choices.setstate(self.choices.getstate())
        return made

    def finish(self, *deaths: Death) -> None:
        """Make requests up to the end of the second turn; the first processes die."""
        for _, death in zip(range(MOST_RESUMES), chain(deaths, repeat(UNHARMED)), strict=False):
            if not self.request(death):
                return
        raise AssertionError(f"the turns have not ended after {MOST_RESUMES} requests")

    def finish_and_delete(self, *deaths: Death) -> None:
        """Do as `finish` does, and leave nothing to the next thread of the database."""
        try:
            self.finish(*deaths)
        finally:
            with suppress(ag.UnknownThreadError):
                self.use(lambda r: r.delete(self.id), lambda r: r.adelete(self.id))

    def request(self, death: Death) -> bool:
        """Make the next request, if there is one; where it is not killed, compare what was heard."""
        choices, ended, questions = self.choices, self.ended, self.pending()
        is_over = ended is not None and not questions and not ended["failed"]
        if is_over and self.turns_begun == 2:
            return False
        if is_over or not self.heard or choices.random() < 0.05:
            self.turns_begun += is_over
            given = {"thread_id": self.id, "values": self.case.values, "drop_pending": True}
            self._ask(death, "run", f"hello {self.turns_begun}", **given)
        else:
            answers = as_argument(some_of(questions, choices), questions, choices)
            conflicts = ended["conflicts"] if ended else []
            settling = {"values": dict.fromkeys(conflicts, specs.SETTLED)} if conflicts else {}
            self._ask(death, "resume", self.id, *answers, **settling)
        self.kills += self.ended is None
        if self.ended is not None:
            check_heard(self.heard, self.events())
        self.look()
        return True

    def rewind(self, death: Death, to: ag.Visit, **options: Any) -> None:
        """Go back to a visit; if that is not killed, compare what was heard."""
        self._ask(death, "rewind", self.id, to.address, turn=to.turn, **options)
        self.kills += self.ended is None
        if self.ended is not None:
            check_heard(self.heard, self.events())
        self.turns_begun = len(self.look().turns)

    def look(self) -> ag.Thread:
        """Return what is on the thread; it is listed as that."""
        left: ag.Thread = self.use(lambda r: r.thread(self.id), lambda r: r.athread(self.id))
        known = [] if left.status == "new" else [(self.id, left.status)]
        for status in (None, left.status):
            listed = self.use(lambda r, s=status: r.threads(s), lambda r, s=status: r.athreads(s))
            assert [(each.thread_id, each.status) for each in listed] == known
        is_waiting = left.status == "paused" or (left.status == "failed" and bool(left.pending))
        assert is_waiting == bool(left.pending)
        return left

    def pending(self) -> list[ag.Interrupt]:
        try:
            return super().pending()
        except ag.UnknownThreadError:
            return []

    def _ask(self, death: Death, method: str, *args: Any, **options: Any) -> None:
        at, number, (dies, after) = self.folder, self._number, death
        self._number += 1
        request = self.case, self.is_answered, method, args, options
        (at / "request").write_bytes(pickle.dumps(request))
        job = {"folder": str(at), "number": number, "mode": self._mode, "dies": dies, "after": after}
        job["url"] = self.url
        self._forker.start(**job)
        code = self._forker.wait()
        self.heard += read((at / f"heard-{number}").read_text().splitlines())
        assert code in (0, -9)
        self.ended = json.loads((at / "ended").read_text()) if code == 0 else None


@share(0.07)
@given(case=cases(), mode=st.sampled_from(("sync", "async")))
def test_what_killed_processes_gave_is_what_the_thread_gives(
    killer: Forker, case: Case, mode: str
) -> None:
    choices = random.Random(case.seed)
    deaths = [(choices.choice(("saved", "heard")), choices.randint(1, 25)) for _ in range(MOST_KILLS)]
    with TemporaryDirectory() as folder:
        killed = Killed(case, Path(folder), killer, mode)
        killed.finish(*deaths)
    event(f"killed {killed.kills} times")


@share(0.05)
@given(case=cases(), mode=st.sampled_from(("sync", "async")))
def test_what_killed_processes_gave_is_what_the_thread_in_a_database_gives(
    killer: Forker, database: str, case: Case, mode: str
) -> None:
    """Its lock is free at once: the next process begins when the kernel has ended the killed one."""
    choices = random.Random(case.seed)
    deaths = [(choices.choice(("saved", "heard")), choices.randint(1, 25)) for _ in range(MOST_KILLS)]
    with TemporaryDirectory() as folder:
        killed = Killed(case, Path(folder), killer, mode, database)
        killed.finish_and_delete(*deaths)
    event(f"killed {killed.kills} times")


def _says(*calls: tuple[specs.Item, ...]) -> tuple[tuple[specs.Call, ...], ...]:
    return (tuple(map(specs.Call, calls)),)


def _said(text: str) -> specs.Item:
    return "message", ("ai", text, None)


FIRST = specs.Function("first", "function", _says((_said("one"),)))
PAIR = specs.Parallel(
    "pair",
    (
        specs.Function("left", "generator", _says((_said("two"), _said("three")))),
        specs.Function("right", "function", _says((_said("four"),))),
    ),
)
BOSS = specs.Human("boss", "Well?")
TRIES = specs.Function("tries", "function", _says((_said("five"),), (("error", "@ fails"),)))
ITEMS = specs.Each(
    "each",
    specs.Sequential("do", (PAIR.sub_agents[0], BOSS)),
    ("messages", 0),
    "keys",
    output_key="out",
    errors_key="bad",
)
CALLS = specs.Flow("flow", ((ITEMS.agent, "input"),), ((0, False), (0, True)), "gathered")
TREES = {
    "alone": specs.Sequential("s", (FIRST, BOSS, TRIES)),
    "beside": specs.Sequential("s", (FIRST, BOSS, PAIR, TRIES)),
    "items": specs.Sequential("s", (FIRST, ITEMS, TRIES)),
    "calls": specs.Sequential("s", (FIRST, CALLS, TRIES)),
}
"""Of the requests the first asks, the second fails, the third ends the turn. Where something may run
beside others, LangGraph streams a step before it is saved; else it saves it first."""


def _check_said(killed: Killed) -> None:
    """Check that what the user said is there, also where nothing else was saved."""
    left, wanted = killed.look(), {f"hello {number + 1}" for number in range(killed.turns_begun)}
    assert {each.text for turn in left.turns for each in turn.messages} == wanted
    assert wanted <= {each.text for each in left.messages if each.type == "human"}


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("before", range(4))
@pytest.mark.by_turns("mode")
def test_a_kill_after_any_save_of_a_request_loses_nothing(
    killer: Forker, tree: str, mode: str, before: int, tmp_path: Path
) -> None:
    begun = Killed(Case(TREES[tree], {}, 0), tmp_path / "begun", killer, mode)
    begun.folder.mkdir()
    for _ in range(before):
        begun.request(UNHARMED)
        _check_said(begun)
    first = 1 + (before + (mode == "async")) % STEPS[tree]
    for after in range(first, 100, STEPS[tree]):
        killed = begun.copied(tmp_path / str(after))
        if EXAMPLES >= ALL:
            killed.finish(("saved", after))
        else:
            for death in (("saved", after), UNHARMED, UNHARMED):
                killed.request(death)
                _check_said(killed)
                if not killed.kills:
                    break
        if not killed.kills:
            assert after > first
            return
    raise AssertionError("there is no end to the saves")
