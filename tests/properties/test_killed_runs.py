"""Random trees whose processes are killed at random: what was told is what the thread tells."""

import json
import pickle
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import killed_process
import pytest
import specs
from building import build, declared
from conversations import MOST_RESUMES, Case, as_argument, some_of
from forking import Forker, serving
from helpers import check_heard, read
from hypothesis import event, given
from record import Record
from test_spine import EXAMPLES, cases, share

import agentgraph as ag

ALL = 1000
"""From so many examples on each save is tried, with fewer each fourth where there are many."""
MOST_KILLS = 8
THREAD = "t"

Death = tuple[str, int]
"""Whether a process dies behind saves or behind events, and behind how many; 0 for none."""
UNHARMED: Death = ("saved", 0)

Request = tuple[str, tuple[Any, ...], dict[str, Any]]
"""A method of a runner with its arguments."""


@pytest.fixture(scope="module")
def forker() -> Iterator[Forker]:
    with serving(killed_process.__file__) as started:
        yield started


class _Killed:
    """A thread in a file, each request to which is made by a process of its own."""

    def __init__(self, case: Case, folder: Path, forker: Forker, mode: str) -> None:
        self._case, self._folder, self._forker, self._mode = case, folder, forker, mode
        self.heard: list[ag.AgentEvent] = []
        self._number = 0

    def ask(self, request: Request, dies: str, behind: int) -> dict[str, Any] | None:
        """Make a request in a process that dies; return how it ended, None if it was killed."""
        at, number = self._folder, self._number
        self._number += 1
        (at / "request").write_bytes(pickle.dumps((self._case, *request)))
        job = {"folder": str(at), "number": number, "mode": self._mode, "dies": dies, "behind": behind}
        self._forker.start(**job)
        code = self._forker.wait()
        self.heard += read((at / f"told-{number}").read_text().splitlines())
        assert code in (0, -9)
        ended: dict[str, Any] | None = json.loads((at / "ended").read_text()) if code == 0 else None
        return ended

    def look(self, see: Callable[[ag.Runner], Any]) -> Any:
        """Return what a new runner sees of the thread."""
        agent = build(self._case.tree, Record())
        with ag.sqlite_saver(self._folder / "threads.db") as saver:
            return see(ag.Runner(agent, checkpointer=saver, values=declared(self._case.tree)))


def _talk(killed: _Killed, case: Case, deaths: Iterable[Death]) -> int:
    """Run two turns to their ends, in processes that die; compare wherever a run ended.

    Returns:
        How many of them died.
    """
    choices, dying = random.Random(case.seed), iter(deaths)
    kills, turns = 0, 0
    ended: dict[str, Any] | None = {"failed": False, "conflict": []}
    questions: Sequence[ag.Interrupt] = ()
    options: dict[str, Any] = {"stream": case.stream}
    for _ in range(MOST_RESUMES):
        is_over = ended is not None and not questions and not ended["failed"]
        if is_over and turns == 2:
            return kills
        if is_over or not killed.heard or choices.random() < 0.05:
            turns += is_over
            given = {"thread_id": THREAD, "values": case.values, "drop_pending": True, **options}
            request: Request = "run", (f"hello {turns}",), given
        else:
            answers = as_argument(some_of(questions, choices), questions, choices)
            names = ended["conflict"] if ended else []
            settling = {"values": dict.fromkeys(names, "settled")} if names else {}
            request = "resume", (THREAD, *answers), {**options, **settling}
        ended = killed.ask(request, *next(dying, UNHARMED))
        kills += ended is None
        if ended is not None:
            check_heard(killed.heard, killed.look(lambda runner: list(runner.events(THREAD))))
        questions = killed.look(_pending)
    raise AssertionError(f"the turns have not ended after {MOST_RESUMES} requests")


def _pending(runner: ag.Runner) -> Sequence[ag.Interrupt]:
    try:
        return runner.pending(THREAD)
    except ag.UnknownThreadError:
        return []


@share(0.06)
@given(cases())
def test_what_killed_processes_told_is_what_the_thread_tells(forker: Forker, case: Case) -> None:
    _try(case, forker, "sync")


@share(0.06)
@given(cases())
def test_what_killed_async_processes_told_is_what_the_thread_tells(forker: Forker, case: Case) -> None:
    _try(case, forker, "async")


def _try(case: Case, forker: Forker, mode: str) -> None:
    choices = random.Random(case.seed)
    deaths = [(choices.choice(("saved", "told")), choices.randint(1, 25)) for _ in range(MOST_KILLS)]
    with TemporaryDirectory() as folder:
        event(f"killed {_talk(_Killed(case, Path(folder), forker, mode), case, deaths)} times")


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
TREES = {
    "alone": specs.Sequential("s", (FIRST, BOSS, TRIES)),
    "beside": specs.Sequential("s", (FIRST, BOSS, PAIR, TRIES)),
}
"""Of the requests the first asks, the second fails, the third ends the turn. Where something may run
beside others, LangGraph tells a step before it is saved; else it saves it first."""


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("before", range(4))
def test_a_kill_behind_any_save_of_a_request_loses_nothing(
    forker: Forker, tree: str, mode: str, before: int, tmp_path: Path
) -> None:
    case = Case(TREES[tree], {}, 0)
    for behind in range(1, 100, 1 if tree == "alone" or EXAMPLES >= ALL else 4):
        folder = tmp_path / str(behind)
        folder.mkdir()
        deaths: list[Death] = [*[UNHARMED] * before, ("saved", behind)]
        if not _talk(_Killed(case, folder, forker, mode), case, deaths):
            assert behind > 1
            return
    raise AssertionError("there is no end to the saves")
