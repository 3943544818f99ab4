"""Random trees whose processes are killed while another process answers their questions."""

import random
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import scripts
from answering import beside_a_person, hurried
from conversations import Case
from helpers import read
from helpers.forking import Forker
from hypothesis import event, given
from hypothesis import strategies as st
from test_killed_runs import ALL, MOST_KILLS, Death, Killed
from test_spine import EXAMPLES, cases, share

import agentgraph as ag

KILLS = 2 if EXAMPLES < ALL else MOST_KILLS


class Answering(Killed):
    """A thread whose running processes get answers from this one.

    Attributes:
        taken: The ids of the questions whose answers were taken.
    """

    is_answered = True

    def __init__(self, case: Case, folder: Path, forker: Forker, mode: str, url: str = "") -> None:
        super().__init__(case, folder, forker, mode, url)
        self.taken: set[str] = set()
        self._has_ended = threading.Event()

    def look(self) -> ag.Thread:
        left = super().look()
        assert self.taken.isdisjoint(question.id for question in left.pending)
        return left

    def _ask(self, death: Death, method: str, *args: Any, **options: Any) -> None:
        self._has_ended.clear()
        helper = threading.Thread(target=self._answer, args=(self.folder / f"heard-{self._number}",))
        helper.start()
        try:
            super()._ask(death, method, *args, **options)
        finally:
            self._has_ended.set()
            helper.join()

    def _answer(self, heard: Path) -> None:
        """Answer some questions of a process soon after it told them."""
        choices, seen = random.Random(self._number), 0
        while not self._has_ended.is_set():
            lines = heard.read_text().splitlines() if heard.exists() else []
            whole = [each for each in lines[seen:] if each.endswith("}")]
            seen += len(whole)
            for told in read(whole):
                if told.action and (asked := told.action.interrupted) and choices.random() < 0.5:
                    self._take(asked)
            time.sleep(0.01)

    def _take(self, asked: ag.Interrupt) -> None:
        answers = {asked.id: scripts.answer(asked.address, asked.value)}
        try:
            self.use(lambda r: r.answer(self.id, answers), lambda r: r.aanswer(self.id, answers))
        except (ag.UnknownInterruptError, ag.UnknownThreadError):
            return
        self.taken.add(asked.id)


@share(0.1)
@given(
    case=cases().map(beside_a_person).map(hurried),
    mode=st.sampled_from(("sync", "async")),
    in_file=st.booleans(),
)
def test_answers_to_killed_processes_are_neither_lost_nor_taken_twice(
    killer: Forker, database: str, case: Case, mode: str, in_file: bool
) -> None:
    choices = random.Random(case.seed)
    deaths = [(choices.choice(("saved", "heard")), choices.randint(1, 25)) for _ in range(KILLS)]
    with TemporaryDirectory() as folder:
        killed = Answering(case, Path(folder), killer, mode, "" if in_file else database)
        killed.finish_and_delete(*deaths)
    event(f"killed {killed.kills} times")
    event(f"{min(len(killed.taken), 4)} answers taken")
